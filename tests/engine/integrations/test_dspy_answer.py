"""Dialogues: which steps an answer takes, played with written replies."""

import json
from typing import Any

import pytest
from dspy import lm15

from sureact.engine import Engine
from sureact.errors import OutputTruncatedError, RequestAbortedError
from sureact.integrations.dspy_answer import Answer, Dialogue, Generate, Score, Truncate, candidates_in
from sureact.integrations.dspy_prompt import PromptWriter
from sureact.integrations.dspy_request import COMPLETED, read_request
from sureact.outputs import FinishReason, StepOutput, TokenUsage

SEARCH = lm15.FunctionTool("search", None, {"type": "object", "properties": {"q": {"type": "string"}}})
TAG = (259,)
OBJECT = {"type": "json_object"}


def call_text(query: str) -> str:
    return f'\n{{"name": "search", "arguments": {{"q": "{query}"}}}}\n'


def output(text: str = "", finish: FinishReason = "stop", stop: str | tuple[int, ...] | None = None) -> StepOutput:
    tokens = max(len(text) // 4, 1)
    usage = TokenUsage(prompt_tokens=10, cached_tokens=4, completion_tokens=tokens)
    return StepOutput(text=text, token_ids=(1,) * tokens, finish_reason=finish, stop_reason=stop, usage=usage)


def dialogue(
    engine: Engine, text: str = "hi", tools: tuple[lm15.FunctionTool, ...] = (SEARCH,), **config: Any
) -> Dialogue:
    request = lm15.Request("m", (lm15.Message.user(text),), tools=tools, config=lm15.Config(**config))
    ask = read_request(request, 100)
    call = None if ask.calls is None else PromptWriter(engine).call_constraint(ask.calls)
    return Dialogue(ask, call, 10, engine.vocabulary, TAG)


def play(steps: Dialogue, *replies: Any) -> tuple[list[Any], Answer]:
    """Answer what a dialogue asks for, in order; return what it asked for and showed, and the answer."""
    run, left, asked = steps.run(), list(replies), list[Any]()
    reply: Any = None
    while True:
        try:
            step = run.send(reply)
        except StopIteration as end:
            assert not left, "more replies than questions"
            return asked, end.value
        asked.append(step)
        reply = left.pop(0) if isinstance(step, Generate | Score) else None


def kinds(asked: list[Any]) -> list[str]:
    return [type(step).__name__ for step in asked]


def test_a_text_without_a_call_is_the_answer(tiny_engine: Engine) -> None:
    asked, answer = play(dialogue(tiny_engine), output("hello"))
    assert kinds(asked) == ["Generate"]
    assert asked[0].is_shown
    assert (answer.parts, answer.finish_reason) == ((lm15.TextPart("hello"),), "stop")
    assert answer.usage == lm15.Usage(input_tokens=10, output_tokens=1, cache_read_tokens=4)


def test_a_text_that_opens_calls_is_followed_by_them(tiny_engine: Engine) -> None:
    asked, answer = play(
        dialogue(tiny_engine),
        output("Let me see.\n", stop=TAG),
        output(call_text("a")),
        output("\n", stop=TAG),
        output(call_text("b")),
        output("done"),
    )
    assert kinds(asked) == [
        "Generate",
        "Generate",
        "ToolCallDelta",
        "Generate",
        "Generate",
        "ToolCallDelta",
        "Generate",
        "Truncate",
    ]
    assert answer.parts == (
        lm15.TextPart("Let me see.\n"),
        lm15.ToolCallPart("call_0", "search", {"q": "a"}),
        lm15.ToolCallPart("call_1", "search", {"q": "b"}),
    )
    assert answer.finish_reason == "tool_call"


def test_a_call_made_twice_ends_the_answer(tiny_engine: Engine) -> None:
    replies = (output(stop=TAG), output(call_text("a")), output(stop=TAG), output(call_text("a")))
    _, answer = play(dialogue(tiny_engine), *replies)
    assert [part.type for part in answer.parts] == ["tool_call"]


def test_a_required_call_comes_at_once_and_alone_if_asked(tiny_engine: Engine) -> None:
    choice = lm15.ToolChoice("required", parallel=False)
    asked, answer = play(dialogue(tiny_engine, tool_choice=choice), output(call_text("a")))
    assert kinds(asked) == ["Generate", "ToolCallDelta"]
    assert asked[0].constraint is not None
    assert asked[1].part_index == 1
    assert answer.parts == (lm15.ToolCallPart("call_0", "search", {"q": "a"}),)


def test_a_form_to_keep_comes_before_a_required_call(tiny_engine: Engine) -> None:
    choice = lm15.ToolChoice("required", parallel=False)
    steps = dialogue(tiny_engine, tool_choice=choice, response_format=OBJECT)
    _, answer = play(steps, output("{}"), output(call_text("a")))
    assert [part.type for part in answer.parts] == ["text", "tool_call"]


def test_the_model_chooses_between_a_form_and_a_call(tiny_engine: Engine) -> None:
    steps = dialogue(tiny_engine, response_format=OBJECT)
    asked, answer = play(steps, output(stop=TAG), output(call_text("a")), output("x"))
    assert [part.type for part in answer.parts] == ["tool_call"]
    steps = dialogue(tiny_engine, response_format=OBJECT)
    asked, answer = play(steps, output("x"), output("{}"), output("x"))
    assert kinds(asked) == ["Generate", "Truncate", "Generate", "Generate", "Truncate"]
    assert (asked[1], asked[4]) == (Truncate(10), Truncate(11))
    assert answer.parts == (lm15.TextPart("{}"),)


def test_a_cut_text_says_so_and_a_cut_form_is_an_error(tiny_engine: Engine) -> None:
    _, answer = play(dialogue(tiny_engine, tools=()), output("and so", "length"))
    assert answer.finish_reason == "length"
    with pytest.raises(OutputTruncatedError, match="What came"):
        play(dialogue(tiny_engine, tools=(), response_format=OBJECT), output('{"a', "length"))


def test_a_cut_call_is_an_error_only_if_it_is_the_first(tiny_engine: Engine) -> None:
    choice = lm15.ToolChoice("required")
    with pytest.raises(OutputTruncatedError):
        play(dialogue(tiny_engine, tool_choice=choice), output("\n{", "length"))
    steps = dialogue(tiny_engine, tool_choice=choice)
    _, answer = play(steps, output(call_text("a")), output("\n", stop=TAG), output("\n{", "length"))
    assert [part.type for part in answer.parts] == ["tool_call"]


def test_a_cancelled_request_has_no_answer(tiny_engine: Engine) -> None:
    with pytest.raises(RequestAbortedError):
        play(dialogue(tiny_engine), output("half", "abort"))


def test_the_marker_stays_in_the_text_for_who_listens_for_it(tiny_engine: Engine) -> None:
    steps = dialogue(tiny_engine, f"End with {COMPLETED}.", tools=())
    asked, answer = play(steps, output("[[ ## a ## ]]\n1\n\n", stop=COMPLETED))
    assert asked[1] == lm15.TextDelta(COMPLETED)
    assert answer.parts == (lm15.TextPart("[[ ## a ## ]]\n1\n\n" + COMPLETED),)


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "note": {"type": "string"},
        "mood": {"enum": ["good", "goody"]},
        "sure": {"type": "boolean"},
        "level": {"anyOf": [{"const": 0}, {"const": 1}]},
    },
}
TEXT = '{"note": "a, \\"b\\": 1}", "mood": "good", "sure": true, "level": 1}'


def test_each_declared_answer_is_a_beginning_of_the_object() -> None:
    found = candidates_in(TEXT, SCHEMA)
    before = '{"note": "a, \\"b\\": 1}", "mood": '
    assert found == {
        "mood": {"good": before + '"good",', "goody": before + '"goody",'},
        "sure": {"true": before + '"good", "sure": true,', "false": before + '"good", "sure": false,'},
        "level": {key: before + f'"good", "sure": true, "level": {key}}}' for key in "01"},
    }


@pytest.mark.parametrize("answers", [{"enum": ["a", "a"]}, {"enum": [1, 2]}, {"enum": ["a", 1]}, {"const": 1}, {}])
def test_what_declares_no_answers_has_none(answers: dict[str, Any]) -> None:
    assert candidates_in('{"x": "a"}', {"properties": {"x": answers}}) == {}
    assert candidates_in("{}", {}) == {}


def test_probabilities_come_from_the_scores_of_all_answers(tiny_engine: Engine) -> None:
    schema = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
    wanted = {"type": "json_schema", "schema": schema}
    steps = dialogue(tiny_engine, tools=(), response_format=wanted, probabilities="required")
    asked, answer = play(steps, output('{"sure": true}'), [-1.0, -1.0])
    assert asked[1] == Score(10, ['{"sure": true}', '{"sure": false}'])
    part = answer.parts[0]
    assert isinstance(part, lm15.DataPart)
    assert part.value == {"sure": True}
    assert part.probabilities == {"sure": {"true": 0.5, "false": 0.5}}
    assert json.dumps(part.value)
