"""A request's tokens and log-probabilities do not depend on what else runs, on chunks, or on the cache."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sureact.config import Dtype, Quantization
from sureact.engine import Engine
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams

FORMS: dict[str, tuple[Quantization, Dtype]] = {
    "float32": ("none", "float32"),
    "bfloat16": ("none", "bfloat16"),
    "int8": ("int8", "bfloat16"),
    "int4": ("int4", "bfloat16"),
}
PARAMS = SamplingParams(max_tokens=24, ignore_eos=True, logprobs=3)
DRAW = random.Random(7)
PROMPTS = [[DRAW.randrange(256) for _ in range(length)] for length in (1, 5, 40, 129, 300, 17)]


def engine_of(folder: Path, form: str, **options: Any) -> Engine:
    quantization, dtype = FORMS[form]
    return Engine(str(folder), quantization=quantization, dtype=dtype, kv_cache_gb=0.02, **options)


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def engine(form: str, tiny_folder: Path) -> Iterator[Engine]:
    with engine_of(tiny_folder, form) as engine:
        yield engine


@pytest.fixture(scope="module")
def alone(engine: Engine) -> list[StepOutput]:
    """Each prompt generated with nothing else running."""
    return [generate(engine, prompt) for prompt in PROMPTS]


def generate(engine: Engine, prompt: list[int]) -> StepOutput:
    return engine.generate(prompt, PARAMS).completions[0]


def assert_same(outputs: list[StepOutput], expected: list[StepOutput]) -> None:
    assert [output.token_ids for output in outputs] == [output.token_ids for output in expected]
    assert [output.logprobs for output in outputs] == [output.logprobs for output in expected]


def test_alone_and_in_a_batch_of_mixed_prompts(engine: Engine, alone: list[StepOutput]) -> None:
    with ThreadPoolExecutor(len(PROMPTS)) as pool:
        together = list(pool.map(partial(generate, engine), PROMPTS))
    assert_same(together, alone)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_one_prompt_beside_copies_of_itself(engine: Engine, alone: list[StepOutput], size: int) -> None:
    with ThreadPoolExecutor(size) as pool:
        copies = list(pool.map(partial(generate, engine), [PROMPTS[3]] * size))
    assert_same(copies, [alone[3]] * size)


@pytest.mark.parametrize("chunk_len", [1, 7, 128])
def test_prompts_whole_and_in_chunks(form: str, tiny_folder: Path, alone: list[StepOutput], chunk_len: int) -> None:
    with engine_of(tiny_folder, form, prefill_chunk_len=chunk_len) as engine:
        chunked = [generate(engine, prompt) for prompt in PROMPTS]
    assert_same(chunked, alone)


def test_cached_and_evicted_and_computed_again(engine: Engine, alone: list[StepOutput]) -> None:
    prompt = PROMPTS[4]
    for keep in (0, 100, 128, 299):
        with engine.session() as session:
            session.append(prompt)
            session.generate(SamplingParams(max_tokens=1, ignore_eos=True))
            session.truncate(keep)
            session.append(prompt[keep:])
            output = session.generate(PARAMS)
        assert output.usage.cached_tokens == min(keep, 299)
        assert_same([output], [alone[4]])


def test_a_fork_goes_on_as_its_original(engine: Engine, alone: list[StepOutput]) -> None:
    with engine.session() as session:
        session.append(PROMPTS[4])
        session.generate(SamplingParams(max_tokens=1, ignore_eos=True))
        session.truncate(300)
        with session.fork() as fork:
            outputs = [fork.generate(PARAMS), session.generate(PARAMS)]
    assert outputs[0].usage.cached_tokens == 256
    assert_same(outputs, [alone[4]] * 2)
