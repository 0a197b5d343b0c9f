"""`constrain`: what it writes down of a program, and that a random model then never slips."""

import json
from enum import Enum
from typing import Annotated, Any, Literal

import dspy as dspy_package
import pydantic
import pytest

from sureact.errors import ConfigError
from sureact.integrations.dspy import constrain, release
from sureact.integrations.dspy_fields import FieldLayout
from sureact.integrations.dspy_frame import FrameConstraint

dspy: Any = dspy_package
"""Its types say signature classes where texts are taken too."""


class Color(Enum):
    RED = 1
    BLUE = 2


class Size(pydantic.BaseModel):
    width: Literal[1, 2]
    tags: list[Literal["a"]] = pydantic.Field(max_length=1)


class Box(pydantic.BaseModel):
    outer: Size
    inner: list[Size] = pydantic.Field(max_length=1)


class Measure(dspy.Signature):
    """Measure it."""

    question: str = dspy.InputField()
    box: Box = dspy.OutputField()


class Judge(dspy.Signature):
    """Judge it."""

    question: str = dspy.InputField()
    size: Size = dspy.OutputField()
    color: Color = dspy.OutputField()
    kind: Literal["x", "y z"] = dspy.OutputField()
    sure: bool = dspy.OutputField()


def search(query: Literal["cats", "dogs"], k: int = 3, options: dict[Literal["lang"], str] | None = None) -> str:
    """Search."""
    return f"{query} {k}"


def clock() -> str:
    """Tell the time."""
    return "noon"


def layout_of(predictor: Any) -> FieldLayout:
    return FieldLayout.read(predictor.config["metadata"]["sureact"])


def test_what_a_tool_takes_besides_its_named_arguments_is_none_of_them() -> None:
    def fetch(url: str, *rest: str, **kwargs: str) -> str:
        return url

    react = constrain(dspy.ReAct("question -> answer", tools=[fetch]))
    schema = layout_of(react.react).tools["fetch"]
    assert (list(schema["properties"]), schema["required"]) == (["url"], ["url"])


def test_an_error_names_the_output_and_of_several_predictors_which_one() -> None:
    with pytest.raises(ConfigError, match=r"^The output 'completed' is called as"):
        constrain(dspy.Predict("a -> completed"))
    with pytest.raises(ConfigError, match=r"^The output 'completed' of the predictor 'predict' is called as"):
        constrain(dspy.ChainOfThought("a -> completed"))


def test_the_fields_of_every_predictor_are_written_down() -> None:
    program = constrain(dspy.ChainOfThought(Judge), max_thought_length=40)
    fields = {field.name: field for field in layout_of(program.predict).fields}
    assert list(fields) == ["reasoning", "size", "color", "kind", "sure"]
    assert fields["reasoning"].schema == {"type": "string", "maxLength": 40}
    assert fields["color"].choices == ("RED", "BLUE")
    assert fields["kind"].choices == ("x", "y z")
    assert fields["sure"].schema == {"type": "boolean"}


def test_the_tools_are_those_of_the_module_with_limits_for_free_text() -> None:
    react = constrain(dspy.ReAct("question -> answer", tools=[search, clock]), max_string_length=7)
    react.react.signature = react.react.signature.with_instructions("There is one tool, shell.")
    layout = layout_of(react.react)
    assert [field.name for field in layout.fields] == ["next_thought"]
    assert list(layout.tools) == ["search", "clock", "finish"]
    assert layout.tools["finish"]["properties"] == {}
    assert layout.tools["search"]["required"] == ["query"]
    assert "'maxLength': 7" in str(layout.tools["search"]["properties"]["options"])
    assert layout.tools["search"]["properties"]["query"]["enum"] == ["cats", "dogs"]
    assert layout_of(react.extract.predict).tools == {}


def test_no_limit_leaves_the_schemas_alone() -> None:
    react = constrain(dspy.ReAct("question -> answer", tools=[search]), max_thought_length=None, max_string_length=None)
    assert "maxLength" not in str(layout_of(react.react).write())


def test_release_leaves_what_was_there_before() -> None:
    react = dspy.ReAct("question -> answer", tools=[clock])
    react.react.update_config(metadata={"mine": 1}, temperature=0.5)
    v2 = dspy.ReActV2("question -> answer", tools=[clock])
    assert release(constrain(react)) is react
    assert react.react.config == {"metadata": {"mine": 1}, "temperature": 0.5}
    assert react.extract.predict.config == {}
    assert constrain(v2).react.config["tool_choice"] == "required"
    assert release(v2).react.config == {}


@pytest.mark.parametrize("option", ["max_thought_length", "max_string_length"])
def test_a_limit_that_leaves_nothing_is_refused(option: Any) -> None:
    with pytest.raises(ConfigError, match=f"{option} is 0"):
        constrain(dspy.Predict("a -> b"), **{option: 0})
    wrong: Any = "x"
    with pytest.raises(ConfigError, match=f"{option} is 'x'; it must be a whole number, at least 1"):
        constrain(dspy.Predict("a -> b"), **{option: wrong})


@pytest.mark.parametrize("change", [constrain, release])
def test_what_is_no_program_is_refused(change: Any) -> None:
    with pytest.raises(ConfigError, match="The program is 'x'; it must be a module of dspy"):
        change("x")


def test_a_field_that_dspy_reads_in_its_own_way_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"The output .* is a Image"):
        constrain(dspy.Predict(dspy.Signature("a -> b").append("image", dspy.OutputField(), dspy.Image)))


def test_a_schema_that_cannot_be_enforced_is_refused_at_once_with_the_tools_name() -> None:
    tool = dspy.Tool(clock, name="clock", args={"zone": {"$ref": "#/nowhere"}})
    with pytest.raises(ConfigError, match="The tool 'clock' has a schema that cannot be enforced"):
        constrain(dspy.ReAct("question -> answer", tools=[tool]))


def test_an_output_with_the_name_of_dspys_marker_is_refused() -> None:
    with pytest.raises(ConfigError, match="rename it"):
        constrain(dspy.Predict("a -> completed"))


ShortText: Any = Annotated[str, pydantic.Field(max_length=3)]
CodeText: Any = Annotated[str, pydantic.Field(pattern="^[A-Z]{3}$")]


class Padded(Enum):
    A = " a"


@pytest.mark.parametrize(
    ("annotation", "options", "message"),
    [
        (str, {"pattern": "^[A-Z]{3}$", "max_length": 3}, "'code' is a text with pattern"),
        (Literal["a\u2028b"], {}, "has the choice 'a\\\\u2028b'"),
        (Literal["[[ ## completed ## ]]"], {}, "has the choice"),
        (Padded, {}, "has the choice ' a'"),
        (Literal["a", "b "], {}, "has the choice 'b '"),
        (Literal["a\nb", 1], {}, r"has the choice 'a\\nb'"),
        (Literal["abc", "d"], {"max_length": 2}, "'code' is one of fixed values, and is not held to MaxLen"),
        (Color, {"max_length": 2}, "'code' is one of fixed values"),
        (str, {"max_length": 0}, "'code' is a text of no characters"),
        (str | None, {"max_length": 0}, "'code' is a text of no characters"),
        (str | None, {"pattern": "^[A-Z]{3}$"}, "'code' may be a text beside other things"),
        (str | int | None, {}, "'code' may be a text beside other things"),
        (ShortText | None, {}, "'code' may be a text beside other things"),
        (Annotated[str, pydantic.AfterValidator(str.upper)], {}, "'code' is a text with a validator"),
        (Annotated[str, pydantic.StringConstraints(to_lower=True)], {}, "'code' is a text with to_lower"),
    ],
)
def test_what_dspy_would_not_read_back_is_refused_by_name(annotation: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        constrain(dspy.Predict(dspy.Signature("q -> a").append("code", dspy.OutputField(**options), annotation)))


class Lines(Enum):
    A = "a\nb"
    B = "c"


@pytest.mark.parametrize(
    ("annotation", "values"),
    [
        (Literal["a\nb", "", "'q'"], ["a\nb", "", "'q'"]),
        (Lines, [Lines.A, Lines.B]),
        (Literal["a", 1, True, None], ["a", 1, True, None]),
        (Literal[1, 2], [1, 2]),
        (Literal["a\nb"] | None, ["a\nb", None]),
        (CodeText | None, ["ABC", None]),
        (str | int, ["7", 7]),
    ],
)
def test_dspys_own_adapter_reads_back_what_the_frame_lets_a_model_write(annotation: Any, values: list[Any]) -> None:
    signature = dspy.Signature("q -> a").append("code", dspy.OutputField(), annotation)
    predictor: Any = constrain(dspy.Predict(signature))
    layout = FieldLayout.read(predictor.config["metadata"]["sureact"])
    frame = FrameConstraint.of(layout)
    for value in values:
        plain = value.value if isinstance(value, Enum) else value
        written = plain if layout.fields[-1].choices else json.dumps(plain)
        text = f"[[ ## a ## ]]\nx\n\n[[ ## code ## ]]\n{written}\n\n[[ ## completed ## ]]"
        assert frame.parse(text)["code"] == plain
        read = dspy.ChatAdapter().parse(signature, text)["code"]
        assert (type(read), read) == (type(value), value)


def test_the_lengths_of_thoughts_are_their_own_if_they_have_some() -> None:
    def schema(annotation: Any, **options: Any) -> Any:
        signature = dspy.Signature("q -> a").append("reasoning", dspy.OutputField(**options), annotation)
        return dict(constrain(dspy.Predict(signature)).config["metadata"]["sureact"]["fields"])["reasoning"]

    assert schema(dspy.Reasoning, max_length=3) == {"type": "string", "maxLength": 3}
    assert schema(str, min_length=5) == {"type": "string", "minLength": 5, "maxLength": 1000}
    assert schema(str, min_length=2000) == {"type": "string", "minLength": 2000, "maxLength": 2000}


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter()])
def test_texts_have_the_length_that_they_are_to_have_and_choices_may_have_lines(dspy_lm: Any, adapter: Any) -> None:
    class Word(dspy.Signature):
        q: str = dspy.InputField()
        short: str = dspy.OutputField(min_length=3, max_length=5)
        maybe: str | None = dspy.OutputField(max_length=4)
        lines: Literal["a\nb", "c"] = dspy.OutputField()

    program = constrain(dspy.Predict(Word))
    with dspy.context(adapter=adapter):
        answer = program(q="?")
    assert 3 <= len(answer.short) <= 5
    assert answer.maybe is None or len(answer.maybe) <= 4
    assert answer.lines in ("a\nb", "c")
    assert len(dspy_lm.history) == 1


@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter()])
def test_typed_answers_of_a_random_model_are_of_their_types(dspy_lm: Any, adapter: Any) -> None:
    program = constrain(dspy.ChainOfThought(Judge), max_thought_length=20)
    with dspy.context(adapter=adapter):
        answer = program(question="Which?")
    assert isinstance(answer.size, Size)
    assert isinstance(answer.color, Color)
    assert answer.kind in ("x", "y z")
    assert isinstance(answer.sure, bool)
    assert len(answer.reasoning) <= 20
    assert len(dspy_lm.history) == 1  # no second call because the first did not parse


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("adapter", [dspy.ChatAdapter(), dspy.JSONAdapter()])
def test_a_react_run_of_a_random_model_never_slips(dspy_lm: Any, adapter: Any, seed: int) -> None:
    react = dspy.ReAct('question -> answer: Literal["yes", "no"]', tools=[search, clock], max_iters=4)
    constrain(react, max_thought_length=20, max_string_length=5)
    react.react.update_config(temperature=1.0, seed=seed, max_tokens=2000)
    with dspy.context(adapter=adapter):
        run = react(question="Cats?")
    steps = sum(key.startswith("tool_name") for key in run.trajectory)
    assert steps == 4 or run.trajectory[f"tool_name_{steps - 1}"] == "finish"
    assert not any("Execution error" in str(value) for value in run.trajectory.values())
    assert run.answer in ("yes", "no")
    assert len(dspy_lm.history) == steps + 1


@pytest.mark.parametrize(
    "adapter",
    [
        dspy.ChatAdapter(),
        dspy.JSONAdapter(),
        dspy.ChatAdapter(use_native_function_calling=True),
        dspy.JSONAdapter(use_native_function_calling=False),
    ],
)
def test_a_react_v2_run_of_a_random_model_never_slips(dspy_lm: Any, adapter: Any) -> None:
    react = dspy.ReActV2(Measure, tools=[clock], max_iters=3)
    constrain(react, max_thought_length=20)
    with dspy.context(adapter=adapter):
        run = react(question="Cats?")
    assert isinstance(Box.model_validate(run.box), Box)
    assert run.termination_reason in ("submit", "forced_submit")
    results = [
        result for event in run.history.messages for result in event["tool_calls"].tool_call_results.tool_call_results
    ]
    assert results
    assert not any(result.is_error for result in results)
