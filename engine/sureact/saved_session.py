"""The file of a saved session: token ids, and keys and values of those that were cached. Safetensors, never pickle."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from sureact.errors import SessionError

if TYPE_CHECKING:
    from safetensors import safe_open

    from sureact.config import ResolvedConfig
    from sureact.execution.kv_transfer import LayerKV

FORMAT_VERSION = 1

_METADATA_KEY = "sureact_session"
_TOKEN_IDS = "token_ids"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOrigin:
    """What a session was made with."""

    model_name: str
    fingerprint: str
    """Of the files of the model: token ids mean nothing to another one."""
    kv_settings: dict[str, str]
    """What keys and values depend on beside the model and the tokens."""

    @staticmethod
    def of(config: ResolvedConfig, fingerprint: str) -> SessionOrigin:
        """Describe an engine."""
        import torch

        from sureact import __version__
        from sureact_kernels.cpu.library import library

        settings = {
            "sureact": __version__,
            "torch": torch.__version__,
            "cpu": torch.backends.cpu.get_cpu_capability(),
            "cpu_ops": "torch" if library() is None else "c++",
            "device": config.device.partition(":")[0],
            "quantization": config.quantization,
            "dtype": config.dtype,
            "kv_cache_dtype": config.kv_cache_dtype,
            "determinism": config.determinism,
        }
        if config.tensor_parallel_size > 1:  # their sums are others than those of one process
            settings["tensor_parallel_size"] = str(config.tensor_parallel_size)
        return SessionOrigin(model_name=config.model_name, fingerprint=fingerprint, kv_settings=settings)


@dataclass(frozen=True, slots=True)
class SavedSession:
    """What was in a file."""

    token_ids: list[int]
    layers: list[LayerKV]
    """Empty where none were saved, or where they cannot be used."""
    reason: str
    """Why layers that were saved cannot be used; empty if they can, or if none were."""


def write_session(
    path: str | os.PathLike[str], origin: SessionOrigin, token_ids: Sequence[int], layers: Sequence[LayerKV]
) -> None:
    """Write a session; the file appears when it is whole, in place of an earlier one.

    Raises:
        SessionError: `path` names no file, or the file cannot be written.
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    target = _file_path(path)
    # Other processes and threads may save to the same path at the same time.
    unfinished = target.with_name(f".{target.name}.{uuid4().hex}.unfinished")
    tensors = {_TOKEN_IDS: torch.tensor(list(token_ids), dtype=torch.int64)}
    for index, (keys, values) in enumerate(layers):
        tensors |= {_keys_name(index): keys.contiguous(), _values_name(index): values.contiguous()}
    metadata = {"format_version": FORMAT_VERSION, "num_layers": len(layers), **asdict(origin)}
    try:
        save_file(tensors, unfinished, {_METADATA_KEY: json.dumps(metadata)})
        unfinished.replace(target)
    except (OSError, SafetensorError) as error:
        raise SessionError(f"The session cannot be written to {target}: {error}.") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()


def read_session(path: str | os.PathLike[str], origin: SessionOrigin) -> SavedSession:
    """Read a session for an engine described by `origin`.

    Raises:
        SessionError: `path` names no file, or the file cannot be read, is damaged, is not a session, or belongs to
            another model.
    """
    from safetensors import SafetensorError, safe_open

    target = _file_path(path)
    try:
        with safe_open(target, framework="pt", device="cpu") as file:
            metadata = _metadata(file, target)
            _check_model(metadata, origin, target)
            _check_tensors(file, target, metadata["num_layers"])
            token_ids = _token_ids(file, target)
            has_layers = metadata["num_layers"] > 0
            reason = _differing_settings(metadata, origin) if has_layers else ""
            layers = _layers(file, target, metadata["num_layers"], len(token_ids)) if has_layers and not reason else []
    except (OSError, SafetensorError) as error:
        raise SessionError(
            f"{target} cannot be read as a session ({error}). Session files are safetensors, written by Session.save."
        ) from error
    return SavedSession(token_ids, layers, reason)


def _file_path(path: object) -> Path:
    target = Path(cast("str", path)) if isinstance(path, (str, os.PathLike)) else Path()
    if not target.name or "\0" in str(target):
        raise SessionError(f"The path of a session is {path!r}; it must name a file.")
    return target


def _keys_name(layer: int) -> str:
    return f"layers.{layer}.keys"


def _values_name(layer: int) -> str:
    return f"layers.{layer}.values"


def _metadata(file: safe_open, path: Path) -> dict[str, Any]:
    try:
        raw = json.loads((file.metadata() or {}).get(_METADATA_KEY, "null"))
    except json.JSONDecodeError as error:
        raise _damaged(path, "its description is not JSON") from error
    if raw is None:
        raise SessionError(f"{path} is a safetensors file, but not a session. Give a file that Session.save wrote.")
    metadata = cast("dict[str, Any]", raw) if isinstance(raw, dict) else {}
    version = metadata.get("format_version")
    if version != FORMAT_VERSION:
        raise SessionError(
            f"{path} has session format {version!r}; this version of sureact reads format {FORMAT_VERSION}. "
            "Load it with the version that wrote it."
        )
    types = {"model_name": str, "fingerprint": str, "kv_settings": dict, "num_layers": int}
    for name, kind in types.items():
        if type(metadata.get(name)) is not kind:
            raise _damaged(path, f"{name} is {metadata.get(name)!r}")
    if not all(isinstance(value, str) for value in metadata["kv_settings"].values()):
        raise _damaged(path, f"kv_settings is {metadata['kv_settings']!r}")
    return metadata


def _check_model(metadata: dict[str, Any], origin: SessionOrigin, path: Path) -> None:
    if metadata["fingerprint"] != origin.fingerprint:
        raise SessionError(
            f"{path} was saved with {metadata['model_name']} (files {metadata['fingerprint'][:12]}); this engine runs "
            f"{origin.model_name} (files {origin.fingerprint[:12]}), to which its token ids mean nothing. Load it into "
            "an engine with the same model files."
        )


def _differing_settings(metadata: dict[str, Any], origin: SessionOrigin) -> str:
    """Say in what the makers of keys and values differ; empty if in nothing."""
    saved = metadata["kv_settings"]
    differing = [name for name in {**saved, **origin.kv_settings} if saved.get(name) != origin.kv_settings.get(name)]
    return ", ".join(f"{name} was {saved.get(name)}, is {origin.kv_settings.get(name)}" for name in differing)


def _check_tensors(file: safe_open, path: Path, num_layers: int) -> None:
    names = set(file.keys())
    # Counted first: a damaged number may be too large to list the names that it stands for.
    if len(names) != 1 + 2 * num_layers:
        raise _damaged(path, f"num_layers is {num_layers}, which does not go with {len(names)} tensors")
    layers = range(num_layers)
    missing = {_TOKEN_IDS, *map(_keys_name, layers), *map(_values_name, layers)} - names
    if missing:
        raise _damaged(path, f"it has no {min(missing)}")


def _token_ids(file: safe_open, path: Path) -> list[int]:
    import torch

    tensor = file.get_tensor(_TOKEN_IDS)
    if tensor.dtype != torch.int64 or tensor.dim() != 1:
        raise _damaged(path, f"{_TOKEN_IDS} are {tensor.dtype} of shape {tuple(tensor.shape)}")
    return tensor.tolist()


def _layers(file: safe_open, path: Path, num_layers: int, num_tokens: int) -> list[LayerKV]:
    layers = [(file.get_tensor(_keys_name(i)), file.get_tensor(_values_name(i))) for i in range(num_layers)]
    first = layers[0][0]
    tensors = [tensor for pair in layers for tensor in pair]
    if first.dim() != 3 or len(first) > num_tokens or any(tensor.shape != first.shape for tensor in tensors):
        raise _damaged(path, f"keys and values have shapes {sorted({tuple(tensor.shape) for tensor in tensors})}")
    return layers


def _damaged(path: Path, what: str) -> SessionError:
    return SessionError(f"The session file {path} is damaged: {what}. Save the session again.")
