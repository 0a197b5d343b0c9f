"""Which value of a constrained text runs on, and the tokens that end it, or all of the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from sureact.constraints.closing_text import MAX_CLOSING_TOKENS, byte_token, canonical_part, find_closing, spell
from sureact.constraints.repetition import repetition_now
from sureact.outputs import EarlyEnd

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sureact.constraints.constraint import ConstraintState
    from sureact.constraints.json_outline import OpenValue, Outline
    from sureact.outputs import EarlyEndReason
    from sureact.sampling_params import RunawayLimits
    from sureact.tokens.vocabulary import Vocabulary

_Ender: TypeAlias = Literal["quote", "no_digit", "end"]

_LENGTH_REASONS: dict[str, EarlyEndReason] = {
    "string": "string_length",
    "number": "number_length",
    "array": "array_length",
}
_STRING_LENGTHS = re.compile(r"(?:min|max)Length\W{1,8}(\d+)")
_ARRAY_LENGTHS = re.compile(r"(?:min|max)Items\W{1,8}(\d+)")


class DeclaredLengths(NamedTuple):
    """The largest lengths that a constraint's schemas name; a limit never lies below them."""

    string: int = 0
    array: int = 0


NO_LENGTHS = DeclaredLengths()


@lru_cache(maxsize=256)
def declared_lengths(cache_key: str) -> DeclaredLengths:
    """Read the lengths from the key of a constraint, which holds the text of all its schemas."""
    strings, arrays = _STRING_LENGTHS.findall(cache_key), _ARRAY_LENGTHS.findall(cache_key)
    return DeclaredLengths(max(map(int, strings), default=0), max(map(int, arrays), default=0))


class Closing(NamedTuple):
    """What must come from a position on."""

    start: int
    """Tokens before it."""
    token_ids: tuple[int, ...]
    """What is written, token by token."""
    ender: _Ender | None
    """What is left of the choice after that: tokens that begin with a quote, those that do not go on with a number,
    the end of the text, or nothing."""
    next_id: int
    """A token that is legal there; -1 without an ender."""
    early_end: EarlyEnd

    def covers(self, num_tokens: int) -> bool:
        """Whether it says what comes after so many tokens."""
        if self.ender == "end":
            return num_tokens >= self.start
        return self.start <= num_tokens < self.start + len(self.token_ids) + (self.ender is not None)

    def forced_ids(self, num_tokens: int) -> tuple[int, ...]:
        """Return what is still to be written after so many tokens."""
        return self.token_ids[num_tokens - self.start :]


class Runaway(NamedTuple):
    """A value that runs on."""

    reason: EarlyEndReason
    depth: int
    """It is the innermost of this many open values."""


def find_runaway(
    token_ids: Sequence[int], outline: Outline, vocabulary: Vocabulary, limits: RunawayLimits, lengths: DeclaredLengths
) -> Runaway | None:
    """Return the value that runs on at the end of a text.

    Args:
        token_ids: of the whole text.
        outline: where it stands.
        vocabulary: of the tokens.
        limits: what is taken for running on.
        lengths: those that the schema names.
    """
    if not outline.open_values:
        return None
    if limits.repeated_tokens is not None:
        found = repetition_now(token_ids, limits.repeated_tokens)
        if found is not None:
            start = len(spell(vocabulary, token_ids[: found.start]))
            # Where the repetition began before the first value, all of the values are in it.
            return Runaway("repetition", max(outline.depth_at(start), 1))
    for depth, value in enumerate(outline.open_values, 1):
        if _is_too_long(value, token_ids, outline, vocabulary, limits, lengths):
            return Runaway(_LENGTH_REASONS[value.kind], depth)
    return None


def _is_too_long(
    value: OpenValue,
    token_ids: Sequence[int],
    outline: Outline,
    vocabulary: Vocabulary,
    limits: RunawayLimits,
    lengths: DeclaredLengths,
) -> bool:
    num_bytes = outline.num_bytes - value.start
    match value.kind:
        case "number":
            return limits.number_characters is not None and num_bytes > limits.number_characters
        case "array":
            return limits.array_items is not None and value.num_commas >= max(limits.array_items, lengths.array)
        case "string":
            if limits.string_characters is None:
                return False
            most = max(limits.string_characters, lengths.string)
            # No text has more characters than bytes, and counting them takes the whole of it.
            if num_bytes <= most:
                return False
            return len(spell(vocabulary, token_ids)[value.start + 1 :].decode(errors="replace")) >= most
        case "object":
            return False


def end_of_value(
    state: ConstraintState, vocabulary: Vocabulary, token_ids: Sequence[int], outline: Outline, runaway: Runaway
) -> Closing | None:
    """Return what ends a value that runs on; None if nothing was found.

    Of a string, or of a number, what comes after the end stays the model's choice.
    """
    ids = find_closing(state, vocabulary, MAX_CLOSING_TOKENS, outline)
    if ids is None:
        return None
    num_tokens = len(token_ids)
    pointer = outline.pointer(runaway.depth, spell(vocabulary, token_ids))
    early_end = EarlyEnd(runaway.reason, num_tokens, pointer)
    data = spell(vocabulary, ids)
    end = _end_in(outline, data, runaway.depth)
    if end is None:  # a number that ends with the text
        return Closing(num_tokens, tuple(ids), "end", -1, early_end)
    is_innermost = runaway.depth == len(outline.open_values)
    kind = outline.open_values[-1].kind
    if not is_innermost or kind in ("array", "object"):
        part = canonical_part(state, vocabulary, data[: end + 1])
        return None if part is None else Closing(num_tokens, tuple(part), None, -1, early_end)
    part = canonical_part(state, vocabulary, data[:end])
    next_id = byte_token(vocabulary, data[end])
    if part is None or next_id is None:
        return None
    return Closing(num_tokens, tuple(part), "quote" if kind == "string" else "no_digit", next_id, early_end)


def _end_in(outline: Outline, data: bytes, depth: int) -> int | None:
    """Return the index of the byte with which the innermost of `depth` open values ends; None if none of them does."""
    for index in range(len(data)):
        outline = outline.read(data[index : index + 1])
        if len(outline.open_values) < depth:
            return index
    return None
