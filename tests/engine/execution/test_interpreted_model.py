"""Whole models on a CPU whose every op runs as its kernel in Triton, interpreted, in the steps of a GPU."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.execution import graphed_runner
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams
from sureact_kernels import dispatch

SHORT = SamplingParams(max_tokens=6, ignore_eos=True)
SMALL: dict[str, Any] = {"quantization": "none", "kv_cache_gb": 0.002, "max_running_requests": 4, "max_draft_len": 1}
"""Few shapes of steps, since the interpreter is slow and each is run once at the start."""


@pytest.fixture(autouse=True)
def gpu_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a CPU be taken for a GPU."""
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    monkeypatch.setattr(graphed_runner, "GRAPH_DEVICE", "cpu")


@pytest.mark.parametrize("family", ["qwen3", pytest.param("qwen2", marks=pytest.mark.slow)])
def test_a_model_whose_ops_are_all_kernels_generates_what_the_references_do(
    family: str, make_checkpoint: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"head_dim": 16} if family == "qwen3" else {}
    folder = str(make_checkpoint(family, **options))
    asked: list[tuple[Any, ...]] = [
        ("abcabcab", SHORT),
        ("x" * 126, SHORT),
        ("hello", SamplingParams(max_tokens=8), regex("(ab|ba){2,4}")),
        ("abc", SamplingParams(max_tokens=4, temperature=0.8, seed=1, ignore_eos=True)),
    ]
    with Engine(folder, **SMALL, dtype="float32") as engine:
        streams = [engine.stream(*arguments) for arguments in asked]
        found = [stream.read_output().token_ids for stream in streams]
    assert dispatch.disabled() == {}
    monkeypatch.setattr(dispatch, "GPU", "cuda")
    with Engine(folder, **SMALL, dtype="float32", cuda_graphs=False) as engine:
        assert found == [engine.generate(*arguments).completions[0].token_ids for arguments in asked]


def test_kernels_give_a_row_the_same_bits_in_any_company(tiny_folder: Path) -> None:
    """In bfloat16: alone and beside others, a prompt whole, in chunks and found in the cache, by graphs and without."""
    params = SamplingParams(max_tokens=2, logprobs=2, ignore_eos=True)
    prompts = ("abcabcab", "x" * 130, "y")
    options: dict[str, Any] = {**SMALL, "dtype": "bfloat16"}
    with Engine(str(tiny_folder), **options) as engine:
        alone = [engine.generate(prompt, params).completions[0] for prompt in prompts]
        cached = engine.generate(prompts[1], params)
        assert cached.completions[0].usage.cached_tokens >= 128
        streams = [engine.stream(prompt, params) for prompt in prompts]
        outputs = [stream.read_output() for stream in streams]
    with Engine(str(tiny_folder), **options, cuda_graphs=False, prefill_chunk_len=50, prefix_cache=False) as engine:
        chunked = [engine.generate(prompt, params).completions[0] for prompt in prompts]
    for others in (outputs, chunked):
        assert list(map(facts_of, others)) == list(map(facts_of, alone))
    assert facts_of(cached.completions[0]) == facts_of(alone[1])


def facts_of(output: StepOutput) -> tuple[object, ...]:
    return output.token_ids, output.logprobs
