"""What a pull tells while it runs, for whoever draws the bar."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PullProgress:
    """How far one phase of a pull is."""

    what: str
    """The phase in words, such as "downloading"."""
    bytes_done: int
    """Bytes of the phase that are done."""
    bytes_total: int
    """Bytes of the phase; 0 where nobody can know."""


ProgressCallback = Callable[[PullProgress], None]


def ignore_progress(progress: PullProgress) -> None:
    """Take the place of a callback where nobody watches."""
