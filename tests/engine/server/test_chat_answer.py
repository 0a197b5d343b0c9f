from typing import Any

from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.outputs import StepLogprobs, TokenLogprob
from sureact.server.chat_answer import AnswerHead, ChatChoice, logprob_entry, usage_object
from sureact.server.turn_events import CallBegun, CallPiece, TextPiece, TurnEnd, TurnUsage

USAGE = TurnUsage(prompt_tokens=5, cached_tokens=2, completion_tokens=4, reasoning_tokens=1)


def end(reason: Any = "stop") -> TurnEnd:
    return TurnEnd(finish_reason=reason, stop_reason=None, token_ids=(1, 2), prompt_token_ids=(3,), usage=USAGE)


def choice(engine: ScriptedEngine, **options: Any) -> ChatChoice:
    return ChatChoice(0, engine.vocabulary, options.get("has_logprobs", False), options.get("has_token_ids", False))


def test_pieces_add_up_to_a_message(engine: ScriptedEngine) -> None:
    made = choice(engine)
    for event in (TextPiece("reasoning", "hm"), TextPiece("content", "a"), TextPiece("content", "b"), end()):
        made.add(event)
    assert made.whole["message"] == {
        "role": "assistant",
        "content": "ab",
        "refusal": None,
        "reasoning_content": "hm",
    }
    assert (made.whole["finish_reason"], made.whole["stop_reason"]) == ("stop", None)
    assert "token_ids" not in made.whole


def test_a_call_alone_has_no_content(engine: ScriptedEngine) -> None:
    made = choice(engine, has_token_ids=True)
    first = made.add(CallBegun(0, "call_1", "f"))
    second = made.add(CallPiece(0, "{}"))
    made.add(end("tool_calls"))
    assert first is not None
    assert second is not None
    assert first["delta"]["tool_calls"] == [
        {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    ]
    assert second["delta"]["tool_calls"] == [{"index": 0, "function": {"arguments": "{}"}}]
    message = made.whole["message"]
    assert message["content"] is None
    assert message["tool_calls"] == [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    assert made.whole["token_ids"] == [1, 2]


def test_an_empty_answer_is_an_empty_text(engine: ScriptedEngine) -> None:
    made = choice(engine)
    made.add(end())
    assert made.whole["message"]["content"] == ""


def test_a_token_that_cannot_come_has_a_number_that_json_knows(engine: ScriptedEngine) -> None:
    (token,) = engine.encode("a")
    entry = logprob_entry(
        StepLogprobs(TokenLogprob(token, -0.5), (TokenLogprob(token, -float("inf")),)), engine.vocabulary
    )
    assert entry == {
        "token": "a",
        "logprob": -0.5,
        "bytes": [97],
        "top_logprobs": [{"token": "a", "logprob": -9999.0, "bytes": [97]}],
    }


def test_choices_share_their_prompt() -> None:
    assert usage_object([USAGE, USAGE]) == {
        "prompt_tokens": 5,
        "completion_tokens": 8,
        "total_tokens": 13,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 2},
    }


def test_all_objects_of_an_answer_have_one_id() -> None:
    head = AnswerHead("m", "chat.completion.chunk")
    assert head.of([])["id"] == head.of([])["id"]
    assert head.of([])["id"].startswith("chatcmpl-")
