"""From settings to a model: what is resolved, what is noticed, what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from sureact.config import EngineConfig
from sureact.errors import ConfigError
from sureact.execution.loaded_model import load_model
from sureact.execution.model_runner import PagedModelRunner
from sureact.execution.transformers_runner import TransformersRunner
from sureact_kernels.cpu.library import library, reason_unavailable


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
