"""A GGUF file written once as a model folder: bfloat16 safetensors, config and a tokenizer without unused entries."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sureact.errors import CheckpointError, DiskSpaceError, SureactError, UnsupportedModelError
from sureact.weights.config_json import read_json_object, read_token_ids

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_EOS_NAMES = ("<|im_end|>", "<|endoftext|>")


def convert_gguf(gguf_path: Path, destination_folder: Path, progress: Callable[[str], None]) -> None:
    """Write a GGUF file as a model folder; the folder appears only when it is whole.

    The weights are dequantized by transformers' reader. Entries of the tokenizer that the file marks as unused
    (`[PAD151665]` ... of Qwen) are dropped: they would otherwise be tokens like any other. The end-of-sequence ids
    become the file's own and, where the vocabulary has them, `<|im_end|>` and `<|endoftext|>`.

    Args:
        gguf_path: the file; it is not changed.
        destination_folder: must not exist; its parent must.
        progress: called with each phase in words.

    Raises:
        CheckpointError: the file is damaged.
        UnsupportedModelError: transformers cannot read this architecture from GGUF.
        DiskSpaceError: the disk is full.
    """
    progress("reading the file")
    architecture, unused_ids = _read_header(gguf_path)
    unfinished = destination_folder.with_name(destination_folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    from safetensors import SafetensorError

    try:
        unfinished.mkdir()
        with _silent_transformers():
            progress("converting the tokenizer")
            _write_tokenizer(gguf_path, unfinished, unused_ids)
            progress("converting the weights")
            _write_model(gguf_path, unfinished)
        _write_generation_config(unfinished)
        unfinished.rename(destination_folder)
    except SureactError:
        raise
    except (ValueError, KeyError, ImportError) as error:
        raise UnsupportedModelError(
            f"transformers cannot read {gguf_path} (architecture {architecture!r}): {error}"
        ) from error
    except (OSError, SafetensorError) as error:
        # Half a model would only keep a full disk full.
        shutil.rmtree(unfinished, ignore_errors=True)
        raise _disk_error(gguf_path, destination_folder.parent, error) from error


def _disk_error(gguf_path: Path, folder: Path, error: Exception) -> SureactError:
    # safetensors passes the system's error on as text only.
    is_full = getattr(error, "errno", None) == errno.ENOSPC or f"(os error {errno.ENOSPC})" in str(error)
    if not is_full:
        return CheckpointError(f"{gguf_path} cannot be converted into {folder}: {error}")
    free_bytes = shutil.disk_usage(folder).free
    return DiskSpaceError(
        f"The disk of {folder} is full: it has {free_bytes / 1e9:.1f} GB free, and converting {gguf_path} of "
        f"{gguf_path.stat().st_size / 1e9:.1f} GB takes about four times as much for a 4-bit file. Free some space, or "
        "point SUREACT_HOME to another disk."
    )


def _read_header(gguf_path: Path) -> tuple[str, frozenset[int]]:
    """Return the architecture and the ids that the file marks as unused; checks that all tensors lie in the file."""
    from gguf import GGUFReader, TokenType

    try:
        fields = GGUFReader(gguf_path).fields
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise CheckpointError(f"{gguf_path} is truncated or not a GGUF file ({error}); fetch it again.") from error
    missing = [key for key in ("general.architecture", "tokenizer.ggml.tokens") if key not in fields]
    if missing:
        raise CheckpointError(f"{gguf_path} has no {missing[0]}; it is not a language model.")
    types = fields.get("tokenizer.ggml.token_type")
    token_types = cast("list[int]", types.contents()) if types else []
    unused_ids = frozenset(i for i, token_type in enumerate(token_types) if token_type == TokenType.UNUSED)
    return str(fields["general.architecture"].contents()), unused_ids


def _write_tokenizer(gguf_path: Path, folder: Path, unused_ids: frozenset[int]) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name, local_files_only=True)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer.json"
    spec = without_tokens(read_json_object(path), unused_ids)
    if type(tokenizer).__name__ == "Qwen2Tokenizer":
        # What the class does when it loads the folder, and the GGUF reader leaves out of the file.
        spec["normalizer"] = {"type": "NFC"}
    path.write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")


def without_tokens(spec: Mapping[str, object], token_ids: frozenset[int]) -> dict[str, object]:
    """Return a tokenizer.json in which the tokens of these ids do not exist."""
    model = cast("dict[str, object]", spec["model"])
    vocab = cast("dict[str, int]", model["vocab"])
    added = cast("list[dict[str, object]]", spec["added_tokens"])
    return {
        **spec,
        "added_tokens": [token for token in added if token["id"] not in token_ids],
        "model": {**model, "vocab": {text: i for text, i in vocab.items() if i not in token_ids}},
    }


def _write_model(gguf_path: Path, folder: Path) -> None:
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM

    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
        gguf_path.parent, gguf_file=gguf_path.name, dtype=torch.bfloat16, local_files_only=True
    )
    # save_pretrained refuses what came from GGUF.
    tensors = {name: tensor.contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)  # the embedding under a second name
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config |= {"architectures": [type(model).__name__], "dtype": "bfloat16"}
    # GGUF keeps it in float32: 9.999999974752427e-07 is meant to be 1e-06.
    config["rms_norm_eps"] = float(f"{config['rms_norm_eps']:.6g}")
    config = {key: value for key, value in config.items() if not key.endswith("_name_or_path")}
    _write_json(folder / "config.json", config)


def _write_generation_config(folder: Path) -> None:
    vocab = cast("dict[str, dict[str, int]]", read_json_object(folder / "tokenizer.json")["model"])["vocab"]
    config = read_json_object(folder / "config.json")
    eos_ids = [*read_token_ids(config, "eos_token_id"), *(vocab[name] for name in _EOS_NAMES if name in vocab)]
    _write_json(folder / "generation_config.json", {"eos_token_id": list(dict.fromkeys(eos_ids))})


def _write_json(path: Path, value: Mapping[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


@contextmanager
def _silent_transformers() -> Generator[None]:
    """Keep the library's own progress bars and advice off the terminal: `progress` tells what happens."""
    from transformers import modeling_gguf_pytorch_utils
    from transformers.utils import logging

    gguf_reader: Any = modeling_gguf_pytorch_utils
    verbosity, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    # This one bar does not heed the library's own switch (transformers 5.24).
    with_bar, gguf_reader.tqdm = gguf_reader.tqdm, partial(gguf_reader.tqdm, disable=True)
    try:
        yield
    finally:
        gguf_reader.tqdm = with_bar
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
