"""The slow path: transformers' own model, for what our modules do not serve or the device does not hold."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.weights.config_json import architectures, read_json_object, refuse_remote_code
from sureact.weights.model_config import read_model_config

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def native_support(folder: Path) -> str | None:
    """Return why our own modules cannot serve a model, or None when they can.

    Raises:
        UnsupportedModelError: nothing can: the checkpoint needs code of its own.
        CheckpointError: config.json is missing or damaged.
    """
    refuse_remote_code(read_json_object(folder / "config.json"))
    try:
        read_model_config(folder)
    except UnsupportedModelError as error:
        return str(error)
    return None


def load_transformers_model(
    folder: Path,
    *,
    dtype: torch.dtype,
    device_map: str | dict[str, str | int],
    max_memory: dict[int | str, int] | None = None,
) -> PreTrainedModel:
    """Load a model with transformers, spread by accelerate over devices, memory and disk. Slow to run.

    Only safetensors are read, from this disk. What fits nowhere else is offloaded to `offload/` in the model's folder.

    Args:
        folder: holds config.json and safetensors files.
        dtype: of the weights; a checkpoint's own quantization outranks it.
        device_map: "auto", a device for everything, or a device per module.
        max_memory: bytes per device that "auto" may fill; None lets accelerate measure.

    Raises:
        UnsupportedModelError: the checkpoint needs code of its own, transformers does not know the architecture, or a
            package that its quantization needs is not installed.
        CheckpointError: the weights cannot be read.
    """
    config = read_json_object(folder / "config.json")
    refuse_remote_code(config)
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    name = next(iter(architectures(config)), str(config.get("model_type")))
    try:
        return AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=dtype,
            device_map=device_map,
            max_memory=max_memory,
            offload_folder=folder / "offload",
            local_files_only=True,
            trust_remote_code=False,
            use_safetensors=True,
        ).eval()
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"transformers cannot read the weights in {folder}: {error}") from error
    except (ValueError, KeyError, ImportError, RuntimeError) as error:
        raise UnsupportedModelError(f"transformers cannot load {name} from {folder}: {error}") from error
