"""What stands in the context of a session, as text."""

from __future__ import annotations

from typing import NamedTuple

_CUT = "[a part of this text was cut]"


class _Piece(NamedTuple):
    end: int
    """Tokens of the context up to the end of the piece."""
    text: str


class Transcript:
    """The pieces of a context, in order. Unchangeable, and cheap to extend: pieces are shared with the shorter one."""

    __slots__ = ("_before", "_piece")

    def __init__(self, before: Transcript | None = None, piece: _Piece = _Piece(0, "")) -> None:  # noqa: B008
        self._before = before
        self._piece = piece

    def extended(self, end: int, text: str) -> Transcript:
        """Return this with one more piece, after which the context has `end` tokens."""
        return Transcript(self, _Piece(end, text))

    def truncated(self, num_tokens: int) -> Transcript:
        """Return the pieces of the first `num_tokens` tokens; of one that is cut, a note stands for what is left."""
        kept: Transcript | None = self
        while kept is not None and kept._piece.end > num_tokens:
            kept = kept._before
        kept = kept or Transcript()
        return kept if kept._piece.end == num_tokens else kept.extended(num_tokens, _CUT)

    @property
    def text(self) -> str:
        """All pieces joined."""
        texts: list[str] = []
        part: Transcript | None = self
        while part is not None:
            texts.append(part._piece.text)
            part = part._before
        return "".join(reversed(texts))
