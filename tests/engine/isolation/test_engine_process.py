import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from sureact.agent.react import ReAct
from sureact.agent.token_limits import TokenLimits
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import (
    ConfigError,
    ConstraintCompileError,
    ConstraintError,
    ModelNotFoundError,
    OutputTruncatedError,
)
from sureact.isolation.engine_process import EngineProcess
from sureact.outputs import RequestOutput
from sureact.sampling_params import RunawayLimits, SamplingParams

SCHEMA = json_schema(
    {"type": "object", "properties": {"a": {"enum": [1, 22]}, "b": {"type": "boolean"}}, "required": ["a", "b"]}
)
NOT_COMPARED = {"run_id", "seconds", "timings", "cached_tokens"}

PARAMS: dict[str, tuple[SamplingParams, Any]] = {
    "free": (SamplingParams(max_tokens=30), None),
    "stop": (SamplingParams(max_tokens=60, stop=["e", "a"], include_stop=True), None),
    "drawn": (SamplingParams(max_tokens=20, temperature=1.0, seed=7, n=3), None),
    "logprobs": (SamplingParams(max_tokens=8, logprobs=3), None),
    "schema": (SamplingParams(max_tokens=60), SCHEMA),
    "closing": (
        SamplingParams(max_tokens=40, on_max_tokens="close", runaway=RunawayLimits()),
        json_schema({"type": "array", "items": {"type": "string"}, "minItems": 1}),
    ),
    "type": (SamplingParams(max_tokens=40), Literal["yes", "no"]),
}


def plain(output: RequestOutput) -> list[Any]:
    """All but times and what the cache held."""
    return [
        (c.text, c.token_ids, c.finish_reason, c.stop_reason, c.logprobs, c.value, c.forced_indices, c.early_ends)
        for c in output.completions
    ]


@pytest.mark.parametrize("name", PARAMS)
def test_it_generates_what_an_engine_of_this_process_does(
    engine_process: EngineProcess, engine: Engine, name: str
) -> None:
    params, constraint = PARAMS[name]
    expected = engine.generate("Once upon", params, constraint)
    assert plain(engine_process.generate("Once upon", params, constraint)) == plain(expected)


def test_many_prompts_are_computed_together_in_their_order(engine_process: EngineProcess, engine: Engine) -> None:
    prompts = [f"Number {i}" for i in range(8)]
    params = SamplingParams(max_tokens=12)
    outputs = engine_process.generate(prompts, params)
    assert list(map(plain, outputs)) == list(map(plain, engine.generate(prompts, params)))


def test_it_tells_what_it_is(engine_process: EngineProcess, engine: Engine) -> None:
    assert engine_process.config.quantization == "none"
    assert (engine_process.name, engine_process.context_len) == (engine.name, engine.context_len)
    assert engine_process.has_chat_template
    assert engine_process.session_origin == engine.session_origin
    assert engine_process.process_id != os.getpid()
    assert engine_process.is_open
    assert engine_process.stats().kv_blocks_total == engine_process.config.num_kv_blocks
    assert engine_process.vocabulary.eos_ids == engine.vocabulary.eos_ids


def test_text_is_tokenized_and_rendered_here(engine_process: EngineProcess, engine: Engine) -> None:
    prompt = engine_process.render_chat([{"role": "user", "content": "<|im_end|> hi"}])
    assert prompt == engine.render_chat([{"role": "user", "content": "<|im_end|> hi"}])
    assert engine_process.encode(prompt) == engine.encode(prompt)
    assert engine_process.count_tokens("héllo") == 6
    assert engine_process.decode(engine_process.encode("héllo")) == "héllo"
    params = SamplingParams(max_tokens=6)
    chat = engine_process.chat([{"role": "user", "content": "hi"}], params)
    assert plain(chat) == plain(engine.chat([{"role": "user", "content": "hi"}], params))


def test_prefixes_are_shared_as_in_an_engine(engine_process: EngineProcess) -> None:
    text, params = "a long beginning " * 20, SamplingParams(max_tokens=2)
    engine_process.clear_prefix_cache()
    engine_process.declare_public_prefix(text.strip())
    for salt, cached in (("one", 0), ("two", 128)):
        usage = engine_process.generate(text.strip(), params, cache_salt=salt).completions[0].usage
        assert usage.cached_tokens >= cached
    engine_process.clear_prefix_cache()
    usage = engine_process.generate(text.strip(), params, cache_salt="three").completions[0].usage
    assert usage.cached_tokens == 0


def test_mistakes_are_those_of_an_engine(engine_process: EngineProcess) -> None:
    with pytest.raises(ConfigError, match="The prompt is empty"):
        engine_process.generate("")
    with pytest.raises(ConfigError, match="a stream has one text"):
        engine_process.stream("a", SamplingParams(n=2, temperature=1.0))
    with pytest.raises(ConfigError, match="cannot be combined with a constraint"):
        engine_process.generate("a", SamplingParams(stop="x"), SCHEMA)
    with pytest.raises(ConstraintCompileError, match="look"):
        engine_process.generate(["a", "b"], None, regex("(?=a)"))
    with pytest.raises(ConfigError, match="determinism"):
        EngineProcess("nowhere", determinism="loose")  # pyright: ignore[reportArgumentType]


def test_a_users_own_type_judges_here(engine_process: EngineProcess) -> None:
    from pydantic import BaseModel, field_validator

    class Odd(BaseModel):
        number: Literal[2]

        @field_validator("number")
        @classmethod
        def is_odd(cls, number: int) -> int:
            raise ValueError("two is even")

    with pytest.raises(ConstraintError, match="two is even"):
        engine_process.generate("a", None, Odd)


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        EngineProcess(str(tmp_path / "nowhere"))


@pytest.fixture
def run(tmp_path: Path) -> Callable[[Engine | EngineProcess], tuple[Any, list[dict[str, Any]]]]:
    """Run an agent on an engine; return what it came to and its trace."""

    def add(a: Literal[1, 2], b: bool) -> int:
        """Add."""
        return a + b

    def run(lm: Engine | EngineProcess) -> tuple[Any, list[dict[str, Any]]]:
        path = tmp_path / f"{type(lm).__name__}.jsonl"
        react = ReAct(
            "q -> answer: bool",
            [add],
            lm=lm,
            limits=TokenLimits(thought=8, call=80, observation=16, outputs=60),
            max_iters=2,
            prompt_format="fields",
            trace=path,
        )
        try:
            result: Any = dict(react(q="a"))
        except OutputTruncatedError as error:
            result = str(error)
        return result, [comparable(json.loads(line)) for line in path.read_text().splitlines()]

    return run


def comparable(value: Any) -> Any:
    """Leave out what tells the time, and names drawn at random."""
    if isinstance(value, dict):
        kept = {k: v for k, v in value.items() if not k.endswith("_s") and k not in NOT_COMPARED}
        return {k: comparable(v) for k, v in kept.items()}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def test_an_agents_run_is_the_same_trace_included(
    engine_process: EngineProcess,
    engine: Engine,
    run: Callable[[Engine | EngineProcess], tuple[Any, list[dict[str, Any]]]],
) -> None:
    expected = run(engine)
    assert len(expected[1]) > 4
    result, records = run(engine_process)
    assert result == expected[0]
    for record, other in zip(records, expected[1], strict=True):
        assert record == other
