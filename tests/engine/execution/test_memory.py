import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from sureact.config import EngineConfig
from sureact.errors import ConfigError, OutOfMemoryError
from sureact.execution.memory import CacheSize, KVShape, cache_size, free_bytes, weight_bytes

CPU = torch.device("cpu")
SHAPE = KVShape(num_layers=2, num_kv_heads=2, head_dim=16, max_position_embeddings=1000)
BLOCK_BYTES = 2 * 2 * 2 * 16 * 128 * 4


def size(dtype: torch.dtype = torch.float32, **options: Any) -> CacheSize:
    return cache_size(EngineConfig(model="m", **options), dtype, CPU, SHAPE)


def test_the_budget_is_cut_into_blocks_and_bounds_the_context() -> None:
    found = size(kv_cache_gb=3.5 * BLOCK_BYTES / 1e9)
    assert (found.num_blocks, found.max_model_len) == (3, 3 * 128)
    assert found.num_bytes == 3 * BLOCK_BYTES


def test_float8_holds_four_times_the_tokens_of_float32() -> None:
    options = {"kv_cache_gb": 2 * BLOCK_BYTES / 1e9, "kv_cache_dtype": "float8_e4m3"}
    found = size(torch.float8_e4m3fn, **options)
    assert (found.num_blocks, found.num_bytes, found.dtype) == (8, 2 * BLOCK_BYTES, torch.float8_e4m3fn)


def test_float8_where_the_model_has_none_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"kv_cache_dtype is 'float8_e4m3'.*in float32"):
        size(kv_cache_dtype="float8_e4m3")


def test_without_a_budget_sixteen_full_contexts_fit_where_memory_allows() -> None:
    found = size()
    assert found.num_blocks == 16 * 8
    assert found.max_model_len == 1000


def test_a_context_longer_than_the_model_was_trained_for_is_refused_with_both() -> None:
    with pytest.raises(ConfigError, match=r"2,000.*1,000"):
        size(max_model_len=2000)


def test_a_context_that_does_not_fit_the_budget_is_refused_with_numbers() -> None:
    with pytest.raises(ConfigError, match="max_model_len=900 needs"):
        size(max_model_len=900, kv_cache_gb=2.5 * BLOCK_BYTES / 1e9)


def test_less_than_one_block_is_refused() -> None:
    with pytest.raises(OutOfMemoryError, match="one block of 128 tokens"):
        size(kv_cache_gb=0.5 * BLOCK_BYTES / 1e9)


def test_weights_are_estimated_from_the_files(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(20, 30), "b": torch.zeros(200)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text("{}")
    assert weight_bytes(tmp_path, "none", torch.bfloat16) == 1600
    assert weight_bytes(tmp_path, "none", torch.float32) == 3200
    assert weight_bytes(tmp_path, "int8", torch.bfloat16) == 800
    assert weight_bytes(tmp_path, "fp8", torch.bfloat16) == 800
    assert weight_bytes(tmp_path, "int4", torch.bfloat16) == 500


def test_a_budget_beyond_the_free_memory_is_refused_with_both() -> None:
    with pytest.raises(OutOfMemoryError, match=r"kv_cache_gb=1000000.*GB that are free"):
        size(kv_cache_gb=1_000_000)


def test_some_memory_is_free() -> None:
    assert free_bytes(CPU) > 0


@pytest.mark.skipif(sys.platform != "linux", reason="a bare machine is one with Linux")
def test_some_memory_is_free_where_psutil_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert 0 < free_bytes(CPU) < os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
