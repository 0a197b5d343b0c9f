"""From settings to a model: what is resolved, what is noticed, what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sureact.config import EngineConfig
from sureact.engine import Engine
from sureact.errors import ConfigError
from sureact.execution.loaded_model import load_model
from sureact.execution.model_runner import PagedModelRunner
from sureact.execution.transformers_runner import TransformersRunner
from sureact.sampling_params import SamplingParams
from sureact_kernels.cpu.library import library, reason_unavailable
from sureact_kernels.dispatch import disabled


def _ten_bytes(device: object) -> int:
    del device
    return 10


def copy_with(folder: Path, destination: Path, file: str, **settings: object) -> Path:
    shutil.copytree(folder, destination)
    path = destination / file
    current = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**current, **settings}))
    return destination


def test_every_auto_is_resolved(tiny_folder: Path) -> None:
    config = load_model(EngineConfig(model=str(tiny_folder))).config
    assert (config.quantization, config.dtype, config.device) == ("int8", "bfloat16", "cpu")
    assert config.kv_cache_dtype == "bfloat16"
    assert config.max_model_len == 1024
    assert config.num_threads >= 1
    assert config.notices == ()


def test_building_the_cpu_ops_is_told_once(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if library() is None:
        pytest.skip(f"no C++ ops here: {reason_unavailable()}")
    told: list[str] = []
    load_model(EngineConfig(model=str(tiny_folder)), told.append)
    assert told == []
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    load_model(EngineConfig(model=str(tiny_folder)), told.append)
    assert told == ["Building the CPU ops (once)"]


def test_a_wish_for_unknown_kernels_is_refused(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "fast")
    with pytest.raises(ConfigError, match="SUREACT_KERNELS is 'fast'"):
        load_model(EngineConfig(model=str(tiny_folder)), print)


def test_the_checkpoints_own_repetition_penalty_applies_and_is_said(tiny_folder: Path, tmp_path: Path) -> None:
    folder = copy_with(tiny_folder, tmp_path / "m", "generation_config.json", repetition_penalty=1.1)
    loaded = load_model(EngineConfig(model=str(folder)))
    assert loaded.repetition_penalty == 1.1
    assert "repetition_penalty=1.1" in loaded.config.notices[0]


def test_how_positions_are_stretched_is_said(tiny_folder: Path, tmp_path: Path) -> None:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "rope_theta": 10_000.0}
    folder = copy_with(tiny_folder, tmp_path / "m", "config.json", rope_parameters=scaling)
    (notice,) = load_model(EngineConfig(model=str(folder))).config.notices
    assert "yarn with factor 4" in notice


def test_an_architecture_of_ours_runs_in_our_modules(tiny_folder: Path) -> None:
    assert isinstance(load_model(EngineConfig(model=str(tiny_folder))).runner, PagedModelRunner)


def test_a_model_larger_than_the_memory_takes_the_slow_path_and_says_so(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sureact.execution.loaded_model.free_bytes", _ten_bytes)
    loaded = load_model(EngineConfig(model=str(tiny_folder), dtype="float32", quantization="none", kv_cache_gb=0.01))
    assert isinstance(loaded.runner, TransformersRunner)
    assert "Slow path" in loaded.config.notices[0]
    assert "GB are free" in loaded.config.notices[0]


def test_the_slow_path_refuses_our_quantization_by_name(make_checkpoint: Any) -> None:
    folder = make_checkpoint("gemma2", head_dim=16)
    with pytest.raises(ConfigError, match=r"quantization is 'int8'.*quantization='none'"):
        load_model(EngineConfig(model=str(folder), quantization="int8"))


FOX = "The quick brown fox"
PROMPTS = [FOX, "Ab", "one, two, " * 30 + "three", "x" * 140]


@pytest.mark.parametrize(("quantization", "dtype"), [("none", "float32"), ("none", "bfloat16"), ("int8", "auto")])
def test_with_a_float8_cache_a_request_has_the_tokens_and_numbers_that_it_gets_alone(
    tiny_folder: Path, quantization: Any, dtype: Any
) -> None:
    """Alone and read whole, in a batch and read in pieces, after a cache hit, with guesses and without."""
    params = SamplingParams(max_tokens=24, ignore_eos=True, logprobs=5)
    found: list[list[tuple[Any, ...]]] = []
    for is_together, chunk_len, draft_len in ((False, 512, 0), (True, 64, 3), (True, 200, 0)):
        with Engine(
            str(tiny_folder),
            quantization=quantization,
            dtype=dtype,
            kv_cache_dtype="float8_e4m3",
            kv_cache_gb=0.01,
            prefill_chunk_len=chunk_len,
            max_draft_len=draft_len,
        ) as engine:
            outputs = engine.generate(PROMPTS, params) if is_together else [engine.generate(p, params) for p in PROMPTS]
            again = engine.generate(PROMPTS[2], params)
            assert again.completions[0].usage.cached_tokens >= 256
            assert engine.config.kv_cache_dtype == "float8_e4m3"
            assert "float8_e4m3" in engine.config.notices[0]
        done = [output.completions[0] for output in (*outputs, again)]
        found.append([(one.token_ids, one.logprobs) for one in done])
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_triton_attends_over_a_float8_cache(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: Any = {"quantization": "none", "dtype": "bfloat16", "kv_cache_dtype": "float8_e4m3", "kv_cache_gb": 0.01}
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    with Engine(str(tiny_folder), **options) as engine:
        in_torch = [output.completions[0].token_ids for output in engine.generate(["Ab", "x"], params)]
    monkeypatch.setattr("sureact_kernels.dispatch.GPU", "cpu")
    with Engine(str(tiny_folder), prefix_cache=False, **options) as engine:
        together = [output.completions[0].token_ids for output in engine.generate(["Ab", "x"], params)]
        assert [engine.generate(prompt, params).completions[0].token_ids for prompt in ("Ab", "x")] == together
    # Later ones need not agree: a last bit in bfloat16 may become a whole step in float8.
    assert [tokens[:2] for tokens in together] == [tokens[:2] for tokens in in_torch]
    assert disabled() == {}


def test_a_float8_cache_is_close_to_one_in_bfloat16(tiny_folder: Path) -> None:
    """Most of the likeliest tokens stay, and none is the same by all figures: the cache is another one."""
    params = SamplingParams(max_tokens=1, ignore_eos=True, logprobs=5)
    texts = ["one, two, " * 12 + str(i) for i in range(24)]
    tops: dict[str, list[Any]] = {}
    for kv_cache_dtype in ("auto", "float8_e4m3"):
        with Engine(str(tiny_folder), kv_cache_dtype=kv_cache_dtype, kv_cache_gb=0.01) as engine:
            tops[kv_cache_dtype] = [output.completions[0].logprobs for output in engine.generate(texts, params)]
    pairs = [(a[0].top, b[0].top) for a, b in zip(*tops.values(), strict=True)]
    assert all(one != other for one, other in pairs)
    assert sum(one[0][0] == other[0][0] for one, other in pairs) >= len(pairs) // 2


def test_a_float8_cache_is_refused_for_a_model_that_runs_in_transformers(make_checkpoint: Any) -> None:
    folder = make_checkpoint("gpt2", n_embd=32, n_head=2, n_layer=2, vocab_size=300)
    with pytest.raises(ConfigError, match="kv_cache_dtype is 'float8_e4m3'"):
        load_model(EngineConfig(model=str(folder), kv_cache_dtype="float8_e4m3"))
    with pytest.raises(ConfigError, match="quantization is 'fp8'"):
        load_model(EngineConfig(model=str(folder), quantization="fp8"))
