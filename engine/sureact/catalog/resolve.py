"""From what a user calls a model to files on this disk. Never downloads."""

import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sureact.catalog.disk_space import require_disk_space
from sureact.catalog.model_catalog import CATALOG, find_entry, nearest_names
from sureact.catalog.pull import ConvertGguf
from sureact.catalog.store import ModelStore
from sureact.errors import CheckpointError, ConfigError, ModelNotFoundError

_CONVERSION_FACTOR = 5
"""Bytes to keep free per byte of a GGUF file: bfloat16 takes about four times as much as 4 bits with their scales."""


@dataclass(frozen=True, slots=True)
class ModelLocation:
    """Where a model lies on this disk."""

    name: str
    """The catalogue name or hub id; for a path of the user's, its last component."""
    path: Path
    """A folder with config.json and safetensors, or a GGUF file."""
    kind: Literal["folder", "gguf"]


def resolve_model(name_or_path: str, store: ModelStore) -> ModelLocation:
    """Find a model: by catalogue name, as a folder or `.gguf` file, or by hub id in the store or the hub's own cache.

    Raises:
        ModelNotFoundError: it is not on this disk; the message says how to get it, or which names look like it.
        CheckpointError: a folder or file is there but is not a model.
    """
    entry = find_entry(name_or_path)
    name = entry.name if entry else name_or_path
    if entry is None:
        # os.path, for what is no path at all (too long, an unknown user's home) is a name like any other.
        path = os.path.expanduser(name_or_path)
        if os.path.exists(path):
            return _resolve_path(Path(path))
    if _is_name(name, store):
        if store.has(name):
            return ModelLocation(name, store.path_of(name), "folder")
        if store.is_partial(name):
            raise ModelNotFoundError(f"{name!r} is only half downloaded; `sureact pull {name}` finishes it.")
        cached = _hub_cache_folder(name) if "/" in name else None
        if cached is not None:
            return ModelLocation(name, cached, "folder")
    raise _not_found(name, store)


def model_folder(
    location: ModelLocation, store: ModelStore, *, convert: ConvertGguf, progress: Callable[[str], None] | None = None
) -> Path:
    """Return the safetensors folder of a model; a GGUF file of the user's is converted into the store, once.

    The conversion is found again by the file's path, size and modification time: taking the sum of gigabytes would
    slow down each start.

    Raises:
        CheckpointError: the GGUF file cannot be converted.
        DiskSpaceError: the disk of the store is too small for the conversion.
        ConfigError: the store cannot be written.
    """
    if location.kind == "folder":
        return location.path
    stat = location.path.stat()
    identity = f"{location.path.resolve()}\n{stat.st_size}\n{stat.st_mtime_ns}"
    name = f"gguf-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    with store.lock(name, wait=True):
        if not store.has(name):
            shutil.rmtree(store.partial_path_of(name), ignore_errors=True)
            partial = store.create_partial(name)
            require_disk_space(partial, _CONVERSION_FACTOR * stat.st_size, purpose=f"Converting {location.path}")
            convert(location.path, partial / "converted", progress or (lambda _: None))
            store.install(name, partial / "converted")
    return store.path_of(name)


def _resolve_path(path: Path) -> ModelLocation:
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise CheckpointError(f"{path} has no config.json; a model folder holds config.json and safetensors files.")
        return ModelLocation(path.resolve().name, path, "folder")
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error}.") from error
    if magic != b"GGUF":
        raise CheckpointError(f"{path} is not a GGUF file; give a GGUF file or a folder with safetensors files.")
    return ModelLocation(path.stem, path, "gguf")


def _is_name(name: str, store: ModelStore) -> bool:
    try:
        store.path_of(name)
    except ConfigError:
        return False
    return True


def _hub_cache_folder(repo_id: str) -> Path | None:
    """Return the snapshot of a hub id in the hub's own cache, where other programs may have put it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        config = try_to_load_from_cache(repo_id, "config.json")
    except HFValidationError:
        return None
    if not isinstance(config, str):
        return None
    folder = Path(config).parent
    return folder if any(folder.glob("*.safetensors")) else None


def _not_found(name: str, store: ModelStore) -> ModelNotFoundError:
    if find_entry(name):
        return ModelNotFoundError(f"{name!r} is in the catalogue but not on this disk; `sureact pull {name}` gets it.")
    if name.endswith(".gguf") or name.startswith((".", "/", "~")):
        return ModelNotFoundError(f"{name} does not exist; give a folder with safetensors files or a .gguf file.")
    known = list(dict.fromkeys([*(entry.name for entry in CATALOG), *(model.name for model in store.models())]))
    nearest = nearest_names(name, known)
    hint = f"Did you mean {' or '.join(map(repr, nearest))}?" if nearest else f"Known are {', '.join(known)}."
    pull_hint = f" `sureact pull {name}` gets a model from the hub." if name.count("/") == 1 else ""
    return ModelNotFoundError(f"No model {name!r} on this disk. {hint}{pull_hint}")
