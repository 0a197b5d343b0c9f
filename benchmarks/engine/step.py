"""One decode step of a model, run again and again on the caller's thread, where a profiler sees it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import torch

from sureact.config import EngineConfig
from sureact.evaluation.bench import random_prompt
from sureact.execution.loaded_model import load_model
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.sampling_params import SamplingParams
from sureact.scheduling.batch import Batch, ScheduledRequest
from sureact.scheduling.request import Request

if TYPE_CHECKING:
    from sureact.config import ResolvedConfig


class DecodeStep:
    """A pass over the last token of each of some sequences; it writes the same slots each time.

    Args:
        config: the model and how it runs.
        num_rows: sequences.
        context_len: tokens of each, the last one included. Their keys and values are random, since the time of a step
            does not depend on them.
    """

    def __init__(self, config: EngineConfig, *, num_rows: int, context_len: int) -> None:
        loaded = load_model(config)
        self.config: ResolvedConfig = loaded.config
        self._runner = loaded.runner
        vocabulary = loaded.tokenizer.vocabulary
        entries: list[ScheduledRequest] = []
        for row in range(num_rows):
            sequence = CachedSequence(random_prompt(vocabulary, context_len, seed=row))
            loaded.cache.add(sequence)
            loaded.cache.reserve(sequence, context_len)
            request = Request(sequence, SamplingParams(), vocabulary, loaded.tokenizer.encode)
            entries.append(ScheduledRequest(request, context_len - 1, 1))
        self._batch = Batch(tuple(entries))
        self._all_ids = torch.full((num_rows, -(-vocabulary.num_logits // 32)), -1, dtype=torch.int32)

    def run(self) -> None:
        """Compute the step, logits included."""
        self._runner.run(self._batch, lambda: self._all_ids)

    def seconds(self, repeats: int) -> float:
        """Return the fastest of some steps, by the clock."""
        self.run()
        times: list[float] = []
        for _ in range(repeats):
            start = time.perf_counter()
            self.run()
            times.append(time.perf_counter() - start)
        return min(times)
