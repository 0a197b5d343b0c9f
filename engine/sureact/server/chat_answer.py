"""The objects that answer a chat: whole, and as the chunks of a stream, made of the same pieces."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sureact.server.guard_fields import early_end_object
from sureact.server.turn_events import CallBegun, CallPiece, TextPiece, TurnEnd, TurnUsage

if TYPE_CHECKING:
    from sureact.outputs import StepLogprobs, TokenLogprob
    from sureact.server.turn_events import TurnEvent
    from sureact.tokens.vocabulary import Vocabulary

_LEAST_LOGPROB = -9999.0
"""JSON has no minus infinity."""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What every object of one answer begins with."""

    model: str
    object_name: str
    prefix: str = "chatcmpl-"
    answer_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created: int = field(default_factory=lambda: int(time.time()))

    def of(self, choices: Sequence[dict[str, Any]], **others: Any) -> dict[str, Any]:
        """Return an object with the choices."""
        return {
            "id": self.prefix + self.answer_id,
            "object": self.object_name,
            "created": self.created,
            "model": self.model,
            "choices": list(choices),
            **others,
        }


@dataclass(slots=True)
class ChatChoice:
    """One choice, put together from its pieces."""

    index: int
    vocabulary: Vocabulary
    has_logprobs: bool
    has_token_ids: bool
    content: str = ""
    reasoning: str = ""
    logprobs: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    end: TurnEnd | None = None

    def add(self, event: TurnEvent) -> dict[str, Any] | None:
        """Add a piece; return what a stream tells of it: a choice with its delta, or None for nothing."""
        match event:
            case TextPiece(kind="reasoning"):
                self.reasoning += event.text
                return self._delta({"reasoning_content": event.text})
            case TextPiece():
                self.content += event.text
                entries = [logprob_entry(step, self.vocabulary) for step in event.logprobs]
                self.logprobs += entries
                return self._delta({"content": event.text}, entries)
            case CallBegun():
                function = {"name": event.name, "arguments": ""}
                self.calls.append({"id": event.call_id, "type": "function", "function": function})
                call = {"index": event.index, "id": event.call_id, "type": "function", "function": dict(function)}
                return self._delta({"tool_calls": [call]})
            case CallPiece():
                self.calls[event.index]["function"]["arguments"] += event.text
                piece = {"index": event.index, "function": {"arguments": event.text}}
                return self._delta({"tool_calls": [piece]})
            case TurnEnd():
                self.end = event
                return self._delta({}) | self._ending()

    @property
    def first_delta(self) -> dict[str, Any]:
        """What a stream says first: whose message it is."""
        return self._delta({"role": "assistant", "content": ""})

    @property
    def whole(self) -> dict[str, Any]:
        """The choice of an answer that is not streamed."""
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.content if self.content or not (self.calls or self.reasoning) else None,
            "refusal": None,
        }
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = self.calls
        logprobs = {"content": self.logprobs, "refusal": None} if self.has_logprobs else None
        return {"index": self.index, "message": message, "logprobs": logprobs} | self._ending()

    def _delta(self, delta: dict[str, Any], logprobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
        told = {"content": list(logprobs), "refusal": None} if self.has_logprobs and logprobs else None
        return {"index": self.index, "delta": delta, "logprobs": told, "finish_reason": None}

    def _ending(self) -> dict[str, Any]:
        assert self.end is not None, "a choice is asked for its end before it has one"
        ending: dict[str, Any] = {"finish_reason": self.end.finish_reason, "stop_reason": self.end.stop_reason}
        if self.has_token_ids:
            ending["token_ids"] = list(self.end.token_ids)
        return ending | told_early_ends(self.end)


def told_early_ends(end: TurnEnd) -> dict[str, Any]:
    """Return what an answer tells of what was ended early: nothing where no guard was asked for."""
    if end.early_ends is None:
        return {}
    return {"early_ends": [early_end_object(e.end, part=e.part, call_index=e.call_index) for e in end.early_ends]}


def logprob_entry(step: StepLogprobs, vocabulary: Vocabulary) -> dict[str, Any]:
    """Return the log-probabilities at one position as the protocol has them."""
    tops = [_logprob(top, vocabulary) for top in step.top]
    return _logprob(step.picked, vocabulary) | {"top_logprobs": tops}


def usage_object(usages: Sequence[TurnUsage]) -> dict[str, Any]:
    """Return the usage of an answer, whose choices share one prompt."""
    prompt, completion = usages[0].prompt_tokens, sum(usage.completion_tokens for usage in usages)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": usages[0].cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": sum(usage.reasoning_tokens for usage in usages)},
    }


def _logprob(token: TokenLogprob, vocabulary: Vocabulary) -> dict[str, Any]:
    data = vocabulary.token_bytes[token.token_id]
    return {
        "token": data.decode(errors="replace"),
        "logprob": max(token.logprob, _LEAST_LOGPROB),
        "bytes": list(data),
    }
