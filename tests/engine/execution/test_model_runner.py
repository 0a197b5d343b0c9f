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
CROWDS = {
    # All reach a second block while they decode, and there is one for few of them.
    "copies of one": [PROMPTS[4][:120]] * 5,
    "mixed": [*PROMPTS, *(PROMPTS[4][start : start + 120] for start in (3, 50, 100))],
    "shared beginnings": [
        PROMPTS[4][:length] + [length % 256] * 20 for length in (1, 64, 107, 108, 127, 128, 200, 256)
    ],
}
"""Prompts that are computed together."""


def engine_of(folder: Path, form: str, *, kv_cache_gb: float = 0.02, **options: Any) -> Engine:
    quantization, dtype = FORMS[form]
    return Engine(str(folder), quantization=quantization, dtype=dtype, kv_cache_gb=kv_cache_gb, **options)


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
        assert output.usage.cached_tokens >= min(keep, 299)
        assert_same([output], [alone[4]])


def test_a_fork_goes_on_as_its_original(engine: Engine, alone: list[StepOutput]) -> None:
    with engine.session() as session:
        session.append(PROMPTS[4])
        session.generate(SamplingParams(max_tokens=1, ignore_eos=True))
        session.truncate(300)
        with session.fork() as fork:
            outputs = [fork.generate(PARAMS), session.generate(PARAMS)]
    assert [output.usage.cached_tokens for output in outputs] == [299, 299]
    assert_same(outputs, [alone[4]] * 2)


@pytest.fixture(scope="module")
def naive(form: str, tiny_folder: Path) -> Iterator[Engine]:
    """An engine that reuses nothing and has room for all."""
    with engine_of(tiny_folder, form, prefix_cache=False) as engine:
        yield engine


@pytest.mark.parametrize("prefix_cache", [True, False], ids=["prefix cache", "no prefix cache"])
@pytest.mark.parametrize("prompts", CROWDS.values(), ids=CROWDS)
def test_in_a_crowd_with_evictions_and_preemptions(
    form: str, tiny_folder: Path, naive: Engine, prompts: list[list[int]], prefix_cache: bool
) -> None:
    small = engine_of(tiny_folder, form, prefix_cache=prefix_cache, kv_cache_gb=small_cache_gb(form))
    with small as engine, engine.session() as idle:
        assert engine.config.num_kv_blocks == 5
        idle.append(PROMPTS[4])
        before = idle.generate(PARAMS)
        together = [output.completions[0] for output in engine.generate(prompts, PARAMS)]
        assert engine.stats().num_preemptions > 0
        assert engine.stats().num_evictions > 0
        idle.truncate(len(PROMPTS[4]))
        after = idle.generate(PARAMS)
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]
    assert_same(together, [generate(naive, prompt) for prompt in prompts])
    assert_same([before, after], [generate(naive, PROMPTS[4])] * 2)


@pytest.mark.parametrize("size", range(1, 10))
def test_one_prompt_in_a_batch_of_any_size_whose_others_leave_early(engine: Engine, naive: Engine, size: int) -> None:
    streams = [engine.stream(prompt, PARAMS) for prompt in [PROMPTS[2], *([PROMPTS[5]] * (size - 1))]]
    for index, stream in enumerate(streams[1:]):
        for _ in range(index):
            next(stream)
        stream.close()
    assert_same([streams[0].read_output()], [generate(naive, PROMPTS[2])])


def small_cache_gb(form: str) -> float:
    """Five blocks of 128 tokens."""
    return 5.5 * (65_536 if form == "float32" else 32_768) / 2**30
