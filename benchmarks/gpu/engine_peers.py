"""Tokens per second of vLLM and SGLang at the same shapes, where they are installed; they draw weights of their own."""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable
from typing import Any

from benchmarks.gpu.random_model import RandomModel
from benchmarks.gpu.transformers_model import transformers_config

_RUNS = 3
"""Of which the first warms up."""
_MEMORY_SHARE = 0.5
"""Of the GPU, beside what our own model holds."""


def vllm_tokens_per_s(made: RandomModel, prompt: list[int], num_tokens: int) -> float:
    """Decode greedily with vLLM, one request."""
    vllm: Any = importlib.import_module("vllm")
    with tempfile.TemporaryDirectory() as folder:
        transformers_config(made).save_pretrained(folder)
        engine = vllm.LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=len(prompt) + num_tokens,
            gpu_memory_utilization=_MEMORY_SHARE,
            enable_prefix_caching=False,
        )

    def generate(max_tokens: int) -> None:
        params = vllm.SamplingParams(temperature=0, max_tokens=max_tokens, ignore_eos=True, detokenize=False)
        engine.generate([{"prompt_token_ids": prompt}], params, use_tqdm=False)

    return speed_after_first_token(generate, num_tokens)


def sglang_tokens_per_s(made: RandomModel, prompt: list[int], num_tokens: int) -> float:
    """Decode greedily with SGLang, one request."""
    sglang: Any = importlib.import_module("sglang")
    with tempfile.TemporaryDirectory() as folder:
        transformers_config(made).save_pretrained(folder)
        engine = sglang.Engine(
            model_path=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            mem_fraction_static=_MEMORY_SHARE,
            disable_radix_cache=True,
        )

    def generate(max_tokens: int) -> None:
        params = {"temperature": 0, "max_new_tokens": max_tokens, "ignore_eos": True}
        engine.generate(input_ids=prompt, sampling_params=params)

    try:
        return speed_after_first_token(generate, num_tokens)
    finally:
        engine.shutdown()


def speed_after_first_token(generate: Callable[[int], None], num_tokens: int) -> float:
    """Return tokens per second of the tokens after the first, from runs of one and of all tokens."""
    one, every = (min(_seconds(generate, count) for _ in range(_RUNS)) for count in (1, num_tokens))
    return (num_tokens - 1) / (every - one)


def _seconds(generate: Callable[[int], None], num_tokens: int) -> float:
    start = time.perf_counter()
    generate(num_tokens)
    return time.perf_counter() - start
