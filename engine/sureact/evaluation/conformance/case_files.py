"""Where cases come from: a file, a folder, or an archive of such files; and the schemas that they refer to."""

from __future__ import annotations

import json
import tarfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from sureact.errors import ConfigError
from sureact.evaluation.conformance.case_reading import DRAFT_FOLDERS, KINDS, read_cases

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from sureact.constraints.schema.keywords import Schema
    from sureact.evaluation.conformance.cases import ConformanceCase

_ARCHIVE_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")

_SERVED_AT = "http://localhost:1234/"
"""Where the JSON-Schema-Test-Suite has its remote schemas served."""


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file with cases. They are read anew each time: instances of a large corpus do not fit beside each other."""

    path: Path
    name: str
    """Its path inside the folder or archive."""
    draft: str | None
    """The nearest folder above it that is named after a draft."""
    num_cases: int

    def read(self, *, reorder: bool, resources: Mapping[str, Schema] | None = None) -> list[ConformanceCase]:
        """Return the cases; see `read_cases`."""
        document = _read_json(self.path, self.name)
        return read_cases(document, file=self.name, draft=self.draft, reorder=reorder, resources=resources) or []


@dataclass(frozen=True, slots=True)
class CaseFiles:
    """What was found under a path."""

    files: tuple[CaseFile, ...]
    ignored: tuple[str, ...]
    """JSON files of another shape."""
    damaged: tuple[str, ...]
    """Why files that could not be read are left out; each text begins with the file's name."""
    optional: tuple[str, ...]
    """Files in folders named `optional`, as the JSON-Schema-Test-Suite names what may fail; run by their own path."""

    @property
    def num_cases(self) -> int:
        """Cases in all files."""
        return sum(file.num_cases for file in self.files)


@contextmanager
def opened_cases(path: Path) -> Generator[CaseFiles]:
    """Find the cases of a file, a folder with all that is below it, or an archive, which is unpacked for the while.

    Hidden files, and files of other suffixes than `.json`, are passed over. A file that cannot be read is left out,
    unless it is all there is.

    Raises:
        ConfigError: there is nothing at `path`, or no case that can be read; an archive is damaged.
    """
    if not path.exists():
        raise ConfigError(f"{path} does not exist; give a file, folder or tar archive with cases.")
    if path.is_file() and path.name.endswith(_ARCHIVE_SUFFIXES):
        with TemporaryDirectory(prefix="sureact-conformance-") as folder:
            _unpack(path, Path(folder))
            yield _found(Path(folder).resolve(), path)
    else:
        yield _found(path.resolve(), path)


def read_remotes(folder: Path) -> dict[str, Schema]:
    """Return the schemas of a folder by every URI that they have: their `$id`, and where the test suite serves them.

    Raises:
        ConfigError: it is no folder, or a file in it is no schema.
    """
    if not folder.is_dir():
        raise ConfigError(f"The folder of remote schemas {folder} does not exist.")
    schemas: dict[str, Schema] = {}
    for path in _json_paths(folder):
        name = path.relative_to(folder).as_posix()
        schema = _read_json(path, name)
        if not isinstance(schema, dict | bool):
            raise ConfigError(f"{path} is no JSON schema: it must be an object or a boolean.")
        schemas[_SERVED_AT + quote(name)] = cast("Schema", schema)
        identifier = cast("dict[str, Any]", schema).get("$id") if isinstance(schema, dict) else None
        if isinstance(identifier, str) and ":" in identifier:
            schemas.setdefault(identifier.removesuffix("#"), cast("Schema", schema))
    return schemas


def _found(root: Path, given: Path) -> CaseFiles:
    files: list[CaseFile] = []
    ignored: list[str] = []
    damaged: list[str] = []
    optional: list[str] = []
    for path in [root] if root.is_file() else _json_paths(root):
        name = path.name if path == root else path.relative_to(root).as_posix()
        draft = next((part for part in reversed(path.parts) if part in DRAFT_FOLDERS), None)
        try:
            cases = read_cases(_read_json(path, name), file=name, draft=draft)
        except ConfigError as error:
            damaged.append(str(error))
            continue
        if cases is None:
            ignored.append(name)
        elif "optional" in name.split("/")[:-1]:
            optional.append(name)
        else:
            files.append(CaseFile(path, name, draft, len(cases)))
    if damaged and not files:
        raise ConfigError(damaged[0])
    if not files:
        what = f"{given} is of no known kind" if root.is_file() else f"{given} holds no file of a known kind"
        raise ConfigError(f"{what}. A file is {KINDS}.")
    return CaseFiles(tuple(files), tuple(ignored), tuple(damaged), tuple(optional))


def _json_paths(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob("*.json")
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )


def _read_json(path: Path, name: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read as JSON: {error}.") from error


def _unpack(archive: Path, folder: Path) -> None:
    try:
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ConfigError(f"The archive {archive} cannot be unpacked: {error}") from error
