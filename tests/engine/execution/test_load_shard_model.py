"""What several processes need is asked for before any is started, and what one lacks is told."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.config import EngineConfig
from sureact.distributed.shard import Shard
from sureact.errors import ConfigError, WorkerLostError
from sureact.execution import load_shard_model
from sureact.execution.load_shard_model import load_part, start_sharded
from sureact.execution.loaded_model import load_model

CheckpointMaker = Callable[..., Path]
CPU, GPU = torch.device("cpu"), torch.device("cuda")


def config_of(folder: Path, **settings: Any) -> EngineConfig:
    defaults: dict[str, Any] = {"tensor_parallel_size": 2, "quantization": "none", "kv_cache_gb": 0.01}
    return EngineConfig(model=str(folder), **(defaults | settings))


def no_start(*_: object, **__: object) -> None:
    raise AssertionError("a process is started")


@pytest.fixture
def no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_shard_model, "WorkerProcesses", no_start)


@pytest.mark.usefixtures("no_processes")
class TestBeforeAnyProcessIsStarted:
    def test_a_size_that_does_not_divide_the_model_is_refused(self, tiny_folder: Path) -> None:
        with pytest.raises(ConfigError, match=r"tensor_parallel_size is 3.*4 query heads, 2 key heads.*Allowed: 1, 2"):
            load_model(config_of(tiny_folder, tensor_parallel_size=3))

    def test_fewer_gpus_than_processes_are_refused(self, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
        with pytest.raises(ConfigError, match="tensor_parallel_size is 2; this machine has 1 GPUs"):
            start_sharded(tiny_folder, config_of(tiny_folder, device="cuda"), GPU, 1)

    def test_one_certain_gpu_is_refused(self, tiny_folder: Path) -> None:
        config = config_of(tiny_folder, device="cuda:1")
        with pytest.raises(ConfigError, match=r"device is 'cuda:1'.*Use device='cuda'"):
            start_sharded(tiny_folder, config, torch.device("cuda:1"), 1)

    def test_a_torch_without_distributed_is_refused(self, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.distributed, "is_available", lambda: False)
        with pytest.raises(ConfigError, match=r"without torch\.distributed"):
            start_sharded(tiny_folder, config_of(tiny_folder), CPU, 1)

    def test_int4_is_refused_by_name(self, tiny_folder: Path) -> None:
        with pytest.raises(ConfigError, match="quantization is 'int4' with tensor_parallel_size=2"):
            load_model(config_of(tiny_folder, quantization="int4"))

    def test_fp8_is_refused_by_name(self, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
        with pytest.raises(ConfigError, match="quantization is 'fp8' with tensor_parallel_size=2"):
            start_sharded(tiny_folder, config_of(tiny_folder, quantization="fp8"), GPU, 1)

    def test_a_model_that_runs_in_transformers_is_refused(self, make_checkpoint: CheckpointMaker) -> None:
        folder = make_checkpoint("gemma2", head_dim=16)
        with pytest.raises(ConfigError, match=r"tensor_parallel_size is 2.*runs in transformers"):
            load_model(config_of(folder))


def test_a_process_that_cannot_load_its_part_is_told_and_ended(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[load_shard_model.WorkerProcesses] = []

    def start(module: str, *rest: Any, **options: Any) -> load_shard_model.WorkerProcesses:
        started.append(processes(module, *rest, **options))
        return started[-1]

    processes = load_shard_model.WorkerProcesses
    monkeypatch.setattr(load_shard_model, "WorkerProcesses", start)
    monkeypatch.setattr(load_shard_model, "WORKER_MODULE", "tests.engine.distributed.refusing_worker")
    with pytest.raises(WorkerLostError, match="Process 1 of the model could not start: no memory"):
        load_model(config_of(tiny_folder, dtype="float32"))
    with pytest.raises(WorkerLostError):
        started[0].send(b"")


def test_both_parts_need_half_the_cache_for_as_many_tokens(tiny_folder: Path) -> None:
    config = config_of(tiny_folder, dtype="float32")
    halves = [load_part(tiny_folder, config, shard, CPU).cache_size for shard in Shard(0, 2).all()]
    whole = load_part(tiny_folder, config, Shard(0, 1), CPU).cache_size
    assert halves[0] == halves[1]
    assert halves[0].num_blocks // 2 == whole.num_blocks


def test_the_smallest_cache_holds_for_all(tiny_folder: Path) -> None:
    own = load_part(tiny_folder, config_of(tiny_folder), Shard(0, 2), CPU).cache_size
    agreed = load_shard_model._agreed(  # pyright: ignore[reportPrivateUsage]
        own, [{"num_blocks": 3, "max_model_len": own.max_model_len}]
    )
    assert (agreed.num_blocks, agreed.max_model_len) == (3, 384)
    assert agreed.num_bytes == 3 * own.num_bytes // own.num_blocks
