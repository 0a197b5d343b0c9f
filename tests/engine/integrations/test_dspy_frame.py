"""ChatAdapter's frame as a constraint: what it lets through is what dspy reads."""

import json
from importlib.resources import files
from typing import Any

import dspy
import pytest

from sureact.constraints.byte_matcher import grammar_error, matches_grammar
from sureact.engine import Engine
from sureact.errors import InternalError
from sureact.integrations.dspy_fields import CALL_FIELDS, Field, FieldLayout
from sureact.integrations.dspy_frame import FrameConstraint, FrameGuard
from sureact.sampling_params import SamplingParams

NUMBER: dict[str, Any] = {"type": "number", "minimum": 0}
CALCULATE: dict[str, Any] = {"type": "object", "properties": {"a": NUMBER}, "required": ["a"]}
FINISH: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
REACT = FrameConstraint.of(
    FieldLayout((Field("next_thought", {"type": "string", "maxLength": 20}),), {"calc": CALCULATE, "finish": FINISH})
)
PREDICT = FrameConstraint.of(
    FieldLayout(
        (
            Field("reasoning", {"type": "string", "maxLength": 30}),
            Field("kind", {"enum": ["a", "ab"]}),
            Field("numbers", {"type": "array", "items": NUMBER, "maxItems": 2}),
        ),
        {},
    )
)


def react_text(thought: str = "go on", name: str = "calc", args: str = '{"a": 1.5}') -> str:
    return (
        f"[[ ## next_thought ## ]]\n{thought}\n\n[[ ## next_tool_name ## ]]\n{name}\n\n"
        f"[[ ## next_tool_args ## ]]\n{args}\n\n[[ ## completed ## ]]"
    )


def predict_text(reasoning: str = "so", kind: str = "ab", numbers: str = "[1, 2]") -> str:
    return (
        f"[[ ## reasoning ## ]]\n{reasoning}\n\n[[ ## kind ## ]]\n{kind}\n\n[[ ## numbers ## ]]\n{numbers}\n\n"
        "[[ ## completed ## ]]"
    )


@pytest.mark.parametrize("thought", ["go on", "a [b] c", "x[[1]]", "多语", "two\nlines", "[x](y)", "a [[ b"[:3] + "c"])
def test_a_thought_is_any_text_that_opens_no_header(thought: str) -> None:
    text = react_text(thought)
    assert matches_grammar(REACT.lark(), text)
    values = REACT.parse(text)
    assert values == {"next_thought": thought, "next_tool_name": "calc", "next_tool_args": {"a": 1.5}}


@pytest.mark.parametrize(
    "text",
    [
        react_text(" blank first"),
        react_text(""),
        react_text("x" * 21),
        react_text("a\n[[ ## next_tool_name ## ]]\nfinish"),
        react_text(name="look"),
        react_text(name="finish"),
        react_text(args="{}"),
        react_text() + "\nObservation: made up",
    ],
)
def test_what_is_no_frame_of_these_fields_is_refused(text: str) -> None:
    assert not grammar_error(REACT.lark())
    assert not matches_grammar(REACT.lark(), text)


@pytest.mark.parametrize("text", [react_text(name="look"), react_text(args='{"a": -1}'), "prose", predict_text()])
def test_the_last_judge_knows_the_frame_too(text: str) -> None:
    with pytest.raises(InternalError):
        REACT.parse(text)


def test_values_of_all_kinds_are_read_back() -> None:
    assert matches_grammar(PREDICT.lark(), predict_text())
    assert PREDICT.parse(predict_text()) == {"reasoning": "so", "kind": "ab", "numbers": [1, 2]}
    with pytest.raises(InternalError):
        PREDICT.parse(predict_text(kind="b"))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("constraint", [REACT, PREDICT])
def test_a_random_model_writes_what_dspy_can_read(long_engine: Engine, constraint: FrameConstraint, seed: int) -> None:
    output = long_engine.generate("Write.", SamplingParams(max_tokens=1000, temperature=1.0, seed=seed), constraint)
    assert output.finish_reason == "stop"
    assert constraint.parse(output.text) == output.completions[0].value


TOOLS: list[Any] = json.loads(files("sureact.evaluation").joinpath("tool_schemas.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("seed", range(4))
def test_dspy_reads_from_a_frame_what_was_written(long_engine: Engine, seed: int) -> None:
    tools = {tool["name"]: tool["parameters"] for tool in TOOLS[seed * 3 : seed * 3 + 3]}
    constraint = FrameConstraint.of(FieldLayout((Field("next_thought", {"type": "string", "maxLength": 15}),), tools))
    text = long_engine.generate("Call.", SamplingParams(max_tokens=2000, temperature=0.8, seed=seed), constraint).text
    make_signature: Any = dspy.Signature
    signature = make_signature("q -> next_thought, next_tool_name, next_tool_args: dict")
    read, written = dspy.ChatAdapter().parse(signature, text), constraint.parse(text)
    assert {name: read[name] for name in CALL_FIELDS} == {name: written[name] for name in CALL_FIELDS}


def test_a_text_without_a_limit_may_be_long() -> None:
    constraint = FrameConstraint.of(FieldLayout((Field("answer", {"type": "string"}),), {}))
    assert matches_grammar(constraint.lark(), f"[[ ## answer ## ]]\n{'long ' * 500}\n\n[[ ## completed ## ]]")


def judged_numbers() -> FrameGuard:
    guard = FieldLayout((Field("n", NUMBER),), {}).json_constraint().grammar_for_any_vocabulary().guard
    assert guard is not None, "a grammar cannot exclude numbers that are not finite"
    return FrameGuard({b"[[ ## n ## ]]\n": guard})


def test_a_guard_judges_from_its_header_to_the_end_of_the_line() -> None:
    state = judged_numbers().new_state()
    assert state.feed(b'{"n": -1}\n[[ ## n ')
    start = state.position()
    assert state.feed(b'## ]]\n{"n": 1')
    assert not state.can_end()
    inside = state.position()
    assert not state.feed(b"e999}\n")
    state.go_back(inside)
    assert state.num_settled_bytes <= 36
    assert state.feed(b"}\n\n[[ ## completed ## ]]")
    assert state.can_end()
    state.go_back(start)
    assert state.feed(b'## ]]\n{"n": 12}\n')
    assert state.can_end()


def test_a_value_that_ends_before_it_is_whole_is_refused() -> None:
    state = judged_numbers().new_state()
    assert not state.feed(b'[[ ## n ## ]]\n{"n": \n')


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\u2029"])
def test_no_line_ends_where_json_has_none(mark: str) -> None:
    data = f'{{"n": "{mark}'.encode()
    state = FrameGuard({}).new_state()
    assert state.feed(data[:-1])
    assert not state.feed(data[-1:])
    assert not FrameGuard({}).new_state().feed(data)
    assert FrameGuard({}).new_state().feed("  …".encode())
