"""Takes the paths of this machine out of an error's message: a model needs the name of a file, not where it lies."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

HIDDEN = "[...]"
"""Stands for the folders of a path."""

_SEPARATORS = r"/\\"
_FILE_URL = r"file:(?://[\w.-]*)?"
# In quotes a path may hold spaces, as Python's own messages write it.
_QUOTED = re.compile(
    rf"""(?P<quote>['"`])(?P<path>(?:{_FILE_URL})?(?:[{_SEPARATORS}]|[A-Za-z]:[{_SEPARATORS}])[^'"`\n]*)(?P=quote)"""
)
# What follows the host of a URL lies there, up to its query. A path may stand right behind an option: `-I/usr/include`.
_BARE = re.compile(
    rf"""(?P<url>(?<![\w+.-])(?!file:)[A-Za-z][A-Za-z0-9+.-]{{0,30}}://[^\s'"`<>?#/][^\s'"`<>?#]*)
    | (?:(?<!\S)-[A-Za-z]{{1,30}}|(?<![A-Za-z0-9_.~{_SEPARATORS}-]))
      (?P<path>(?:{_FILE_URL})?(?:/|\\\\|[A-Za-z]:[{_SEPARATORS}])[^\s'"`<>|:;,()\[\]{{}}]+)""",
    re.VERBOSE,
)


def without_host_paths(text: str, known: Iterable[str] = ()) -> str:
    """Return the text with only the last part of each path of this machine: `[...]/data.csv`.

    A path counts as one of this machine when its first folder exists here; so what a web service calls `/api/users`
    stays.

    Args:
        text: a message.
        known: texts that stay as they are, since the model wrote them itself.
    """
    kept = [item for item in known if item]

    def shorten(match: re.Match[str]) -> str:
        path: str | None = match["path"]
        if path is None or any(path in item for item in kept) or not _is_of_this_machine(path):
            return match[0]
        return match[0].replace(path, _shortened(path))

    return _BARE.sub(shorten, _QUOTED.sub(shorten, text))


def _shortened(path: str) -> str:
    name = re.split(rf"[{_SEPARATORS}]", path.rstrip(_SEPARATORS))[-1]
    return f"{HIDDEN}/{name}" if name else HIDDEN


def _is_of_this_machine(path: str) -> bool:
    if re.match(rf"[A-Za-z]:[{_SEPARATORS}]|\\\\", path):
        return True
    path = re.sub(f"^{_FILE_URL}", "", path).replace("\\/", "/")  # as some write JSON
    parts = [part for part in path.split("/") if part]
    return len(parts) > 1 and _is_top_folder(parts[0])


@lru_cache(maxsize=1024)
def _is_top_folder(name: str) -> bool:
    if f"/{name}" in _own_top_folders():
        return True
    try:
        return Path("/", name).exists()
    except (OSError, ValueError):  # a name that no file system takes
        return False


@lru_cache(maxsize=1)
def _own_top_folders() -> frozenset[str]:
    """Return the first folders of where Python, its packages and this program lie, seen from inside a sandbox too."""
    paths = [sys.prefix, sys.base_prefix, sys.executable, __file__, *sys.path]
    return frozenset("/" + Path(path).parts[1] for path in paths if path and len(Path(path).parts) > 1)
