"""Speed of an engine in tokens per second, beside what the bandwidth of the memory allows."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sureact.config import BLOCK_SIZE
from sureact.outputs import RequestOutput
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.config import ResolvedConfig
    from sureact.engine import Engine
    from sureact.tokens.vocabulary import Vocabulary

BANDWIDTH_BYTES = 10**9
"""Size of the tensor that the bandwidth is measured with: far more than any cache holds."""

_BANDWIDTH_REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """Runs of one kind, and the limit they are held against."""

    what: Literal["decode", "prefill"]
    config: ResolvedConfig
    prompt_len: int
    num_tokens: int
    """Tokens that a run computes and `seconds` covers."""
    seconds: tuple[float, ...]
    """Of each run."""
    bytes_per_token: float
    """Weights, and keys and values of the context, that the memory must deliver per token."""
    bandwidth_kind: Literal["read", "copy"]
    bandwidth_gb_per_s: float
    """Measured, in 10^9 bytes."""

    @property
    def tokens_per_s(self) -> tuple[float, ...]:
        """Speed of each run."""
        return tuple(self.num_tokens / seconds for seconds in self.seconds)

    @property
    def median(self) -> float:
        """Median speed in tokens per second."""
        return statistics.median(self.tokens_per_s)

    @property
    def limit(self) -> float:
        """Tokens per second if nothing but reading those bytes took time."""
        return self.bandwidth_gb_per_s * 1e9 / self.bytes_per_token


def measure_decode(engine: Engine, *, prompt_len: int, num_tokens: int, repeats: int) -> Measurement:
    """Time how long `num_tokens` tokens take after the first, one request at a time.

    Every weight is read once per token, and the keys and values of a context that grows from `prompt_len`.

    Raises:
        PromptTooLongError: prompt and tokens do not fit into the context.
    """
    decode_seconds(engine, random_prompt(engine.vocabulary, prompt_len, seed=-1), min(num_tokens, 4))
    seconds = tuple(
        decode_seconds(engine, random_prompt(engine.vocabulary, prompt_len, seed=seed), num_tokens)
        for seed in range(repeats)
    )
    mean_context_len = prompt_len + num_tokens / 2
    kind, bandwidth = memory_bandwidth(engine.config.device)
    return Measurement(
        what="decode",
        config=engine.config,
        prompt_len=prompt_len,
        num_tokens=num_tokens,
        seconds=seconds,
        bytes_per_token=engine.config.weight_bytes_per_token + mean_context_len * _kv_bytes_per_token(engine.config),
        bandwidth_kind=kind,
        bandwidth_gb_per_s=bandwidth,
    )


def measure_prefill(engine: Engine, *, prompt_len: int, repeats: int) -> Measurement:
    """Time how long a prompt takes up to its first token.

    A chunk of the prompt reads every weight once; long prompts are limited by arithmetic long before.

    Raises:
        PromptTooLongError: the prompt does not fit into the context.
    """
    prefill_seconds(engine, random_prompt(engine.vocabulary, prompt_len, seed=-1))
    seconds = tuple(
        prefill_seconds(engine, random_prompt(engine.vocabulary, prompt_len, seed=seed)) for seed in range(repeats)
    )
    num_chunks = -(-prompt_len // engine.config.prefill_chunk_len)
    kind, bandwidth = memory_bandwidth(engine.config.device)
    return Measurement(
        what="prefill",
        config=engine.config,
        prompt_len=prompt_len,
        num_tokens=prompt_len,
        seconds=seconds,
        bytes_per_token=engine.config.weight_bytes_per_token * num_chunks / prompt_len
        + _kv_bytes_per_token(engine.config),
        bandwidth_kind=kind,
        bandwidth_gb_per_s=bandwidth,
    )


def decode_seconds(engine: Engine, prompt: list[int], num_tokens: int) -> float:
    """Return how long `num_tokens` tokens take after the prompt and the first token, by the clock."""
    params = SamplingParams(max_tokens=num_tokens + 1, ignore_eos=True)
    start = time.perf_counter()
    output = engine.generate(prompt, params)
    seconds = time.perf_counter() - start
    assert isinstance(output, RequestOutput), "a prompt of ids gives one output"
    return seconds - output.completions[0].timings.prefill_s


def prefill_seconds(engine: Engine, prompt: list[int]) -> float:
    """Return how long a prompt takes up to its first token, by the clock."""
    start = time.perf_counter()
    engine.generate(prompt, SamplingParams(max_tokens=1, ignore_eos=True))
    return time.perf_counter() - start


def random_prompt(vocabulary: Vocabulary, num_tokens: int, *, seed: int) -> list[int]:
    """Return ordinary token ids drawn at random, so that no prompt shares its beginning with an earlier one."""
    ordinary = [token_id for token_id, text in enumerate(vocabulary.token_bytes) if text]
    # Of a number, `Random` takes the absolute value: -1 would draw what 1 draws.
    return random.Random(f"prompt {seed}").choices(ordinary, k=num_tokens)


def memory_bandwidth(device: str, num_bytes: int = BANDWIDTH_BYTES) -> tuple[Literal["read", "copy"], float]:
    """Measure how fast the device's memory delivers a large tensor.

    On a CPU a float32 tensor is summed with the threads that torch uses; on a GPU it is copied, and the bytes read
    and those written both count.

    Returns:
        The kind of access, and 10^9 bytes per second, the median of five.
    """
    import torch

    source = torch.ones(num_bytes // 4, dtype=torch.float32, device=device)
    if source.device.type == "cpu":
        return "read", source.nbytes / _median_seconds(source.sum) / 1e9
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        torch.cuda.synchronize(device)

    return "copy", 2 * source.nbytes / _median_seconds(copy) / 1e9


def _median_seconds(function: Callable[[], object]) -> float:
    function()
    seconds: list[float] = []
    for _ in range(_BANDWIDTH_REPEATS):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _kv_bytes_per_token(config: ResolvedConfig) -> float:
    return config.kv_cache_bytes / (config.num_kv_blocks * BLOCK_SIZE)
