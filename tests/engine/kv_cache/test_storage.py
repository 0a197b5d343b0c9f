from typing import Any

import torch

from sureact.kv_cache.storage import KVStorage

SIZES: Any = {"num_layers": 3, "num_kv_heads": 2, "block_size": 4, "head_dim": 8, "dtype": torch.bfloat16}


def test_unused_slots_are_finite_since_attention_multiplies_them_by_zero() -> None:
    storage = KVStorage(num_blocks=5, device=torch.device("cpu"), **SIZES)
    assert all(tensor.isfinite().all() for layer in storage.layers for tensor in layer)


def test_bytes_per_block_are_those_of_the_tensors() -> None:
    storage = KVStorage(num_blocks=5, device=torch.device("cpu"), **SIZES)
    total = sum(tensor.nbytes for layer in storage.layers for tensor in layer)
    assert KVStorage.bytes_per_block(**SIZES) * 5 == total
