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
        self._num_shown = 0
        self.token_ids: list[int] = []
        self.stop_match: StopMatch | None = None

    def push(self, token_id: int) -> str:
        """Add a token and return the text that can be shown now; `stop_match` is set if a stop ends in it."""
        data = self._token_bytes[token_id]
        self.token_ids.append(token_id)
        self._bytes += data
        self.stop_match = self._matcher.push(token_id, data)
        if self.stop_match is not None:
            return ""
        return self._show(len(self._bytes) - self._matcher.holdback)

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
            return kept, sum(len(self._token_bytes[token_id]) for token_id in kept)
        if isinstance(match.stop, str):
            return None, match.end_byte if self._params.include_stop else match.start_byte
        if self._params.include_stop:
            return list(self.token_ids), match.end_byte
        return self.token_ids[: match.start_token], match.start_byte

    def _show(self, num_bytes: int) -> str:
        if num_bytes <= self._num_shown:
            return ""
        text = self._detokenizer.push_bytes(bytes(self._bytes[self._num_shown : num_bytes]))
        self._num_shown = num_bytes
        return text
