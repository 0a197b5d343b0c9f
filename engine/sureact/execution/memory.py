"""How much memory weights and cache may take, and errors with numbers when it is too little."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from sureact.config import BLOCK_SIZE, EngineConfig, Quantization
from sureact.errors import ConfigError, OutOfMemoryError
from sureact.kv_cache.storage import KVStorage
from sureact.weights.checkpoint import Checkpoint

BITS_PER_WEIGHT = {"int8": 8, "int4": 5, "fp8": 8}
"""Bits a weight takes; int4 with its scale and zero per group of 32."""

GIGABYTE = 10**9


class KVShape(NamedTuple):
    """What the size of the cache depends on."""

    num_layers: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int


@dataclass(frozen=True, slots=True)
class CacheSize:
    """The cache that fits."""

    num_blocks: int
    num_bytes: int
    max_model_len: int
    dtype: torch.dtype


def free_bytes(device: torch.device) -> int:
    """Return the memory that is free on `device`."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        import psutil
    except ImportError:  # a bare machine; what Linux says counts no file cache as free, so that it is less
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return psutil.virtual_memory().available


def weight_bytes(folder: Path, quantization: Quantization, dtype: torch.dtype) -> int:
    """Estimate the memory that the weights of a checkpoint take once loaded.

    Raises:
        CheckpointError: the files cannot be read.
    """
    checkpoint = Checkpoint(folder)
    num_weights = sum(math.prod(checkpoint.shape(name)) for name in checkpoint.names)
    bits = 8 * dtype.itemsize if quantization == "none" else BITS_PER_WEIGHT[quantization]
    return num_weights * bits // 8


def cache_size(config: EngineConfig, dtype: torch.dtype, device: torch.device, shape: KVShape) -> CacheSize:
    """Size the cache after the weights are loaded.

    Args:
        config: settings.
        dtype: of the cache.
        device: where the cache lies.
        shape: of the model.

    Raises:
        ConfigError: `max_model_len` is longer than the model's own, or does not fit into `kv_cache_gb`; or `dtype` is
            not the one that was asked for, because this model has no other.
        OutOfMemoryError: not even one block fits.
    """
    if config.kv_cache_dtype == "float8_e4m3" and dtype != torch.float8_e4m3fn:
        raise ConfigError(
            "kv_cache_dtype is 'float8_e4m3'; a model that runs in transformers keeps keys and values in "
            f"{str(dtype).removeprefix('torch.')}. Use kv_cache_dtype='auto'."
        )
    block_bytes = KVStorage.bytes_per_block(
        num_layers=shape.num_layers,
        num_kv_heads=shape.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=shape.head_dim,
        dtype=dtype,
    )
    longest = shape.max_position_embeddings
    if config.max_model_len is not None and config.max_model_len > longest:
        raise ConfigError(f"max_model_len is {config.max_model_len:,}; the model was trained for {longest:,} tokens.")
    wanted_len = config.max_model_len or longest
    blocks_per_context = -(-wanted_len // BLOCK_SIZE)
    if config.kv_cache_gb is not None:
        budget = int(config.kv_cache_gb * GIGABYTE)
        if budget > free_bytes(device):
            raise OutOfMemoryError(
                f"kv_cache_gb={config.kv_cache_gb} is more than the {free_bytes(device) / GIGABYTE:.1f} GB that are "
                f"free on {device}. Lower it, or leave it out."
            )
    else:
        share = 0.9 if device.type == "cuda" else 0.25
        budget = min(int(free_bytes(device) * share), blocks_per_context * 16 * block_bytes)
    num_blocks = budget // block_bytes
    if num_blocks < 1:
        raise OutOfMemoryError(
            f"The KV cache may take {budget / GIGABYTE:.3g} GB; one block of {BLOCK_SIZE} tokens needs "
            f"{block_bytes / GIGABYTE:.3g} GB. Raise kv_cache_gb."
        )
    if num_blocks < blocks_per_context and config.max_model_len is not None:
        raise ConfigError(
            f"max_model_len={config.max_model_len:,} needs {blocks_per_context * block_bytes / GIGABYTE:.2f} GB of KV "
            f"cache; {budget / GIGABYTE:.2f} GB are given. Lower max_model_len or raise kv_cache_gb."
        )
    return CacheSize(num_blocks, num_blocks * block_bytes, min(wanted_len, num_blocks * BLOCK_SIZE), dtype)
