"""Guesses what comes next from where the last few tokens stood before in the same text."""

from collections.abc import Sequence

NGRAM_LENS = (4, 3, 2)
"""Lengths of the suffixes looked for, longest first: what follows a longer one is the better guess."""

_NUM_COMPARED = 32
"""Tokens before the end that are compared to notice a replaced tail; comparing all would cost more than the guess."""

_MAX_INDEXED = 4096
"""Tokens indexed at once, so that no step waits long for a long text; the rest follows in the next ones."""


class NgramIndex:
    """Where each short run of tokens of one text stood last.

    Follows a text that grows, is truncated, or gets another tail. A change that the last `_NUM_COMPARED` tokens do not
    show goes unnoticed; it can cost guesses, but every guess is read from the text as it is.
    """

    def __init__(self) -> None:
        self._clear()

    def copy(self) -> "NgramIndex":
        """Return one that knows the same text and follows another; copying is much faster than indexing."""
        copy = NgramIndex()
        copy._token_ids = self._token_ids.copy()
        copy._tables = tuple(table.copy() for table in self._tables)
        return copy

    def update(self, token_ids: list[int]) -> None:
        """Index what was added to the text since the last call, from the oldest on, and forget what is gone."""
        num_kept = self._num_unchanged(token_ids)
        if num_kept < len(self._token_ids) - _MAX_INDEXED:
            self._clear()
            num_kept = 0
        if num_kept < len(self._token_ids):
            for table in self._tables:
                table.truncate(self._token_ids, num_kept)
            del self._token_ids[num_kept:]
        self._token_ids += token_ids[num_kept : num_kept + _MAX_INDEXED]
        for table in self._tables:
            table.extend(self._token_ids)

    def propose(self, token_ids: list[int], max_len: int) -> list[int]:
        """Return at most `max_len` tokens that followed the latest earlier occurrence of the longest known suffix.

        Args:
            token_ids: the text, as last given to `update`.
            max_len: most tokens, at least 0.

        Returns:
            Tokens as they stand somewhere in `token_ids`; none where no suffix stood before.
        """
        for table in self._tables:
            end = table.find_suffix(token_ids)
            if end is not None:
                return token_ids[end : end + max_len]
        return []

    def _clear(self) -> None:
        self._token_ids: list[int] = []
        self._tables = tuple(_NgramTable(length) for length in NGRAM_LENS)

    def _num_unchanged(self, token_ids: Sequence[int]) -> int:
        """Return how many tokens of the indexed text still stand."""
        known = self._token_ids
        num_same = min(len(known), len(token_ids))
        while num_same:
            start = max(0, num_same - _NUM_COMPARED)
            if known[start:num_same] == token_ids[start:num_same]:
                break
            num_same = next(i for i in range(start, num_same) if known[i] != token_ids[i])
        return num_same


class _NgramTable:
    """The occurrences of all n-grams of one length that a token follows, each known by the index after it."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._latest: dict[tuple[int, ...], int] = {}
        self._earlier = [0] * length
        """For each index, where the n-gram before it ended the time before, so that a truncation finds it again; 0 if
        that was the first time."""

    def copy(self) -> "_NgramTable":
        """Return an equal table."""
        copy = _NgramTable(self._length)
        copy._latest, copy._earlier = self._latest.copy(), self._earlier.copy()
        return copy

    def extend(self, token_ids: Sequence[int]) -> None:
        """Add the n-grams that gained a next token."""
        for end in range(len(self._earlier), len(token_ids)):
            ngram = tuple(token_ids[end - self._length : end])
            self._earlier.append(self._latest.get(ngram, 0))
            self._latest[ngram] = end

    def truncate(self, token_ids: Sequence[int], num_tokens: int) -> None:
        """Remove the n-grams whose next token is not among the first `num_tokens` of `token_ids`, which were added."""
        for end in range(len(self._earlier) - 1, max(num_tokens, self._length) - 1, -1):
            ngram = tuple(token_ids[end - self._length : end])
            earlier = self._earlier.pop()
            if earlier:
                self._latest[ngram] = earlier
            else:
                del self._latest[ngram]

    def find_suffix(self, token_ids: Sequence[int]) -> int | None:
        """Return where the last n-gram of `token_ids` ended the time before, if it still stands there."""
        suffix = token_ids[-self._length :]
        end = self._latest.get(tuple(suffix))
        if end is None or end >= len(token_ids) or token_ids[end - self._length : end] != suffix:
            return None
        return end
