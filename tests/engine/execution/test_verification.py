"""Guesses and forced text change what a pass computes and nothing of what comes out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sureact.constraints.call_grammar import ControlToken, ToolCallBranch, tool_call_grammar
from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import SureactError
from sureact.outputs import TokenUsage
from sureact.sampling_params import RunawayLimits, SamplingParams

FORMS: dict[str, dict[str, Any]] = {
    "float32": {"quantization": "none", "dtype": "float32", "kv_cache_gb": 0.0079},
    "int8": {"quantization": "int8", "dtype": "bfloat16", "kv_cache_gb": 0.0079},
}
PROMPTS = (
    "abcabcabcabc",
    "the cat sat. the cat sat. the",
    "q",
    "xyxyzxyxyz" * 13,
)

OBJECT = {
    "type": "object",
    "properties": {
        "temperature": {"type": "integer"},
        "unit_of_measurement": {"enum": ["celsius", "celsius or fahrenheit", "kelvin"]},
        "is_final": {"type": "boolean"},
    },
    "required": ["temperature", "unit_of_measurement", "is_final"],
    "additionalProperties": False,
}
DIGITS = {"type": "integer", "minimum": 0, "maximum": 3}
CONSTRAINTS: dict[str, Constraint] = {
    "object": json_schema(OBJECT),
    "two objects": json_schema({"type": "array", "items": OBJECT, "minItems": 2, "maxItems": 2}),
    "one choice": choice(["the only thing that may be said"]),
    "choices": choice(["search", "search_the_web", "calculate"]),
    "literal spans": regex(r"Thought: [a-c]{1,3} Action: (search|calculate) \[[0-9]{2}\] End"),
    "unique items": json_schema({"type": "array", "items": DIGITS, "uniqueItems": True, "minItems": 3, "maxItems": 4}),
    "contains": json_schema({"type": "array", "items": DIGITS, "contains": {"const": 2}, "minItems": 3, "maxItems": 3}),
}
RUNNING_ON: dict[str, Constraint] = {
    "string": json_schema(
        {"type": "object", "properties": {"id": {"type": "string"}, "n": {"type": "integer"}}, "required": ["id", "n"]},
        additional_properties="closed",
    ),
    "anything": json_schema({}),
    "unique items": json_schema({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 2}),
}
WORDS = {bytes(letters) for letters in product(b"abc", repeat=3)}


@dataclass
class Answer:
    """What a caller sees of a generation, but for the time it took."""

    completions: list[tuple[object, ...]]
    usage: list[TokenUsage]


@pytest.fixture(scope="module", params=FORMS.values(), ids=list(FORMS))
def engines(request: pytest.FixtureRequest, tiny_folder: Path) -> Iterator[tuple[Engine, Engine]]:
    """One that guesses, and one that asks the model for every token and reuses nothing."""
    with (
        Engine(str(tiny_folder), **request.param) as guessing,
        Engine(str(tiny_folder), **request.param, max_draft_len=0, prefix_cache=False) as plain,
    ):
        yield guessing, plain


def answer(engine: Engine, prompt: str | list[int], params: SamplingParams, constraint: object = None) -> Answer:
    output = engine.generate(prompt, params, constraint)
    engine._cache.check()  # pyright: ignore[reportPrivateUsage]
    return Answer(
        [(c.text, c.token_ids, c.finish_reason, c.stop_reason, c.value) for c in output.completions],
        [c.usage for c in output.completions],
    )


def streamed(engine: Engine, prompt: str, params: SamplingParams, constraint: object = None) -> tuple[object, ...]:
    """What pieces add up to, checked against the output that comes with the last."""
    deltas = list(engine.stream(prompt, params, constraint))
    output = deltas[-1].output
    assert output is not None
    text, token_ids = "".join(delta.text for delta in deltas), sum((delta.token_ids for delta in deltas), ())
    assert text == output.text
    return text, token_ids, output.finish_reason, output.stop_reason


def outcome(engine: Engine, *asked: Any) -> object:
    """The text or the error."""
    try:
        return answer(engine, *asked).completions
    except SureactError as error:
        return type(error), str(error)


def assert_alike(engines: tuple[Engine, Engine], *asked: Any) -> list[TokenUsage]:
    """Ask both engines; return what the guessing one counted."""
    guessing, plain = (answer(engine, *asked) for engine in engines)
    assert guessing.completions == plain.completions
    assert [u.completion_tokens for u in guessing.usage] == [u.completion_tokens for u in plain.usage]
    assert all(u.draft_tokens == u.forced_tokens == 0 for u in plain.usage)
    return guessing.usage


SETTINGS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "sampled": {"temperature": 0.1, "seed": 3},
    "sampled among few": {"temperature": 1.5, "seed": 4, "top_k": 3, "top_p": 0.9, "min_p": 0.1},
    "several": {"temperature": 0.5, "seed": 5, "n": 3},
    "repetition penalty": {"repetition_penalty": 1.1},
    "presence and frequency": {"presence_penalty": 0.3, "frequency_penalty": 0.2},
}


@pytest.mark.parametrize("constraint", RUNNING_ON.values(), ids=RUNNING_ON)
def test_text_that_is_ended_early_is_the_same_with_guesses(
    engines: tuple[Engine, Engine], constraint: Constraint
) -> None:
    short = RunawayLimits(repeated_tokens=16, string_characters=24, number_characters=8, array_items=4)
    for prompt, max_tokens, limits in product(PROMPTS[:3], (40, 90), (None, short)):
        params = SamplingParams(max_tokens=max_tokens, on_max_tokens="close", runaway=limits)
        assert_alike(engines, prompt, params, constraint)
        outputs = [engine.generate(prompt, params, constraint).completions[0] for engine in engines]
        assert outputs[0].early_ends == outputs[1].early_ends
        assert outputs[0].finish_reason == "stop"
        assert outputs[0].value is not None


def test_free_text_that_repeats_itself_is_cut_at_the_same_token(engines: tuple[Engine, Engine]) -> None:
    num_cut = 0
    for prompt in PROMPTS:
        # A penalty below 1 makes what was written likelier: the model repeats itself.
        limits = RunawayLimits(repeated_tokens=16)
        params = SamplingParams(max_tokens=200, ignore_eos=True, repetition_penalty=0.3, runaway=limits)
        assert_alike(engines, prompt, params)
        (output,) = engines[0].generate(prompt, params).completions
        assert output.finish_reason == "length"
        num_cut += len(output.early_ends)
        assert all(end.num_tokens == len(output.token_ids) < 200 for end in output.early_ends)
    assert num_cut > 0


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_free_text_is_the_same_with_guesses(engines: tuple[Engine, Engine], setting: dict[str, Any]) -> None:
    usage: list[TokenUsage] = []
    for prompt in PROMPTS:
        usage += assert_alike(engines, prompt, SamplingParams(max_tokens=60, ignore_eos=True, **setting))
        params = SamplingParams(max_tokens=60, min_tokens=9, **setting)
        usage += assert_alike(engines, prompt, params)
        if params.n == 1:
            assert streamed(engines[0], prompt, params) == streamed(engines[1], prompt, params)
    assert sum(u.draft_tokens for u in usage) > 0
    if setting in (SETTINGS["greedy"], SETTINGS["sampled"]):
        assert sum(u.accepted_draft_tokens for u in usage) > 0


@pytest.mark.parametrize("include_stop", [False, True])
@pytest.mark.parametrize("min_tokens", [0, 12])
def test_stops_cut_at_the_same_place(engines: tuple[Engine, Engine], include_stop: bool, min_tokens: int) -> None:
    """Stops are taken from what the model says, late in the text, so that they end in accepted guesses too."""
    num_accepted = 0
    for prompt in PROMPTS[:2]:
        free = engines[1].generate(prompt, SamplingParams(max_tokens=40, ignore_eos=True))
        shared: dict[str, Any] = {"ignore_eos": True, "include_stop": include_stop, "min_tokens": min_tokens}
        for start in (9, 31):
            ids = list(free.token_ids[start : start + 3])
            text = engines[1].decode(ids)
            for stop in ([ids], [text, [ids[0], ids[0], ids[0]]]):
                params = SamplingParams(max_tokens=40, stop=stop, **shared)
                usage = assert_alike(engines, prompt, params)
                assert streamed(engines[0], prompt, params) == streamed(engines[1], prompt, params)
                num_accepted += sum(u.accepted_draft_tokens for u in usage)
    assert num_accepted > 0


@pytest.mark.parametrize("setting", [SETTINGS["greedy"], SETTINGS["several"], SETTINGS["repetition penalty"]], ids=str)
@pytest.mark.parametrize("constraint", CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_constrained_text_is_the_same_with_forced_spans(
    engines: tuple[Engine, Engine], constraint: Constraint, setting: dict[str, Any]
) -> None:
    before = engines[0].stats().forced_tokens
    for prompt in PROMPTS[:1]:
        params = SamplingParams(max_tokens=180, **setting)
        assert_alike(engines, prompt, params, constraint)
        if params.n == 1:
            pieces = [streamed(engine, prompt, params, constraint) for engine in engines]
            assert pieces[0] == pieces[1]
    if constraint.cache_key not in (CONSTRAINTS["unique items"].cache_key, CONSTRAINTS["contains"].cache_key):
        assert engines[0].stats().forced_tokens > before


def test_guesses_are_accepted_under_a_constraint_too(engines: tuple[Engine, Engine]) -> None:
    assert_alike(engines, "abab", SamplingParams(max_tokens=200), regex("(ab|cd){60,90}"))
    before = engines[0].stats().accepted_draft_tokens
    assert_alike(engines, "x", SamplingParams(max_tokens=120), regex("[ab]{100,200}"))
    assert engines[0].stats().accepted_draft_tokens > before


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 9, 17, 30, 31])
def test_the_budget_cuts_a_forced_span_anywhere(engines: tuple[Engine, Engine], max_tokens: int) -> None:
    params = SamplingParams(max_tokens=max_tokens)
    for constraint in (CONSTRAINTS["object"], CONSTRAINTS["one choice"]):
        (usage,) = assert_alike(engines, "abc", params, constraint)
        assert min(max_tokens, 2) <= usage.forced_tokens <= usage.completion_tokens <= max_tokens
        assert streamed(engines[0], "abc", params, constraint) == streamed(engines[1], "abc", params, constraint)


def test_a_text_without_any_choice_needs_one_step_at_most(engines: tuple[Engine, Engine]) -> None:
    before = engines[0].stats().num_steps
    (usage,) = assert_alike(engines, "abc", SamplingParams(max_tokens=60), CONSTRAINTS["one choice"])
    assert usage.forced_tokens >= usage.completion_tokens - 1 == len("the only thing that may be said") - 1
    assert engines[0].stats().num_steps - before <= 1


@pytest.mark.parametrize("setting", [{}, {"temperature": 2.0, "seed": 1}, {"temperature": 2.0, "seed": 2}])
@pytest.mark.parametrize(
    "valid", [{b"cab", b"cbc"}, {b"aaa"}, {b"bca", b"bc"}, set[bytes]()], ids=lambda valid: str(sorted(valid))
)
def test_dead_ends_are_left_the_same_way(
    engines: tuple[Engine, Engine],
    finite_constraint: Callable[..., Constraint],
    valid: set[bytes],
    setting: dict[str, Any],
) -> None:
    """Each word begins and ends with text that is forced, also where the way on is dead."""
    offered = {b"<<" + word + b"==" for word in WORDS | valid}
    constraint = finite_constraint({b"<<" + word + b"==" for word in valid}, offered, forces_text=True)
    params = SamplingParams(max_tokens=9, **setting)
    before = [engine.stats() for engine in engines]
    for prompt in ("abc", "x" * 125):
        outcomes = [outcome(engine, prompt, params, constraint) for engine in engines]
        assert outcomes[0] == outcomes[1]
    after = [engine.stats() for engine in engines]
    guessing, plain = (
        (b.num_dead_ends - a.num_dead_ends, b.num_rollbacks - a.num_rollbacks)
        for a, b in zip(before, after, strict=True)
    )
    assert guessing == plain
    assert guessing[1] > 0
    assert after[0].forced_tokens > before[0].forced_tokens
    assert after[0].num_steps - before[0].num_steps < after[1].num_steps - before[1].num_steps


def test_many_at_once_get_what_each_gets_alone_without_guesses(engines: tuple[Engine, Engine]) -> None:
    guessing, plain = engines
    asked: list[tuple[Any, ...]] = [
        *((prompt, SamplingParams(max_tokens=40, ignore_eos=True)) for prompt in PROMPTS),
        *(("abc", SamplingParams(max_tokens=160), constraint) for constraint in CONSTRAINTS.values()),
        ("abc", SamplingParams(max_tokens=30, temperature=0.8, seed=2, ignore_eos=True)),
    ]
    streams = [guessing.stream(*arguments) for arguments in asked]
    together = [stream.read_output() for stream in streams]
    alone = [plain.stream(*arguments).read_output() for arguments in asked]
    assert [output.token_ids for output in together] == [output.token_ids for output in alone]
    assert [output.text for output in together] == [output.text for output in alone]


def test_a_session_goes_on_the_same_after_guesses_and_forced_ends(engines: tuple[Engine, Engine]) -> None:
    """What a turn ends with is computed in the next, whoever wrote it."""
    contexts: list[list[int]] = []
    for engine in engines:
        with engine.session() as session:
            for turn in range(4):
                session.append(f"Question {turn}: abcabcabc\n")
                session.generate(SamplingParams(max_tokens=20, ignore_eos=True, stop=["ab", "zz"]))
                session.append("\nAction:")
                session.generate(SamplingParams(max_tokens=100), CONSTRAINTS["literal spans"])
                if turn == 2:
                    session.truncate(len(session) - 7)
            contexts.append(session.token_ids)
    assert contexts[0] == contexts[1]


@given(
    words=st.lists(st.sampled_from(["ab", "abc", "b ", "\n", "é", "0"]), min_size=1, max_size=12),
    num_repeats=st.integers(1, 8),
    temperature=st.sampled_from([0.0, 0.4, 1.0]),
    stop=st.sampled_from([None, "a", ["\x00", "e"], [[97, 98]], [[97]]]),
    max_tokens=st.integers(1, 24),
    min_tokens=st.integers(0, 9),
    include_stop=st.booleans(),
    ignore_eos=st.booleans(),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_asked_the_answer_is_the_same(
    engines: tuple[Engine, Engine],
    words: list[str],
    num_repeats: int,
    temperature: float,
    stop: Any,
    max_tokens: int,
    min_tokens: int,
    include_stop: bool,
    ignore_eos: bool,
) -> None:
    params = SamplingParams(
        max_tokens=max_tokens,
        min_tokens=min(min_tokens, max_tokens),
        stop=stop or (),
        include_stop=include_stop,
        ignore_eos=ignore_eos,
        temperature=temperature,
        seed=len(words),
    )
    prompt = [*"".join(words).encode()] * num_repeats
    assert_alike(engines, prompt, params)


def tools_of_the_real_model() -> Constraint:
    weather = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    search = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return tool_call_grammar(
        [ToolCallBranch("get_weather_forecast", weather), ToolCallBranch("search", search)],
        prefix=(ControlToken("<tool_call>"), '\n{"name": "'),
        delimiter='", "arguments": ',
        suffix=("}\n", ControlToken("</tool_call>")),
    )


@pytest.mark.slow
@pytest.mark.model
def test_two_hundred_prompts_of_the_real_model(model_folder: Path) -> None:
    cities = ("Rome", "Oslo", "Lima", "Perth", "Tunis")
    topics = (
        "tides",
        "volcanoes",
        "the number 7",
        "sorting a list",
        "green tea",
        "old maps",
        "trains",
        "JSON",
        "owls",
        "rust",
    )
    asked = [
        (f"In {city}, on day {day} of the week: tell me about {topic}.")
        for city in cities
        for topic in topics
        for day in (1, 2)
    ]
    num_accepted = num_forced = 0
    options: dict[str, Any] = {"quantization": "int8", "kv_cache_gb": 0.2}
    with (
        Engine(str(model_folder), **options) as guessing,
        Engine(str(model_folder), **options, max_draft_len=0) as plain,
    ):
        for question in asked:
            for params, constraint in (
                (SamplingParams(max_tokens=64), None),
                (SamplingParams(max_tokens=64), tools_of_the_real_model()),
            ):
                outputs = [
                    e.chat([{"role": "user", "content": question}], params, constraint) for e in (guessing, plain)
                ]
                assert outputs[0].token_ids == outputs[1].token_ids, question
                usage = outputs[0].completions[0].usage
                num_accepted += usage.accepted_draft_tokens
                num_forced += usage.forced_tokens
    assert num_accepted > 0
    assert num_forced > 0
