import json
from typing import Any

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.outputs import StepLogprobs, TokenLogprob
from sureact.server.api_error import ApiError
from sureact.server.request_fields import read_fields
from sureact.server.response_answer import ResponseAnswer
from sureact.server.response_fields import RESPONSE_FIELDS
from sureact.server.turn_events import CallBegun, CallPiece, TextPiece, TurnEnd, TurnEvent, TurnUsage

OFFICIAL_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
USAGE = TurnUsage(prompt_tokens=7, cached_tokens=4, completion_tokens=5, reasoning_tokens=2)
THOUGHT = [TextPiece("reasoning", "h"), TextPiece("reasoning", "m")]
TEXT = [TextPiece("content", "Let me"), TextPiece("content", " see.")]
CALLS = [
    CallBegun(0, "call_a", "look_up"),
    CallPiece(0, '{"a": '),
    CallPiece(0, "1}"),
    CallBegun(1, "call_b", "stop"),
    CallPiece(1, "{}"),
]
FUNCTION = {"type": "function", "name": "look_up", "parameters": {"type": "object"}, "strict": True}
ASKED: dict[str, Any] = {
    "input": "hi",
    "instructions": "be brief",
    "tools": [FUNCTION],
    "tool_choice": {"type": "function", "name": "look_up"},
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
    "max_output_tokens": 9,
    "metadata": {"a": "b"},
    "user": "u",
    "temperature": 0.5,
}


def end(reason: Any = "stop") -> TurnEnd:
    return TurnEnd(finish_reason=reason, stop_reason=None, token_ids=(), prompt_token_ids=(), usage=USAGE)


def begin(engine: ScriptedEngine, **asked: Any) -> ResponseAnswer:
    asked = {"input": "hi", **asked}
    return ResponseAnswer("tiny", asked, read_fields(asked, RESPONSE_FIELDS), engine.vocabulary)


def told(engine: ScriptedEngine, *pieces: TurnEvent, **asked: Any) -> tuple[dict[str, Any], list[Any]]:
    """Return the response that is put together, and the events as they are at the time that they are told."""
    answer = begin(engine, **asked)
    events = [json.loads(json.dumps(event)) for piece in pieces for event in answer.add(piece)]
    return answer.whole, events


def test_events_come_in_the_protocols_order(engine: ScriptedEngine) -> None:
    _, events = told(engine, *THOUGHT, *TEXT, *CALLS, end("tool_calls"))
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        *("created", "in_progress"),
        *("output_item.added", "content_part.added", "reasoning_text.delta", "reasoning_text.delta"),
        *("reasoning_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "content_part.added", "output_text.delta", "output_text.delta"),
        *("output_text.done", "content_part.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done"),
        *("output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"),
        "completed",
    ]


def test_every_object_is_the_official_clients(engine: ScriptedEngine) -> None:
    for asked in ({}, ASKED):
        whole, events = told(engine, *THOUGHT, *TEXT, *CALLS, end(), **asked)
        assert set(Response.model_fields) - set(whole) <= {
            *("access_programs", "image", "input_transformations", "moderation", "tool_usage"),
            *("prompt_cache_diagnostics", "prompt_cache_options", "prompt_cache_retention"),
        }
        Response.model_validate(whole)
        for event in events:
            assert OFFICIAL_EVENT.validate_python(event).type == event["type"]


def test_what_was_asked_comes_back(engine: ScriptedEngine) -> None:
    whole, _ = told(engine, end(), **ASKED)
    assert {name: whole[name] for name in ASKED if name not in ("input", "text")} == {
        name: value for name, value in ASKED.items() if name not in ("input", "text")
    }
    assert whole["text"] == {**ASKED["text"], "verbosity": "medium"}
    whole, _ = told(engine, end())
    assert (whole["temperature"], whole["tool_choice"], whole["tools"], whole["store"]) == (0.0, "auto", [], False)
    assert whole["text"]["format"] == {"type": "text"}


def test_the_events_add_up_to_the_response(engine: ScriptedEngine) -> None:
    whole, events = told(engine, *THOUGHT, *TEXT, *CALLS, end("tool_calls"))
    thought, message, first, second = whole["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "hm"}]
    assert message["content"][0]["text"] == "Let me see."
    assert [(call["name"], call["call_id"], call["arguments"]) for call in (first, second)] == [
        ("look_up", "call_a", '{"a": 1}'),
        ("stop", "call_b", "{}"),
    ]
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == whole["output"]
    assert events[-1]["response"] == whole
    added = [event["item"] for event in events if event["type"] == "response.output_item.added"]
    assert [item["id"] for item in added] == [item["id"] for item in whole["output"]]
    assert [item.get("content", item.get("arguments")) for item in added] == [[], [], "", ""]
    assert {item["status"] for item in added} == {"in_progress"}
    assert {item["status"] for item in whole["output"]} == {"completed"}


def test_the_first_events_say_that_nothing_is_there_yet(engine: ScriptedEngine) -> None:
    whole, (created, begun, *_) = told(engine, *TEXT, end())
    for event in (created, begun):
        assert (event["response"]["status"], event["response"]["output"]) == ("in_progress", [])
        assert event["response"]["usage"] is None
        assert event["response"]["id"] == whole["id"]


def test_usage_is_told_at_the_end(engine: ScriptedEngine) -> None:
    assert told(engine, *TEXT, end())[0]["usage"] == {
        "input_tokens": 7,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 12,
    }


@pytest.mark.parametrize("pieces", [TEXT, THOUGHT, CALLS[:2]])
def test_what_the_budget_cut_is_incomplete(engine: ScriptedEngine, pieces: list[TurnEvent]) -> None:
    whole, events = told(engine, *pieces, end("length"))
    assert (whole["status"], whole["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert whole["output"][-1]["status"] == "incomplete"
    assert whole["completed_at"] is None
    assert events[-1]["type"] == "response.incomplete"


def test_an_answer_without_text_is_an_empty_text(engine: ScriptedEngine) -> None:
    (item,) = told(engine, end())[0]["output"]
    assert (item["type"], item["content"][0]["text"]) == ("message", "")
    whole, _ = told(engine, *THOUGHT, end())
    assert [item["type"] for item in whole["output"]] == ["reasoning"]


def test_log_probabilities_stand_with_their_text(engine: ScriptedEngine) -> None:
    (token,) = engine.encode("h")
    step = StepLogprobs(TokenLogprob(token, -0.5), (TokenLogprob(token, -0.5),))
    whole, events = told(engine, TextPiece("content", "h", (step,)), TextPiece("content", "h", (step,)), end())
    entry: dict[str, Any] = {"token": "h", "logprob": -0.5, "bytes": [104]}
    entry["top_logprobs"] = [dict(entry)]
    assert whole["output"][0]["content"][0]["logprobs"] == [entry, entry]
    deltas = [event["logprobs"] for event in events if event["type"] == "response.output_text.delta"]
    assert deltas == [[entry], [entry]]
    added = next(event for event in events if event["type"] == "response.content_part.added")
    assert added["part"]["logprobs"] == []
    done = next(event for event in events if event["type"] == "response.output_text.done")
    assert done["logprobs"] == [entry, entry]


@pytest.mark.parametrize("pieces", [[], TEXT])
@pytest.mark.parametrize(("status", "word"), [(500, "server_error"), (504, "server_error"), (400, "invalid_prompt")])
def test_an_error_is_told_and_fails_the_response(
    engine: ScriptedEngine, pieces: list[TurnEvent], status: int, word: str
) -> None:
    answer = begin(engine)
    events = [event for piece in pieces for event in answer.add(piece)]
    events += answer.fail(ApiError("no", status=status, code="request_timeout"))
    assert [event["type"] for event in events][:2] == ["response.created", "response.in_progress"]
    *_, error, failed = events
    sent = {"type": "error", "code": "request_timeout", "message": "no", "param": None}
    assert error == {**sent, "sequence_number": len(events) - 2}
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": word, "message": "no"}
    assert [item["status"] for item in failed["response"]["output"]] == ["incomplete"] * bool(pieces)
    Response.model_validate(failed["response"])
