"""The interface of guards: what follows a text beside the grammar, and has the last word."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Guard(ABC):
    """What a text must fulfil beyond its grammar; shared by all requests, never changed."""

    @abstractmethod
    def new_state(self) -> GuardState:
        """Return a position at the start of the text."""


class GuardState(ABC):
    """A position in one text. Not thread-safe."""

    @abstractmethod
    def feed(self, data: bytes) -> bool:
        """Read on.

        Returns:
            False when the text can no longer become valid; then only `go_back` may follow.
        """

    @abstractmethod
    def can_end(self) -> bool:
        """Whether the text is valid as it stands. Does not change the state."""

    @abstractmethod
    def position(self) -> object:
        """Return where the text stands, for `go_back`."""

    @abstractmethod
    def go_back(self, position: object) -> None:
        """Forget what was read after `position`."""

    @property
    @abstractmethod
    def num_settled_bytes(self) -> int:
        """Bytes from the start that no dead end can take back."""
