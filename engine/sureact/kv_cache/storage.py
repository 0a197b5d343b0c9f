"""The tensors that hold keys and values."""

import math

import numpy as np
import torch


class KVStorage:
    """Keys and values of every layer, `[num_blocks, block_size, num_kv_heads, head_dim]` each."""

    def __init__(
        self,
        *,
        num_layers: int,
        num_blocks: int,
        num_kv_heads: int,
        block_size: int,
        head_dim: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """Reserve the memory; on a CPU the system commits it only as blocks are written."""
        shape = (num_blocks, block_size, num_kv_heads, head_dim)
        self.layers = [(_zeros(shape, dtype, device), _zeros(shape, dtype, device)) for _ in range(num_layers)]

    @staticmethod
    def bytes_per_block(
        *, num_layers: int, num_kv_heads: int, block_size: int, head_dim: int, dtype: torch.dtype
    ) -> int:
        """Bytes of one block over all layers."""
        return 2 * num_layers * num_kv_heads * block_size * head_dim * dtype.itemsize


def _zeros(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Return zeros, since attention multiplies unused slots by 0, and 0 times NaN is NaN.

    On a CPU numpy asks the system for pages that are zero without being written; torch would write them all.
    """
    if device.type != "cpu":
        return torch.zeros(shape, dtype=dtype, device=device)
    num_bytes = math.prod(shape) * dtype.itemsize
    return torch.from_numpy(np.zeros(num_bytes, dtype=np.uint8)).view(dtype).view(shape)
