"""From an `EngineConfig` to a model that several processes hold: starts the others, and agrees with them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import torch

from sureact.config import BLOCK_SIZE, EngineConfig
from sureact.distributed.communicator import Communicator, connect, open_store
from sureact.distributed.shard import Shard
from sureact.distributed.worker_processes import WorkerProcesses
from sureact.errors import ConfigError, WorkerLostError
from sureact.execution.memory import CacheSize, KVShape, cache_size
from sureact.execution.settings import resolve_dtype, resolve_kv_cache_dtype, resolve_quantization
from sureact.execution.sharded_model import ShardedModel
from sureact.execution.sharded_runner import ShardedRunner
from sureact.kv_cache.storage import KVStorage
from sureact.models.registry import build_model
from sureact.weights.load_shard import load_shard, shard_config
from sureact.weights.model_config import ModelConfig, read_model_config
from sureact_kernels.linear import LinearWeight

TIMEOUT_S = 300.0
"""Longest that one process of a model waits for another; kernels that are compiled in a pass make it long."""

WORKER_MODULE = "sureact.execution.shard_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPart:
    """What one process has loaded."""

    config: ModelConfig
    """Sizes of the part."""
    tensors: dict[str, torch.Tensor | LinearWeight]
    device: torch.device
    cache_size: CacheSize
    """What fits here."""
    is_strict: bool

    def assemble(self, num_blocks: int, max_model_len: int, communicator: Communicator) -> ShardedModel:
        """Build the network and the cache, whose size all processes agreed on."""
        storage = KVStorage(
            num_layers=self.config.num_layers,
            num_blocks=num_blocks,
            num_kv_heads=self.config.num_kv_heads,
            block_size=BLOCK_SIZE,
            head_dim=self.config.head_dim,
            dtype=self.cache_size.dtype,
            device=self.device,
        )
        model = build_model(self.config, self.tensors, max_model_len)
        return ShardedModel(model, storage, communicator, block_size=BLOCK_SIZE, is_strict=self.is_strict)


def load_part(folder: Path, config: EngineConfig, shard: Shard, device: torch.device) -> ModelPart:
    """Load the part of one process.

    Raises:
        ConfigError: the model cannot be cut so, or not in this form of its matrices.
        SureactError: its files are damaged, or it does not fit.
    """
    whole = read_model_config(folder)
    part = shard_config(whole, shard)
    quantization = _quantization(config, device)
    dtype = resolve_dtype(config.dtype, quantization)
    tensors = load_shard(folder, whole, shard, dtype=dtype, quantization=quantization, device=device)
    shape = KVShape(
        num_layers=part.num_layers,
        num_kv_heads=part.num_kv_heads,
        head_dim=part.head_dim,
        max_position_embeddings=part.max_position_embeddings,
    )
    size = cache_size(config, resolve_kv_cache_dtype(config.kv_cache_dtype, dtype), device, shape)
    is_strict = config.determinism == "strict"
    return ModelPart(config=part, tensors=tensors, device=device, cache_size=size, is_strict=is_strict)


def start_sharded(
    folder: Path, config: EngineConfig, device: torch.device, num_threads: int
) -> tuple[ShardedRunner, CacheSize]:
    """Load a model over `config.tensor_parallel_size` processes, of which this is the first.

    Args:
        folder: holds the files of the model.
        config: settings.
        device: a CPU, which all share, or the first GPU; each process takes one.
        num_threads: CPU threads of all processes together.

    Raises:
        ConfigError: there are not so many GPUs, or see `load_part`.
        WorkerLostError: a process could not load its part.
        SureactError: this process could not.
    """
    num_ranks = config.tensor_parallel_size
    _require_devices(config, device)
    _quantization(config, device)
    shard_config(read_model_config(folder), Shard(0, num_ranks))
    shards = Shard(0, num_ranks).all()
    devices = [torch.device("cuda", rank) if device.type == "cuda" else device for rank in range(num_ranks)]
    threads = max(1, num_threads // num_ranks)
    workers = WorkerProcesses(
        WORKER_MODULE, num_ranks - 1, timeout_s=TIMEOUT_S, environment={"OMP_NUM_THREADS": str(threads)}
    )
    try:
        common = {"folder": str(folder), "config": asdict(config), "num_threads": threads, "timeout_s": TIMEOUT_S}
        orders = [common | {"shard": shards[rank], "device": str(devices[rank])} for rank in range(1, num_ranks)]
        workers.send_each([json.dumps(order).encode() for order in orders])
        torch.set_num_threads(threads)
        part = load_part(folder, config, shards[0], devices[0])
        size = _agreed(part.cache_size, _answers(workers))
        store, port = open_store(TIMEOUT_S)
        workers.send(
            json.dumps({"port": port, "num_blocks": size.num_blocks, "max_model_len": size.max_model_len}).encode()
        )
        model = part.assemble(size.num_blocks, size.max_model_len, connect(store, shards[0], devices[0], TIMEOUT_S))
        _answers(workers)
    except BaseException:
        workers.kill()
        raise
    return ShardedRunner(model, workers, block_size=BLOCK_SIZE, is_strict=part.is_strict), size


def _quantization(config: EngineConfig, device: torch.device) -> Literal["none", "int8"]:
    quantization = resolve_quantization(config.quantization, device)
    if quantization == "none" or quantization == "int8":
        return quantization
    raise ConfigError(
        f"quantization is {quantization!r} with tensor_parallel_size={config.tensor_parallel_size}; over several "
        "processes run none and int8."
    )


def _require_devices(config: EngineConfig, device: torch.device) -> None:
    num_ranks = config.tensor_parallel_size
    if not torch.distributed.is_available():
        raise ConfigError(f"tensor_parallel_size is {num_ranks}; this torch is built without torch.distributed. Use 1.")
    if device.type != "cuda":
        return
    if device != torch.device("cuda"):
        raise ConfigError(
            f"device is {config.device!r} with tensor_parallel_size={num_ranks}, which takes the first {num_ranks} "
            "GPUs. Use device='cuda'; CUDA_VISIBLE_DEVICES says which are first."
        )
    if torch.cuda.device_count() < num_ranks:
        raise ConfigError(
            f"tensor_parallel_size is {num_ranks}; this machine has {torch.cuda.device_count()} GPUs, and each process "
            "takes one."
        )


def _answers(workers: WorkerProcesses) -> list[dict[str, int]]:
    """Return what each worker answers, however long it loads."""
    answers = [json.loads(answer) for answer in workers.receive(waits_forever=True)]
    for rank, answer in enumerate(answers, start=1):
        if "error" in answer:
            raise WorkerLostError(f"Process {rank} of the model could not start: {answer['error']}")
    return answers


def _agreed(own: CacheSize, others: list[dict[str, int]]) -> CacheSize:
    """Return the smallest cache: its blocks stand for the same tokens everywhere."""
    num_blocks = min(own.num_blocks, *(other["num_blocks"] for other in others))
    block_bytes = own.num_bytes // own.num_blocks
    max_model_len = min(own.max_model_len, num_blocks * BLOCK_SIZE)
    return replace(own, num_blocks=num_blocks, num_bytes=num_blocks * block_bytes, max_model_len=max_model_len)
