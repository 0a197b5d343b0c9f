"""Keeps on disk how loose the grammar of a schema has to be, where finding that out took long: some take seconds.

The grammar itself is made anew, so that no file lets an invalid text through: what a looser grammar allows, the guard
judges. A store that cannot be read or written is no error.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.schema.leeway import Leeway
from sureact.home import home_folder

if TYPE_CHECKING:
    from pathlib import Path

MIN_SECONDS = 0.05
"""What was found faster is not kept."""
MAX_FILES = 256
"""Above this many, those that were not used for longest go."""

_LOGGER = logging.getLogger("sureact")


def load_leeway(cache_key: str) -> Leeway | None:
    """Return what was kept for a constraint of this key, by these versions of sureact and llguidance."""
    path = _path_of(cache_key)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        os.utime(path)
        return Leeway(**cast("Any", {name: frozenset(map(str, values)) for name, values in kept.items()}))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, AttributeError, TypeError, RecursionError, RuntimeError) as error:
        _LOGGER.info("%s cannot be read: %s", path, error)
        return None


def save_leeway(cache_key: str, leeway: Leeway) -> None:
    """Keep how loose a grammar had to be."""
    path = _path_of(cache_key)
    kept = {name: sorted(getattr(leeway, name)) for name in ("omitted", "bad_patterns", "empty_definitions")}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Another process may keep the same one now; a file is only ever seen whole.
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(json.dumps(kept), encoding="utf-8")
        partial.replace(path)
        _drop_oldest(path.parent)
    except (OSError, RuntimeError) as error:
        _LOGGER.info("%s cannot be kept: %s", path, error)


def _path_of(cache_key: str) -> Path:
    digest = hashlib.sha256(f"{_versions()} {cache_key}".encode()).hexdigest()
    return home_folder() / "grammars" / f"{digest}.json"


@cache
def _versions() -> str:
    return f"{version('sureact')} {version('llguidance')}"


def _drop_oldest(folder: Path) -> None:
    kept = sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[MAX_FILES:]:
        path.unlink(missing_ok=True)
