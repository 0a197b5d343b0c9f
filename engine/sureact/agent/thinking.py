"""Decodes a thought, with what a thinking model writes between `<think>` and `</think>`.

While a `<think>` is open, the stops of the prompt format are asleep, and no constraint is on: a call and outputs are
decoded only after `</think>`. Only a thought may open one. The token budget of the thought holds for both parts: where
it ends inside a `<think>`, the tag is closed here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from sureact.agent.prompt_format import (
    AFTER_THINK,
    THINK_CLOSE,
    THINK_OPEN,
    ends_in_think,
    ids_of_tag,
    plain_text,
    template_text,
)
from sureact.outputs import StepOutput, StepTimings, TokenUsage
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sureact.agent.language_model import LanguageModelSession
    from sureact.agent.prompt_format import PromptFormat
    from sureact.tokens.chat_template import PromptText


class ThinkTags(NamedTuple):
    """Ids of the control tokens `<think>` and `</think>`."""

    open_id: int
    close_id: int


def think_tags(session: LanguageModelSession) -> ThinkTags | None:
    """Return the tags if the tokenizer has both as control tokens. The session stays as it is."""
    open_ids, close_ids = ids_of_tag(THINK_OPEN, session), ids_of_tag(THINK_CLOSE, session)
    return ThinkTags(open_ids[0], close_ids[0]) if len(open_ids) == len(close_ids) == 1 else None


class ThoughtWriter:
    """Writes one thought on a session."""

    def __init__(
        self,
        session: LanguageModelSession,
        prompt_format: PromptFormat,
        max_tokens: int,
        generate: Callable[[SamplingParams], StepOutput],
    ) -> None:
        """Take where to write, in which format, how much, and what generates on the session."""
        self.thinking = ""
        """What was written between the tags."""
        self.outputs: list[StepOutput] = []
        """Every generation, in order."""
        self.is_thinking = False
        """Whether what is generated now stands between the tags."""
        self._session = session
        self._format = prompt_format
        self._tags = think_tags(session)
        self._max_tokens = max_tokens
        self._generate_text = generate

    def write(self, *, is_open: bool) -> str:
        """Append the start of a thought, decode it, and return what of it is outside of the tags.

        Args:
            is_open: whether the context ends inside a `<think>`.
        """
        if is_open:
            self._think(opening="")
        rewritten, start = self._format.thought_start, len(self._session.token_ids)
        self._append(rewritten)
        if ends_in_think(rewritten):
            self._think(opening="")
            rewritten, start = plain_text(""), len(self._session.token_ids)
        before_tags = ""
        text, opened = self._show()
        while opened:
            before_tags += text
            self._think(opening="\n")
            rewritten, start = plain_text(""), len(self._session.token_ids)
            text, opened = self._show()
        closed = self._format.closed_thought(text)
        if closed != text:
            # Cut short by its budget, or empty: written again whole, so that the newline joins the token before it.
            self._session.truncate(start)
            self._append(rewritten + plain_text(closed))
        return (before_tags + closed).strip()

    @property
    def output(self) -> StepOutput:
        """All generations as one."""
        return self.outputs[0] if len(self.outputs) == 1 else _joined(self.outputs)

    @property
    def _room(self) -> int:
        return self._max_tokens - sum(output.usage.completion_tokens for output in self.outputs)

    def _show(self) -> tuple[str, bool]:
        """Decode text outside of the tags; return it, and whether a `<think>` ended it."""
        if self._room < 1:
            return "", False
        params = self._format.thought_params(self._session, self._room)
        if self._tags is None:
            return self._generate(params).text, False
        stop = (self._tags.open_id,)
        output = self._generate(replace(params, stop=(*_stops(params), stop)))
        if output.stop_reason != stop:
            return output.text, False
        if not params.include_stop:
            self._session.append(stop)
        return output.text, True

    def _think(self, opening: str) -> None:
        """Decode text inside of the tags, up to `</think>`, which is written here if the model does not.

        Args:
            opening: what the model itself writes between `<think>` and its text.
        """
        start = len(self._session.token_ids)
        text, is_closed = "", False
        if self._room >= 1:
            # Some spell the tag out in place of its control token.
            stops = [THINK_CLOSE] if self._tags is None else [THINK_CLOSE, (self._tags.close_id,)]
            params = SamplingParams(max_tokens=self._room, stop=stops, include_stop=True)
            self.is_thinking = True
            output = self._generate(params)
            self.is_thinking = False
            text = output.text.partition(THINK_CLOSE)[0].strip()
            is_closed = isinstance(output.stop_reason, tuple)
        self.thinking = f"{self.thinking}\n{text}".strip()
        if is_closed:
            self._append(template_text(AFTER_THINK))
            return
        self._session.truncate(start)
        body = plain_text(opening + text + ("\n" if text else ""))
        self._append(body + template_text(THINK_CLOSE + AFTER_THINK))

    def _generate(self, params: SamplingParams) -> StepOutput:
        output = self._generate_text(params)
        self.outputs.append(output)
        return output

    def _append(self, text: PromptText) -> None:
        if text.text:
            self._session.append(text)


def _stops(params: SamplingParams) -> tuple[str | tuple[int, ...], ...]:
    return (*params.stop_texts, *params.stop_token_ids)


def _joined(outputs: Sequence[StepOutput]) -> StepOutput:
    """Return generations that followed one another as one; the usage and the timings are sums."""
    usages, timings = [output.usage for output in outputs], [output.timings for output in outputs]
    return replace(
        outputs[-1],
        text="".join(output.text for output in outputs),
        token_ids=tuple(id_ for output in outputs for id_ in output.token_ids),
        usage=TokenUsage(**{name: sum(getattr(usage, name) for usage in usages) for name in TokenUsage.__slots__}),
        timings=StepTimings(
            **{name: sum(getattr(timing, name) for timing in timings) for name in StepTimings.__slots__}
        ),
    )
