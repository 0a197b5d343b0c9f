"""The text of one generation as it grows: what may be shown, whether a stop was met, and what remains after the cut."""

from dataclasses import dataclass

from sureact.sampling_params import SamplingParams
from sureact.tokens.detokenizer import Detokenizer
from sureact.tokens.stop_sequences import StopMatch, StopMatcher, cut_tokens
from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class FinishedText:
    """A generation after the cut."""

    text: str
    kept_ids: tuple[int, ...]
    """Generated ids up to the last token boundary before the cut."""
    leftover: str
    """Text between that boundary and the cut; the session appends it again as tokens."""


class GeneratedText:
    """Collects tokens, finds stops, and shows every character that no stop can take back."""

    def __init__(self, vocabulary: Vocabulary, params: SamplingParams) -> None:
        self._token_bytes = vocabulary.token_bytes
        self._params = params
        self._detokenizer = Detokenizer(vocabulary)
        self._matcher = StopMatcher(params.stop_texts, params.stop_token_ids, min_tokens=params.min_tokens)
        self._bytes = bytearray()
        self._ends: list[int] = []  # offset behind the last byte of each token
        self._num_shown = 0
        self.token_ids: list[int] = []
        self.stop_match: StopMatch | None = None

    def push(self, token_id: int, *, num_settled: int | None = None) -> str:
        """Add a token and return the text that can be shown now; `stop_match` is set if a stop ends in it.

        Args:
            token_id: the token.
            num_settled: tokens from the start that are never taken back; None for all of them.
        """
        data = self._token_bytes[token_id]
        self.token_ids.append(token_id)
        self._bytes += data
        self._ends.append(len(self._bytes))
        self.stop_match = self._matcher.push(token_id, data)
        if self.stop_match is not None:
            return ""
        num_bytes = self._ends[-1] if num_settled is None else self._end_of(num_settled)
        return self._show(min(num_bytes, len(self._bytes) - self._matcher.holdback))

    def take_back(self) -> None:
        """Remove the last token, of which nothing was shown. Only where no stops are looked for."""
        assert not self._params.stop, "a stop may have seen the token"
        self.token_ids.pop()
        self._ends.pop()
        del self._bytes[self._end_of(len(self.token_ids)) :]
        assert len(self._bytes) >= self._num_shown, "text that was shown is taken back"

    def finish(self, *, drop_last_token: bool = False) -> tuple[FinishedText, str]:
        """Cut at the stop, if one was met, and end the text.

        Args:
            drop_last_token: the last token is an end-of-sequence id that does not stay.

        Returns:
            What remains, and the text not shown yet.
        """
        kept, num_bytes = self._cut(drop_last_token=drop_last_token)
        leftover = b""
        if kept is None:
            token_bytes = [self._token_bytes[token_id] for token_id in self.token_ids]
            kept, leftover = cut_tokens(self.token_ids, token_bytes, num_bytes)
        rest = self._show(num_bytes) + self._detokenizer.flush()
        text = bytes(self._bytes[:num_bytes]).decode(errors="replace")
        return FinishedText(text, tuple(kept), leftover.decode(errors="replace")), rest

    def _cut(self, *, drop_last_token: bool) -> tuple[list[int] | None, int]:
        """Return the ids to keep where whole tokens decide, else None, and the bytes to keep."""
        match = self.stop_match
        if match is None:
            kept = self.token_ids[:-1] if drop_last_token else list(self.token_ids)
            return kept, self._end_of(len(kept))
        if isinstance(match.stop, str):
            return None, match.end_byte if self._params.include_stop else match.start_byte
        if self._params.include_stop:
            return list(self.token_ids), match.end_byte
        return self.token_ids[: match.start_token], match.start_byte

    def _end_of(self, num_tokens: int) -> int:
        """Return the number of bytes of the first tokens."""
        return self._ends[num_tokens - 1] if num_tokens else 0

    def _show(self, num_bytes: int) -> str:
        if num_bytes <= self._num_shown:
            return ""
        text = self._detokenizer.push_bytes(bytes(self._bytes[self._num_shown : num_bytes]))
        self._num_shown = num_bytes
        return text
