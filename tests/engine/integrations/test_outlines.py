"""outlines as a front of the engine: its types, its processors, its templates."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from outlines import Application, Generator, Template
from outlines.inputs import Chat
from outlines.types import CFG, JsonSchema, Regex, either
from pydantic import BaseModel, Field, field_validator

from sureact.agent.tool import Tool
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintStateError, OutputTruncatedError
from sureact.integrations.outlines import (
    EngineModel,
    SteerableEngineModel,
    from_engine,
    from_engine_steerable,
    template_from_file,
    template_from_string,
)
from sureact.sampling_params import SamplingParams


class Size(BaseModel):
    width: int = Field(ge=0, le=99)
    unit: Literal["cm", "in"]


class Never(BaseModel):
    number: Literal[1, 3]

    @field_validator("number")
    @classmethod
    def refuse(cls, value: int) -> int:
        raise ValueError("no")


def measure(width: Literal[1, 2], unit: Literal["cm"] = "cm") -> None:
    """Measure a thing."""


@pytest.fixture
def model(tiny_engine: Engine) -> EngineModel:
    return from_engine(tiny_engine)


@pytest.fixture
def steerable(tiny_engine: Engine) -> SteerableEngineModel:
    return from_engine_steerable(tiny_engine)


def chat_text(engine: Engine, text: str, params: SamplingParams | None = None, constraint: object = None) -> str:
    return engine.chat([{"role": "user", "content": text}], params, constraint).text


@pytest.mark.parametrize(
    ("output_type", "is_valid"),
    [
        (Literal["search", "search_web", "finish"], ["search", "search_web", "finish"].__contains__),
        (Size, Size.model_validate_json),
        (JsonSchema({"enum": [1, "a"]}), ["1", '"a"'].__contains__),
        (Regex("[0-9]{3}"), str.isdecimal),
        (either("yes", Regex("no{1,3}")), ["yes", "no", "noo", "nooo"].__contains__),
        (CFG('start: "(" start ")" | "x"~3'), re.compile(r"\(*xxx\)*").fullmatch),
        (tuple[Literal[True], Literal[None]], "[true, null]".__eq__),
        (measure, re.compile(r'\{"width": [12](, "unit": "cm")?\}').fullmatch),
        (bool, ["true", "false"].__contains__),
    ],
)
def test_an_output_type_is_written_by_our_constraints(
    model: EngineModel, output_type: Any, is_valid: Callable[[str], object]
) -> None:
    generator: Any = Generator(model, output_type)
    text = generator("Say it.", max_tokens=200)
    assert isinstance(text, str)
    assert is_valid(text)
    assert model("Say it.", output_type, max_tokens=200) == text
    assert chat_text(model.engine, "Say it.", SamplingParams(max_tokens=200), output_type) == text
    assert "".join(generator.stream("Say it.", max_tokens=200)) == text


def test_a_batch_is_computed_together_and_gives_what_each_alone_gives(model: EngineModel) -> None:
    prompts = ["one", "two", "three"]
    generator = Generator(model, Size)
    assert generator.batch(prompts, max_tokens=60) == [generator(prompt, max_tokens=60) for prompt in prompts]
    assert model.batch(prompts, Size, max_tokens=60) == generator.batch(prompts, max_tokens=60)
    assert generator.batch([]) == []


def test_without_a_type_the_text_is_free(model: EngineModel) -> None:
    assert model("Go", max_tokens=9) == chat_text(model.engine, "Go", SamplingParams(max_tokens=9))


def test_options_are_those_of_sampling_params(model: EngineModel) -> None:
    drawn: Any = model("Go", max_tokens=5, temperature=2.0, seed=1, n=2)
    assert [type(text) for text in drawn] == [str, str]
    assert model.batch(["Go"], max_tokens=5, temperature=2.0, seed=1, n=2) == [drawn]
    free = model("Go", max_tokens=20, ignore_eos=True)
    assert model("Go", max_tokens=20, ignore_eos=True, stop=free[5]) == free[: free.index(free[5])]


@pytest.mark.parametrize("option", ["max_new_tokens", "logprobs", "sampling_params"])
def test_an_unknown_option_is_refused_by_name(model: EngineModel, steerable: SteerableEngineModel, option: str) -> None:
    for each in (model, steerable):
        with pytest.raises(ConfigError, match=f"{option} is no option .* max_tokens"):
            each("Go", None, None, **{option: 5})


def test_a_text_that_max_tokens_cuts_is_an_error_and_not_half_a_value(model: EngineModel) -> None:
    with pytest.raises(OutputTruncatedError, match="Raise max_tokens"):
        model("Go", Size, max_tokens=4)
    pieces = model.stream("Go", Size, max_tokens=4)
    with pytest.raises(OutputTruncatedError):
        list(pieces)


def test_validators_of_the_type_are_left_to_the_caller_who_gets_a_text(model: EngineModel) -> None:
    text = model("Go", Never)
    with pytest.raises(ValueError, match="no"):
        Never.model_validate_json(text)


def test_chats_rendered_prompts_and_token_ids_are_prompts_too(model: EngineModel) -> None:
    engine = model.engine
    chat = Chat([{"role": "user", "content": "Go"}])
    rendered = engine.render_chat([{"role": "user", "content": "Go"}])
    expected = model("Go", max_tokens=6)
    prompts = [chat, rendered, engine.encode(rendered)]
    assert model.batch(prompts, max_tokens=6) == [expected] * 3
    raw = engine.generate("Go", SamplingParams(max_tokens=6)).text
    assert model(engine.encode("Go"), max_tokens=6) == raw


@pytest.mark.parametrize("prompt", [7, Chat([{"role": "user", "content": ["Look", object()]}])])
def test_what_is_no_prompt_is_refused(model: EngineModel, prompt: Any) -> None:
    with pytest.raises(ConfigError):
        model(prompt, max_tokens=6)


def test_an_application_joins_a_template_and_a_type(model: EngineModel) -> None:
    application = Application(template_from_string("How wide is {{ thing }}?"), Size)
    text = application(model, {"thing": "a door"}, max_tokens=60)
    assert text == model("How wide is a door?", Size, max_tokens=60)


class OnlyTokens:
    """Allows the ids given, one after the other, and counts its resets."""

    def __init__(self, *token_ids: int) -> None:
        self.token_ids = token_ids
        self.num_resets = 0
        self.shapes: list[tuple[torch.Size, torch.Size]] = []
        self.reset()

    def reset(self) -> None:
        self.num_resets += 1
        self._remaining: Iterator[int] = iter(self.token_ids)

    def __call__(self, input_ids: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        self.shapes.append((input_ids.shape, logits.shape))
        token_id = next(self._remaining)
        only = torch.full_like(logits, -torch.inf)
        only[0, token_id] = logits[0, token_id]
        return only


def test_a_processor_of_the_callers_own_picks_the_tokens(steerable: SteerableEngineModel) -> None:
    engine = steerable.engine
    processor = OnlyTokens(*engine.encode("hey"), engine.vocabulary.eos_ids[0])
    generator: Any = Generator(steerable, processor=processor)
    assert generator("Go") == "hey"
    assert generator.batch(["a", "b"]) == ["hey", "hey"]
    assert "".join(generator.stream("Go")) == "hey"
    assert processor.num_resets > 4
    (ids, logits), (next_ids, _), *_ = processor.shapes
    assert next_ids == (1, ids[1] + 1)
    assert logits == (1, engine.vocabulary.num_logits)


def test_a_processor_that_leaves_no_token_is_an_error_of_its_own_request(steerable: SteerableEngineModel) -> None:
    unused = min(steerable.engine.vocabulary.unused_ids)
    generator: Any = Generator(steerable, processor=OnlyTokens(unused))
    with pytest.raises(ConstraintStateError, match="left no token"):
        generator("Go")
    with pytest.raises(ConfigError, match="n is 2"):
        generator("Go", n=2, temperature=1.0)
    assert len(steerable("Go", max_tokens=3, ignore_eos=True)) == 3


@pytest.mark.parametrize("backend", ["outlines_core", "llguidance"])
def test_the_backends_of_outlines_run_on_a_head_wider_than_the_tokenizer(
    steerable: SteerableEngineModel, backend: str
) -> None:
    assert steerable.engine.vocabulary.num_logits > len(steerable.hf_tokenizer)
    generator: Any = Generator(steerable, Regex("[0-9]{3}x"), backend=backend)
    texts = [generator("Go", max_tokens=20), *generator.batch(["a", "b"], max_tokens=20)]
    assert all(text[:3].isdecimal() and text[3:] == "x" for text in texts)


TOOL = Tool(measure)


def test_a_template_takes_tools_and_keeps_blanks(tmp_path: Path) -> None:
    text = "{% for tool in tools %}\n{{ tool | name }}:   {{ tool | args }}\n{% endfor %}\n|  {{ question }}"
    expected = 'measure:   width: Literal[1, 2], unit: Literal["cm"] = "cm"\n|  Why?'
    path = tmp_path / "prompt.jinja"
    path.write_text(text, encoding="utf-8")
    for template in (template_from_string(text), template_from_file(path)):
        assert template(tools=[TOOL], question="Why?") == expected
    loud = template_from_string("{{ 'a' | loud }}", {"loud": str.upper})
    assert loud() == "A"


def test_the_schema_filter_of_a_plain_template_takes_a_tool() -> None:
    assert json.loads(Template.from_string("{{ tool | schema }}")(tool=TOOL)) == TOOL.parameters


def test_a_rendered_template_is_a_prompt(tiny_engine: Engine) -> None:
    text = template_from_string("{{ tool | name }}?")(tool=TOOL)
    params = SamplingParams(max_tokens=5)
    with tiny_engine.session() as session:
        session.append(text)
        assert session.generate(params).text == tiny_engine.generate(text, params).text


@pytest.mark.model
def test_a_real_model_answers_through_both_adapters(model_folder: Path) -> None:
    with Engine(str(model_folder), max_model_len=1024) as engine:
        question = "Is the sky on a clear day blue or green? Answer with one word."
        assert Generator(from_engine(engine), Literal["blue", "green", "greenish"])(question) == "blue"
        steered: Any = Generator(from_engine_steerable(engine), Regex("blue|green"), backend="llguidance")
        assert steered(question, max_tokens=8) == "blue"
