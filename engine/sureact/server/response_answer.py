"""The object that answers `/v1/responses`, and the events of its stream, made of the same pieces."""

from __future__ import annotations

import time
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sureact.server.chat_answer import logprob_entry, told_early_ends
from sureact.server.turn_events import CallBegun, CallPiece, TextPiece, TurnEnd, TurnUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.server.api_error import ApiError
    from sureact.server.turn_events import TurnEvent
    from sureact.tokens.vocabulary import Vocabulary

_PIECES = {
    "reasoning": "response.reasoning_text",
    "message": "response.output_text",
    "function_call": "response.function_call_arguments",
}
"""The events of an item's text, by the item's type."""


class ResponseAnswer:
    """One response, put together from the pieces of its turn."""

    def __init__(self, model: str, asked: Mapping[str, Any], values: Mapping[str, Any], vocabulary: Vocabulary) -> None:
        """Begin it.

        Args:
            model: name of the model.
            asked: the body of the request, of which some comes back.
            values: of `RESPONSE_FIELDS`, as they were read of it.
            vocabulary: for the texts of tokens.
        """
        self._vocabulary = vocabulary
        self._head: dict[str, Any] = {
            "id": _new_id("resp"),
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            **_echo(asked, values),
        }
        self._ending: dict[str, Any] = {
            "status": "in_progress",
            "error": None,
            "incomplete_details": None,
            "completed_at": None,
            "usage": None,
        }
        self._output: list[dict[str, Any]] = []
        self._is_open = False
        """Whether the last item goes on."""
        self._num_events = 0

    @property
    def whole(self) -> dict[str, Any]:
        """The response as it is by now."""
        return {**self._head, **self._ending, "output": list(self._output)}

    def add(self, event: TurnEvent) -> list[dict[str, Any]]:
        """Add a piece; return the events that tell of it."""
        begun = self._begin()
        match event:
            case TextPiece(kind="reasoning"):
                return [*begun, *self._open_text("reasoning"), self._piece(event.text)]
            case TextPiece():
                opened = self._open_text("message")
                logprobs = [logprob_entry(step, self._vocabulary) for step in event.logprobs]
                self._output[-1]["content"][0]["logprobs"] += logprobs
                return [*begun, *opened, self._piece(event.text, logprobs=logprobs)]
            case CallBegun():
                item = {"call_id": event.call_id, "name": event.name, "arguments": ""}
                return [*begun, *self._close("completed"), self._open("function_call", "fc", item)]
            case CallPiece():
                return [*begun, self._piece(event.text)]
            case TurnEnd():
                return [*begun, *self._end(event)]

    def fail(self, error: ApiError) -> list[dict[str, Any]]:
        """Return the events that tell an error, and that the response failed."""
        begun = self._begin()
        told = self._event("error", code=error.code, message=str(error), param=error.param)
        # The protocol has words of its own here, none of which is ours; the event before tells that.
        is_ours = error.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        self._ending["error"] = {"code": "server_error" if is_ours else "invalid_prompt", "message": str(error)}
        if self._is_open:
            self._output[-1]["status"] = "incomplete"
        return [*begun, told, self._finish("failed")]

    def _begin(self) -> list[dict[str, Any]]:
        if self._num_events:
            return []
        return [self._event(f"response.{word}", response=self.whole) for word in ("created", "in_progress")]

    def _open_text(self, kind: str) -> list[dict[str, Any]]:
        """Have an item of text to go on with; return what is told of it if it is a new one."""
        if self._is_open and self._output[-1]["type"] == kind:
            return []
        closed = self._close("completed")
        if kind == "message":
            opened = self._open(kind, "msg", {"role": "assistant", "content": []})
        else:
            opened = self._open(kind, "rs", {"summary": [], "content": []})
        told = self._event("response.content_part.added", **self._place(), part=_new_part(kind))
        # What was told before holds the item as it was then.
        self._output[-1]["content"] = [_new_part(kind)]
        return [*closed, opened, told]

    def _open(self, kind: str, prefix: str, members: Mapping[str, Any]) -> dict[str, Any]:
        item = {"id": _new_id(prefix), "type": kind, "status": "in_progress", **members}
        self._output.append(item)
        self._is_open = True
        return self._event("response.output_item.added", output_index=len(self._output) - 1, item=dict(item))

    def _piece(self, text: str, **members: Any) -> dict[str, Any]:
        item = self._output[-1]
        if item["type"] == "function_call":
            item["arguments"] += text
        else:
            item["content"][0]["text"] += text
        return self._event(f"{_PIECES[item['type']]}.delta", **self._place(), delta=text, **members)

    def _close(self, status: str) -> list[dict[str, Any]]:
        """End the last item, if it goes on; return what is told of that."""
        if not self._is_open:
            return []
        self._is_open = False
        item, place = self._output[-1], self._place()
        item["status"] = status
        done = f"{_PIECES[item['type']]}.done"
        if item["type"] == "function_call":
            told = [self._event(done, **place, arguments=item["arguments"])]
        else:
            (part,) = item["content"]
            members = {name: part[name] for name in ("text", "logprobs") if name in part}
            told = [
                self._event(done, **place, **members),
                self._event("response.content_part.done", **place, part=part),
            ]
        return [*told, self._event("response.output_item.done", output_index=len(self._output) - 1, item=item)]

    def _end(self, end: TurnEnd) -> list[dict[str, Any]]:
        is_cut = end.finish_reason == "length"
        # An answer without any text is a text, too.
        opened = [] if self._output else self._open_text("message")
        closed = self._close("incomplete" if is_cut else "completed")
        self._ending["usage"] = _usage_object(end.usage)
        self._ending |= told_early_ends(end)
        if is_cut:
            self._ending["incomplete_details"] = {"reason": "max_output_tokens"}
            return [*opened, *closed, self._finish("incomplete")]
        self._ending["completed_at"] = int(time.time())
        return [*opened, *closed, self._finish("completed")]

    def _finish(self, status: str) -> dict[str, Any]:
        self._ending["status"] = status
        return self._event(f"response.{status}", response=self.whole)

    def _place(self) -> dict[str, Any]:
        """Return where the last item stands, and its part if it has parts."""
        item = self._output[-1]
        place = {"item_id": item["id"], "output_index": len(self._output) - 1}
        return place if item["type"] == "function_call" else {**place, "content_index": 0}

    def _event(self, kind: str, **members: Any) -> dict[str, Any]:
        event = {"type": kind, "sequence_number": self._num_events, **members}
        self._num_events += 1
        return event


def _echo(asked: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what comes back of a request, with the values that hold where it said nothing."""
    text = asked.get("text") or {}
    return {
        "background": False,
        "conversation": None,
        "instructions": values["instructions"],
        "max_output_tokens": values["max_output_tokens"],
        "max_tool_calls": None,
        "metadata": values["metadata"] or {},
        "parallel_tool_calls": values["parallel_tool_calls"],
        "previous_response_id": None,
        "prompt": None,
        "prompt_cache_key": values["prompt_cache_key"],
        "reasoning": {"effort": values["reasoning"], "summary": None},
        "safety_identifier": values["safety_identifier"],
        "service_tier": "default",
        "store": False,
        "temperature": values["temperature"],
        "text": {"format": text.get("format") or {"type": "text"}, "verbosity": "medium"},
        "tool_choice": asked.get("tool_choice") or "auto",
        "tools": asked.get("tools") or [],
        "top_logprobs": values["top_logprobs"] or 0,
        "top_p": values["top_p"],
        "truncation": "disabled",
        "user": values["user"],
    }


def _usage_object(usage: TurnUsage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _new_part(kind: str) -> dict[str, Any]:
    if kind == "message":
        return {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    return {"type": "reasoning_text", "text": ""}


def _new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"
