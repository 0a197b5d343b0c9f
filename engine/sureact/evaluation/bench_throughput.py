"""Tokens per second of many requests at once, of random lengths."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sureact.evaluation.bench import random_prompt
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.config import ResolvedConfig
    from sureact.engine import Engine

SHORTEST = 100
"""Fewest tokens of a prompt and of an output, unless the longest are fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputMeasurement:
    """Requests that were all submitted at once."""

    config: ResolvedConfig
    num_requests: int
    prompt_tokens: int
    output_tokens: int
    seconds: float
    """From the first request to the last token."""

    @property
    def output_tokens_per_s(self) -> float:
        """Generated tokens per second."""
        return self.output_tokens / self.seconds

    @property
    def tokens_per_s(self) -> float:
        """Tokens of prompts and outputs per second."""
        return (self.prompt_tokens + self.output_tokens) / self.seconds


def measure_throughput(
    engine: Engine, *, num_requests: int, input_len: int, output_len: int, seed: int = 0
) -> ThroughputMeasurement:
    """Generate after random prompts, whatever ends of text come up.

    Args:
        engine: the model.
        num_requests: submitted at once; the engine runs `max_running_requests` of them together.
        input_len: longest prompt; lengths are drawn evenly between 100 and this.
        output_len: longest output, likewise.
        seed: of lengths and prompts.

    Raises:
        PromptTooLongError: prompt and output do not fit into the context.
    """
    draw = random.Random(seed)
    input_lens = [_random_len(draw, input_len) for _ in range(num_requests)]
    output_lens = [_random_len(draw, output_len) for _ in range(num_requests)]
    prompts = [random_prompt(engine.vocabulary, num, seed=seed + i) for i, num in enumerate(input_lens)]
    engine.generate(random_prompt(engine.vocabulary, 8, seed=seed - 1), SamplingParams(max_tokens=2, ignore_eos=True))
    start = time.perf_counter()
    streams = [
        engine.stream(prompt, SamplingParams(max_tokens=num_tokens, ignore_eos=True))
        for prompt, num_tokens in zip(prompts, output_lens, strict=True)
    ]
    for stream in streams:
        stream.read_output()
    return ThroughputMeasurement(
        config=engine.config,
        num_requests=num_requests,
        prompt_tokens=sum(input_lens),
        output_tokens=sum(output_lens),
        seconds=time.perf_counter() - start,
    )


def _random_len(draw: random.Random, longest: int) -> int:
    return draw.randint(min(SHORTEST, longest), longest)
