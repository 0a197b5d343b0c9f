import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from benchmarks.gpu import engine_peers
from benchmarks.gpu.engine_peers import sglang_tokens_per_s, speed_after_first_token, vllm_tokens_per_s
from benchmarks.gpu.passes import Stretch, run_pass
from benchmarks.gpu.peers import Clock
from benchmarks.gpu.random_model import RandomModel
from benchmarks.gpu.transformers_model import transformers_model


def test_transformers_computes_the_same_with_the_same_weights(tiny: RandomModel) -> None:
    ids = tiny.random_ids(20, seed=0)
    hidden = run_pass(tiny, tiny.new_cache(1), [Stretch(ids, 0, [0])])
    ours = tiny.model.logits(hidden)
    with torch.no_grad():
        theirs = transformers_model(tiny)(torch.tensor([ids])).logits[0]
    torch.testing.assert_close(ours, theirs, atol=1e-3, rtol=1e-3)


def test_a_clock_counts_from_the_first_token() -> None:
    clock = Clock()
    for _ in range(3):  # the prompt and two tokens
        clock.put(None)
    clock.end()
    assert 0 <= clock.seconds_after_first_token < 1


def test_the_first_token_is_taken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    def generate(num_tokens: int) -> None:
        nonlocal now
        now += 3 + 0.5 * num_tokens

    monkeypatch.setattr(engine_peers, "time", SimpleNamespace(perf_counter=lambda: now))
    assert speed_after_first_token(generate, 11) == pytest.approx(2.0)


def test_engines_get_ids_and_write_as_many_tokens(tiny: RandomModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, list[int], int]] = []

    class Vllm:
        def __init__(self, **options: Any) -> None:
            assert options["load_format"] == "dummy"

        def generate(self, prompts: list[dict[str, list[int]]], params: dict[str, Any], *, use_tqdm: bool) -> None:
            assert not use_tqdm
            asked.append(("vllm", prompts[0]["prompt_token_ids"], params["max_tokens"]))

    class Sglang:
        def __init__(self, **options: Any) -> None:
            assert options["skip_tokenizer_init"]

        def generate(self, *, input_ids: list[int], sampling_params: dict[str, Any]) -> None:
            asked.append(("sglang", input_ids, sampling_params["max_new_tokens"]))

        def shutdown(self) -> None:
            asked.append(("sglang", [], 0))

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=Vllm, SamplingParams=dict))
    monkeypatch.setitem(sys.modules, "sglang", SimpleNamespace(Engine=Sglang))
    seconds = iter(range(1, 1000))

    def timed(generate: Callable[[int], None], num_tokens: int) -> float:
        generate(num_tokens)
        return next(seconds)

    monkeypatch.setattr(engine_peers, "_seconds", timed)
    for measure in (vllm_tokens_per_s, sglang_tokens_per_s):
        assert measure(tiny, [1, 2, 3], 5) > 0
    assert asked == [
        *[("vllm", [1, 2, 3], count) for count in (1, 1, 1, 5, 5, 5)],
        *[("sglang", [1, 2, 3], count) for count in (1, 1, 1, 5, 5, 5)],
        ("sglang", [], 0),
    ]
