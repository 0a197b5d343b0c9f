"""Text on its way out: what is held back because it may not belong to the answer, and the log-probabilities with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sureact.outputs import StepLogprobs, StepOutput, StreamDelta

_FENCES = ("```json", "```jso", "```js", "```j", "```", "``", "`")
_MAX_HELD = 64


class TrimmedText:
    """Text without the white space around it, as it comes."""

    def __init__(self) -> None:
        self._held = ""
        self._has_begun = False

    def push(self, text: str) -> str:
        """Add text; return what is known to be inside."""
        text = self._held + (text if self._has_begun else text.lstrip())
        self._has_begun = self._has_begun or bool(text)
        end = len(text.rstrip())
        self._held = text[end:]
        return text[:end]


class TextUpTo:
    """Text up to a mark, as it comes."""

    def __init__(self, mark: str) -> None:
        """Take the mark; with an empty one there is none, and all text is passed on."""
        self._mark = mark
        self._held = ""
        self._is_over = False

    def push(self, text: str) -> str:
        """Add text; return what stands before the mark and is no beginning of it."""
        if self._is_over or not self._mark:
            return "" if self._is_over else text
        text = self._held + text
        if self._mark in text:
            self._is_over, self._held = True, ""
            return text.partition(self._mark)[0]
        most = min(len(self._mark) - 1, len(text))
        held = next((size for size in range(most, 0, -1) if text.endswith(self._mark[:size])), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]

    def end(self) -> str:
        """No mark follows: return what was held back."""
        held, self._held = self._held, ""
        return held


class TextBeforeCall:
    """Text that a tool call may follow.

    The white space before a call is no part of the text, and neither is the fence of a call without a tag.
    """

    def __init__(self) -> None:
        self._held = ""

    def push(self, text: str) -> str:
        """Add text; return what is not held back."""
        text = self._held + text
        end = _end_of_text(text)
        if len(text) - end > _MAX_HELD:  # more than any call has before it
            end = len(text)
        self._held = text[end:]
        return text[:end]

    def end(self) -> str:
        """No call follows: return what was held back."""
        held, self._held = self._held, ""
        return held

    def end_at_call(self, *, is_bare: bool) -> str:
        """A call follows: return what of the held text stays, which is a fence, unless the call is bare."""
        return "" if is_bare else self.end().rstrip()


def _end_of_text(text: str) -> int:
    end = len(text.rstrip())
    for fence in _FENCES:
        if text[:end].endswith(fence):
            return len(text[: end - len(fence)].rstrip())
    return end


class ShownLogprobs:
    """Hands out the log-probabilities of tokens once all of their text has been shown."""

    def __init__(self, token_bytes: Sequence[bytes]) -> None:
        self._token_bytes = token_bytes
        self._pending: deque[StepLogprobs] = deque()
        self._num_bytes = 0
        """Bytes that were shown, less those of the tokens that were handed out."""
        self._num_told = 0

    def push(self, delta: StreamDelta, shown: str) -> tuple[StepLogprobs, ...]:
        """Add the tokens of a delta, and the text that was shown with it; return what belongs to text that is shown.

        With the last delta comes all the rest, but for tokens that were cut off the text.
        """
        self._pending += delta.logprobs
        if delta.output is not None:
            return self._end(delta.output)
        self._num_bytes += len(shown.encode())
        told: list[StepLogprobs] = []
        while self._pending:
            size = len(self._token_bytes[self._pending[0].picked.token_id])
            if size > self._num_bytes:
                break
            self._num_bytes -= size
            told.append(self._pending.popleft())
        self._num_told += len(told)
        return tuple(told)

    def _end(self, output: StepOutput) -> tuple[StepLogprobs, ...]:
        rest: list[StepLogprobs] = []
        for step, kept in zip(self._pending, output.token_ids[self._num_told :], strict=False):
            if step.picked.token_id != kept:
                break
            rest.append(step)
        self._pending.clear()
        return tuple(rest)
