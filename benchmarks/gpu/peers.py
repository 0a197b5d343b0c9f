"""Decoding beside transformers on a static cache, compiled, and beside vLLM and SGLang where they are installed."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from benchmarks.gpu.decoder import Decoder, seconds_per_step
from benchmarks.gpu.engine_peers import sglang_tokens_per_s, vllm_tokens_per_s
from benchmarks.gpu.passes import Stretch, prefill
from benchmarks.gpu.random_model import RandomModel, make_model
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import Settings
from benchmarks.gpu.transformers_model import transformers_model
from benchmarks.harness import device

TARGETS = {"qwen3-8b": 1.3, "qwen3-0.6b": 3.0}
"""Our tokens per second over those of transformers."""

_RUNS = 3
"""Of which the first compiles."""


def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
    """Measure every model: ours, then every peer."""
    report.each(models, str, lambda model: _measure_model(report, model, settings))


def _measure_model(report: PartReport, model: str, settings: Settings) -> None:
    prompt_len, num_tokens = settings.decode_context, settings.peer_tokens
    at = {"batch": 1, "context": prompt_len}
    made = make_model(model, settings.max_model_len)
    prompt = made.random_ids(prompt_len, seed=0)
    ours, our_ids = _ours(made, prompt, num_tokens, settings)
    report.add(model, "sureact", ours, "tokens/s", **at)

    def beside(name: str, measure_peer: Callable[[], tuple[float, str]]) -> None:
        if find_spec(name) is None:
            report.add(model, name, None, "tokens/s", note=f"{name} is not installed", **at)
            return
        theirs, note = measure_peer()
        report.add(model, name, theirs, "tokens/s", note=note, **at)
        target = TARGETS.get(model) if name == "transformers" else None
        report.add(model, f"sureact / {name}", ours / theirs, "ratio", target=target, **at)

    def transformers_speed() -> tuple[float, str]:
        speed, ids, is_compiled = _transformers(made, prompt, num_tokens)
        agreed = next((i for i, pair in enumerate(zip(our_ids, ids, strict=True)) if pair[0] != pair[1]), len(ids))
        how = "compiled" if is_compiled else "not compiled"
        return speed, f"static cache, {how}; the same weights; the first {agreed} of {len(ids)} ids agree"

    def other_weights(speed: Callable[..., float]) -> tuple[float, str]:
        return speed(made, prompt, num_tokens), "random weights of its own"

    peers: dict[str, Callable[[], tuple[float, str]]] = {
        "transformers": transformers_speed,
        "vllm": lambda: other_weights(vllm_tokens_per_s),
        "sglang": lambda: other_weights(sglang_tokens_per_s),
    }
    report.each(peers, lambda name: f"{model}, {name}", lambda name: beside(name, peers[name]))


def _ours(made: RandomModel, prompt: list[int], num_tokens: int, settings: Settings) -> tuple[float, list[int]]:
    """Return tokens per second after the first, and the tokens."""
    longest = len(prompt) + num_tokens + 1
    decoder = Decoder(made, max_rows=1, max_tokens=longest, max_model_len=settings.max_model_len)
    speeds: list[float] = []
    ids: list[int] = []
    for _ in range(_RUNS):
        first = prefill(made, decoder.layers, Stretch(prompt, 0, decoder.tables[0]))
        decoder.load([Stretch([first], len(prompt), decoder.tables[0])])
        ids = [first]

        def decode(num_steps: int, ids: list[int] = ids) -> None:
            ids += [picked[0] for picked in decoder.free(num_steps)]

        speeds.append(1 / seconds_per_step(decode, num_tokens - 1))
    return max(speeds[1:]), ids


def _transformers(made: RandomModel, prompt: list[int], num_tokens: int) -> tuple[float, list[int], bool]:
    """Return tokens per second of `generate` after the first, the tokens, and whether it compiled the model."""
    model = transformers_model(made)
    input_ids = torch.tensor([prompt], device=device())
    speeds: list[float] = []
    ids: list[int] = []
    for _ in range(_RUNS):
        clock = Clock()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on what is deprecated, and on the compiler's settings
            out: Any = model.generate(
                input_ids,
                attention_mask=torch.ones_like(input_ids),
                cache_implementation="static",
                max_new_tokens=num_tokens,
                do_sample=False,
                streamer=clock,
            )
        ids = out[0, len(prompt) :].tolist()
        speeds.append((num_tokens - 1) / clock.seconds_after_first_token)
    # On a GPU a static cache makes `generate` compile the model by itself.
    return max(speeds[1:]), ids, hasattr(model, "_compiled_call")


class Clock:
    """Notes when ids reach the host: a streamer is given the prompt first and then each token."""

    def __init__(self) -> None:
        self._times: list[float] = []

    @property
    def seconds_after_first_token(self) -> float:
        """From the first token to the last."""
        return self._times[-1] - self._times[1]

    def put(self, value: object) -> None:
        """Note the time."""
        del value
        self._times.append(time.perf_counter())

    def end(self) -> None:
        """Do nothing."""
