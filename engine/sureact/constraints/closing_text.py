"""Finds a short way to end a constrained text from where it stands, on any constraint, by trying.

The position itself says what may come, so whatever is found is valid. The search tries the bytes that end values
before those that begin them; it goes back where that leads nowhere, and gives up after a number of trials.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sureact.constraints.constraint import ConstraintState
    from sureact.constraints.json_outline import Outline
    from sureact.tokens.vocabulary import Vocabulary

MAX_CLOSING_TOKENS = 1_024
"""Tokens of the longest end that is looked for."""
_MAX_STEPS = 1_000
"""Tokens taken in one search, those gone back from included. What tools' schemas need takes tens to a few hundred."""

_ENDS = b'}]",'
"""What ends a value; a comma only where a bracket may not stand, so where more is needed."""
_DIGITS = b"0123456789"
_VALUES = _DIGITS + b"nft[{-"
"""After the ends: digits, the first letters of `null`, `false` and `true`, then what needs an end of its own."""
_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SIGNS = b"@.:/-_+ "
_RARE = b"~!#$%&'()*,;<=>?^`|[]{}\\\t\n\r"
_ANY_TEXT = b" @~"
"""Bytes that are legal together in a string only where nearly any text is."""
_END_OF_STRING = b'"'
_FILLER = b"."
"""What free text is filled with where it must be longer."""
_SHORT_TEXT = 3
"""Bytes of a text that follows a pattern after which those are tried first that it lacks: `[0-9]+@` does not end in
digits.
"""


def find_closing(state: ConstraintState, vocabulary: Vocabulary, max_tokens: int, outline: Outline) -> list[int] | None:
    """Return tokens after which the text may end, as few as were found; None if there are none within `max_tokens`.

    Whatever the text needs is in them: ends of strings, arrays and objects, required members with short values. The
    state is advanced and rolled back, and is as it was afterwards.

    Args:
        state: the position to end the text from.
        vocabulary: of the state.
        max_tokens: most tokens, spelled as the tokenizer spells them.
        outline: where the text stands.
    """
    search = _Search(state, vocabulary, outline, max_len=8 * max_tokens + 64)
    try:
        found = search.run()
    finally:
        search.undo()
    if found is None:
        return None
    closing = canonical(state, vocabulary, found)
    return closing if len(closing) <= max_tokens else None


def canonical(state: ConstraintState, vocabulary: Vocabulary, token_ids: Sequence[int]) -> list[int]:
    """Return legal tokens spelled as the tokenizer spells their text, or as they are where that is not legal."""
    from sureact.constraints.compiler import tokenizer_of

    tokenizer, spelled = tokenizer_of(vocabulary), list[int]()
    for is_text, run in groupby(token_ids, key=lambda token_id: bool(vocabulary.token_bytes[token_id])):
        ids = list(run)
        spelled += tokenizer.tokenize_bytes(spell(vocabulary, ids)) if is_text else ids
    is_end_kept = len(spelled) < len(token_ids) and is_end(state, spelled)
    return spelled if is_end_kept else list(token_ids)


def canonical_part(state: ConstraintState, vocabulary: Vocabulary, data: bytes) -> list[int] | None:
    """Return tokens that are legal one after another and spell `data`; None if there are none."""
    from sureact.constraints.compiler import tokenizer_of

    ids = _byte_ids(vocabulary)
    for token_ids in (tokenizer_of(vocabulary).tokenize_bytes(data), [ids.get(byte, -1) for byte in data]):
        count = state.accept_tokens(token_ids) if -1 not in token_ids else 0
        state.rollback(count)
        if count == len(token_ids) and spell(vocabulary, token_ids) == data:
            return list(token_ids)
    return None


def spell(vocabulary: Vocabulary, token_ids: Sequence[int]) -> bytes:
    """Return the bytes of tokens."""
    return b"".join(vocabulary.token_bytes[token_id] for token_id in token_ids)


def is_end(state: ConstraintState, token_ids: Sequence[int]) -> bool:
    """Whether tokens are legal and the text may end after them."""
    count = state.accept_tokens(token_ids)
    may_end = count == len(token_ids) and state.is_accepting
    state.rollback(count)
    return may_end


class _Search:
    """A depth-first search, most promising byte first."""

    def __init__(self, state: ConstraintState, vocabulary: Vocabulary, outline: Outline, max_len: int) -> None:
        self._state = state
        self._vocabulary = vocabulary
        self._outline = outline
        self._ids = _byte_ids(vocabulary)
        self._max_len = max_len
        self._num_steps = 0
        self._path: list[int] = []
        self._choices: list[tuple[int, Iterator[int]]] = []
        """Where there was more than one way: tokens before, and the ways that are left."""

    def run(self) -> list[int] | None:
        """Return what was found; the state stands behind it."""
        while not self._goes_on_forced() or not self._state.is_accepting:
            if len(self._path) <= self._max_len and not self._is_stuck:
                self._choices.append((len(self._path), self._candidates()))
            if not self._takes_next():
                return None
        return list(self._path)

    def undo(self) -> None:
        """Bring the state back to where it was."""
        self._cut(0)

    def _goes_on_forced(self) -> bool:
        """Write what must come; False where it cannot."""
        self._is_stuck = False
        while not self._state.is_accepting and (forced := self._state.forced_tokens()):
            count = self._state.accept_tokens(forced)
            self._path += forced[:count]
            self._num_steps += count
            if count < len(forced) or len(self._path) > self._max_len:
                self._is_stuck = True
                return False
        return True

    def _takes_next(self) -> bool:
        """Take the next way at the last choice that has one; False when none is left."""
        self._num_steps += 1
        while self._choices and self._num_steps <= _MAX_STEPS:
            num_before, candidates = self._choices[-1]
            self._cut(num_before)
            for token_id in candidates:
                if self._state.check_token(token_id):
                    self._state.accept_token(token_id)
                    self._path.append(token_id)
                    return True
            self._choices.pop()
        return False

    def _cut(self, num_tokens: int) -> None:
        if len(self._path) > num_tokens:
            self._state.rollback(len(self._path) - num_tokens)
            del self._path[num_tokens:]

    def _candidates(self) -> Iterator[int]:
        """Yield single-byte tokens in the order in which they are tried."""
        outline = self._outline.read(spell(self._vocabulary, self._path))
        if not outline.is_in_string:
            yield from self._listed(_ENDS)
            yield from self._rarest_first(_VALUES + _LETTERS + _SIGNS + _RARE)
            return
        yield from self._listed(_END_OF_STRING)
        if all(byte in self._ids and self._state.check_token(self._ids[byte]) for byte in _ANY_TEXT):
            yield from self._listed(_FILLER)
        if outline.num_bytes - outline.open_values[-1].start <= _SHORT_TEXT:
            yield from self._listed(_DIGITS + _LETTERS + _SIGNS + _RARE)
        else:
            yield from self._rarest_first(_SIGNS + _LETTERS + _DIGITS + _RARE)
        yield from self._listed(bytes(range(128, 256)))

    def _rarest_first(self, bytes_: bytes) -> list[int]:
        counts = Counter(self._path)  # so that items differ, and no loop is followed for long
        return sorted(self._listed(bytes_), key=lambda token_id: counts[token_id])

    def _listed(self, bytes_: bytes) -> Iterator[int]:
        return (self._ids[byte] for byte in bytes_ if byte in self._ids)


@lru_cache(maxsize=4)
def _byte_ids(vocabulary: Vocabulary) -> dict[int, int]:
    """Return the text token of each byte that has one."""
    not_text = vocabulary.control_ids | vocabulary.unused_ids
    tokens = enumerate(vocabulary.token_bytes)
    return {data[0]: i for i, data in tokens if len(data) == 1 and i not in not_text}


def byte_token(vocabulary: Vocabulary, byte: int) -> int | None:
    """Return the token that is this byte alone, or None."""
    return _byte_ids(vocabulary).get(byte)
