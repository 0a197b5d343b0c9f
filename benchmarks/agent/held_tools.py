"""Tools that stay in their call until the benchmark ends it: one computes meanwhile, one sleeps.

In a file of their own, so that the process of an isolated tool imports nothing else.
"""

import os
import threading
import time
from pathlib import Path
from typing import Literal

FOLDER_VARIABLE = "SUREACT_HELD_TOOLS"
"""Names the folder of one measurement; the process of an isolated tool inherits it."""

_ROUND = 20_000
"""Additions, about a millisecond, between two looks whether to end."""

Warehouse = Literal["north", "south", "west"]


def count(warehouse: Warehouse) -> int:
    """Count what is in stock."""
    return len(warehouse)


def count_spinning(warehouse: Warehouse) -> int:
    """Count what is in stock."""
    stop = _begin()
    total = 0
    while not stop.exists():
        for number in range(_ROUND):
            total += number
    return len(warehouse)


def count_sleeping(warehouse: Warehouse) -> int:
    """Count what is in stock."""
    stop = _begin()
    while not stop.exists():
        time.sleep(0.02)
    return len(warehouse)


def num_begun(folder: Path) -> int:
    """Return how many calls have begun."""
    return sum(1 for _ in folder.glob("begun-*"))


def end_all(folder: Path) -> None:
    """Let all calls return, also those that begin later."""
    (folder / "stop").touch()


def _begin() -> Path:
    folder = Path(os.environ[FOLDER_VARIABLE])
    (folder / f"begun-{os.getpid()}-{threading.get_ident()}").touch()
    return folder / "stop"
