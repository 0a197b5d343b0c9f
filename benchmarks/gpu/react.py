"""Wall time of an agent's turns on ids alone: a thought, a call under a mask, an observation on the kept cache.

The lengths are those of `sureact.evaluation.react_script`; there is no text, no grammar and no scheduler.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from benchmarks.gpu.constrained import FEW_IDS
from benchmarks.gpu.decoder import Decoder
from benchmarks.gpu.mask_filler import NumpyFiller
from benchmarks.gpu.passes import Stretch, prefill
from benchmarks.gpu.random_model import make_model
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings

_RUNS = 3
"""Of which the first warms up."""


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Measure every model."""
    report.facts["a turn"] = (
        f"{settings.react_thought_len} free tokens, {settings.react_call_len} under a mask of {FEW_IDS} ids, an "
        f"observation of {settings.react_observation_len}; the prompt before has {settings.react_prompt_len}"
    )
    report.each(models, str, lambda model: _measure_model(report, model, settings))


def _measure_model(report: PartReport, model: str, settings: Settings) -> None:
    turn_len = settings.react_thought_len + settings.react_call_len + settings.react_observation_len
    longest = settings.react_prompt_len + settings.react_turns * turn_len + 1
    decoder = Decoder(
        make_model(model, settings.max_model_len), max_rows=1, max_tokens=longest, max_model_len=settings.max_model_len
    )
    runs = [AgentRun(decoder, settings).play() for _ in range(_RUNS)][1:]
    made, context = decoder.made, settings.react_prompt_len
    prompt_seconds, *turns = (statistics.median(same) for same in zip(*runs, strict=True))
    report.add(model, "prompt", prompt_seconds, "s", batch=1, context=context)
    for index, seconds in enumerate(turns):
        num_tokens = settings.react_thought_len + settings.react_call_len
        # An observation is read in one pass, which costs at least a step.
        least = (num_tokens + 1) * made.step_bytes(1, context + num_tokens / 2) / report.bytes_per_s
        report.add(model, f"turn {index + 1}", seconds, "s", batch=1, context=context, limit=least)
        context += turn_len
    report.add(model, "whole run", prompt_seconds + sum(turns), "s", batch=1, context=context)


class AgentRun:
    """One run; every run takes the same ids."""

    def __init__(self, decoder: Decoder, settings: Settings) -> None:
        self._decoder = decoder
        self._settings = settings
        self._fill = NumpyFiller(1, decoder.made.sizes.vocab_size, FEW_IDS)
        self._num_tokens = 0

    def play(self) -> list[float]:
        """Return the seconds of the prompt and of each turn."""
        settings = self._settings
        start = time.perf_counter()
        next_id = self._read(self._ids(settings.react_prompt_len))
        seconds = [time.perf_counter() - start]
        for _ in range(settings.react_turns):
            start = time.perf_counter()
            next_id = self._read([self._write(next_id), *self._ids(settings.react_observation_len - 1)])
            seconds.append(time.perf_counter() - start)
        return seconds

    def _write(self, next_id: int) -> int:
        """Write a thought and a call; return the last token, which is not computed yet."""
        decoder, settings, table = self._decoder, self._settings, self._decoder.tables[0]
        decoder.load([Stretch([next_id], self._num_tokens, table)])
        ((last_id,),) = decoder.free(settings.react_thought_len)[-1:]
        self._num_tokens += settings.react_thought_len
        rows = decoder.masked([Stretch([last_id], self._num_tokens, table)], settings.react_call_len, self._fill)
        self._num_tokens += settings.react_call_len
        return rows[0].token_ids[0]

    def _read(self, ids: list[int]) -> int:
        """Compute ids behind what is cached and return the likeliest next one."""
        decoder = self._decoder
        next_id = prefill(decoder.made, decoder.layers, Stretch(ids, self._num_tokens, decoder.tables[0]))
        self._num_tokens += len(ids)
        return next_id

    def _ids(self, num_ids: int) -> list[int]:
        return self._decoder.made.random_ids(num_ids, seed=self._num_tokens)
