from typing import Any

import pytest
import torch

from sureact.kv_cache.storage import KVStorage

SIZES: Any = {"num_layers": 3, "num_kv_heads": 2, "block_size": 4, "head_dim": 8}


DTYPES = [torch.float32, torch.bfloat16, torch.float8_e4m3fn]


@pytest.mark.parametrize("dtype", DTYPES)
def test_unused_slots_are_finite_since_attention_multiplies_them_by_zero(dtype: torch.dtype) -> None:
    storage = KVStorage(num_blocks=5, device=torch.device("cpu"), dtype=dtype, **SIZES)
    assert {tensor.dtype for layer in storage.layers for tensor in layer} == {dtype}
    assert all((tensor.float() == 0).all() for layer in storage.layers for tensor in layer)


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_per_block_are_those_of_the_tensors(dtype: torch.dtype) -> None:
    storage = KVStorage(num_blocks=5, device=torch.device("cpu"), dtype=dtype, **SIZES)
    total = sum(tensor.nbytes for layer in storage.layers for tensor in layer)
    assert KVStorage.bytes_per_block(dtype=dtype, **SIZES) * 5 == total
