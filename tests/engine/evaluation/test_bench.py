from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from sureact.engine import Engine
from sureact.errors import PromptTooLongError
from sureact.evaluation import bench
from sureact.evaluation.bench import (
    Measurement,
    decode_seconds,
    measure_decode,
    measure_prefill,
    memory_bandwidth,
    random_prompt,
)

SIZES = {"hidden": 64, "intermediate": 96, "layers": 2, "q": 64, "kv": 32, "vocab": 288}
MATRIX_WEIGHTS = (
    SIZES["layers"]
    * (
        SIZES["hidden"] * (SIZES["q"] + 2 * SIZES["kv"])
        + SIZES["q"] * SIZES["hidden"]
        + 3 * SIZES["hidden"] * SIZES["intermediate"]
    )
    + SIZES["hidden"] * SIZES["vocab"]
)
KV_BYTES_PER_TOKEN = 2 * SIZES["layers"] * SIZES["kv"] * 4


@pytest.fixture(autouse=True)
def known_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(device: str) -> tuple[str, float]:
        return "read", 10.0

    monkeypatch.setattr(bench, "memory_bandwidth", measured)


def test_decoding_reads_every_matrix_and_the_context(tiny_engine: Engine) -> None:
    measured = measure_decode(tiny_engine, prompt_len=16, num_tokens=8, repeats=3)
    assert measured.bytes_per_token == 4 * MATRIX_WEIGHTS + (16 + 8 / 2) * KV_BYTES_PER_TOKEN
    assert len(measured.seconds) == 3
    assert min(measured.seconds) > 0


def test_prefill_reads_the_matrices_once_per_chunk(tiny_engine: Engine) -> None:
    measured = measure_prefill(tiny_engine, prompt_len=600, repeats=1)
    assert tiny_engine.config.prefill_chunk_len == 256
    assert measured.bytes_per_token == 4 * MATRIX_WEIGHTS * 3 / 600 + KV_BYTES_PER_TOKEN
    assert measured.num_tokens == 600


def test_speed_and_limit_follow_from_seconds_and_bytes(tiny_engine: Engine) -> None:
    measured = Measurement(
        what="decode",
        config=tiny_engine.config,
        prompt_len=1,
        num_tokens=10,
        seconds=(1.0, 2.0, 5.0),
        bytes_per_token=1e8,
        bandwidth_kind="read",
        bandwidth_gb_per_s=20.0,
    )
    assert measured.tokens_per_s == (10.0, 5.0, 2.0)
    assert measured.median == 5.0
    assert measured.limit == 200.0


@pytest.mark.parametrize(("quantization", "bits"), [("none", 32), ("int8", 8), ("int4", 4)])
def test_weights_count_in_the_form_they_are_stored_in(
    tiny_folder: Path, quantization: Literal["none", "int8", "int4"], bits: int
) -> None:
    dtype = "float32" if quantization == "none" else "bfloat16"
    with Engine(str(tiny_folder), quantization=quantization, dtype=dtype, kv_cache_gb=0.01) as engine:
        per_weight = 8 * engine.config.weight_bytes_per_token / MATRIX_WEIGHTS
    # int4 has 16 bits of scale and 16 of zero per 32 weights, int8 a scale per row.
    assert bits <= per_weight <= bits * 1.35


def test_of_experts_those_count_that_a_token_visits(make_checkpoint: Callable[..., Path]) -> None:
    def weight_bytes(num_experts_per_tok: int) -> int:
        folder = make_checkpoint(
            "qwen3_moe",
            head_dim=16,
            num_experts=4,
            num_experts_per_tok=num_experts_per_tok,
            moe_intermediate_size=32,
            decoder_sparse_step=1,
        )
        with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.01) as engine:
            return engine.config.weight_bytes_per_token

    one_expert = 4 * SIZES["layers"] * 3 * SIZES["hidden"] * 32
    assert weight_bytes(2) - weight_bytes(1) == one_expert


def test_a_negative_seed_is_a_prompt_of_its_own(tiny_engine: Engine) -> None:
    warm_up, first = (random_prompt(tiny_engine.vocabulary, 64, seed=seed) for seed in (-1, 1))
    assert warm_up != first


def test_random_prompts_hold_ordinary_tokens_and_differ_by_seed(tiny_engine: Engine) -> None:
    first, again, other = (random_prompt(tiny_engine.vocabulary, 64, seed=seed) for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) == 64
    assert all(tiny_engine.vocabulary.token_bytes[token_id] for token_id in first + other)


def test_decoding_takes_longer_for_more_tokens(tiny_engine: Engine) -> None:
    prompt = random_prompt(tiny_engine.vocabulary, 8, seed=0)
    assert 0 < decode_seconds(tiny_engine, prompt, 4) < decode_seconds(tiny_engine, prompt, 200)


def test_a_prompt_that_does_not_fit_is_refused(tiny_engine: Engine) -> None:
    with pytest.raises(PromptTooLongError):
        measure_decode(tiny_engine, prompt_len=2000, num_tokens=8, repeats=1)


def test_bandwidth_of_a_cpu_is_measured_by_reading() -> None:
    kind, gb_per_s = memory_bandwidth("cpu", 10**7)
    assert kind == "read"
    assert gb_per_s > 0
