import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.testing import assert_close

BLOCK_SIZE, HEAD_DIM = 16, 24
CONTEXT_LENS = (1, 15, 16, 17, 63, 123)


def exact_attention(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float) -> torch.Tensor:
    """One token's heads `[num_q_heads, head_dim]` over `[num_kv_heads, context_len, head_dim]`, in float64."""
    group = q.shape[0] // keys.shape[0]
    keys, values = (t.double().repeat_interleave(group, 0) for t in (keys, values))
    scores = (keys @ q.double().unsqueeze(-1)).squeeze(-1) * scale
    return (scores.softmax(-1).unsqueeze(1) @ values).squeeze(1)


def cache_of(
    num_kv_heads: int, dtype: torch.dtype, num_blocks: int = 40
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Keys, values, and a table of shuffled blocks per context length, padded with block 0."""
    shape = (num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_DIM)
    blocks = torch.randperm(num_blocks).tolist()
    tables = torch.zeros(len(CONTEXT_LENS), 8, dtype=torch.int64)
    for row, length in enumerate(CONTEXT_LENS):
        for i in range(-(-length // BLOCK_SIZE)):
            tables[row, i] = blocks.pop()
    return torch.randn(shape).to(dtype), torch.randn(shape).to(dtype), tables


def contiguous(cache: torch.Tensor, table: torch.Tensor, length: int) -> torch.Tensor:
    return cache[table].flatten(0, 1)[:length].transpose(0, 1)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize(("num_q_heads", "num_kv_heads"), [(4, 4), (14, 2), (3, 1)])
def test_equals_attention_in_float64(num_q_heads: int, num_kv_heads: int, dtype: torch.dtype) -> None:
    keys, values, tables = cache_of(num_kv_heads, dtype)
    q = torch.randn(len(CONTEXT_LENS), num_q_heads, HEAD_DIM).to(dtype)
    out = paged_attention(q, keys, values, tables, CONTEXT_LENS, 0.2)
    for row, length in enumerate(CONTEXT_LENS):
        k, v = (contiguous(cache, tables[row], length) for cache in (keys, values))
        exact = exact_attention(q[row], k, v, 0.2)
        assert_close(out[row], exact, dtype)


def test_a_sequence_has_the_same_bits_alone_and_beside_longer_ones() -> None:
    keys, values, tables = cache_of(2, torch.bfloat16)
    q = torch.randn(len(CONTEXT_LENS), 14, HEAD_DIM).bfloat16()
    together = paged_attention(q, keys, values, tables, CONTEXT_LENS, 0.2)
    for row, length in enumerate(CONTEXT_LENS):
        table = tables[row : row + 1, : -(-length // BLOCK_SIZE)]
        alone = paged_attention(q[row : row + 1], keys, values, table, [length], 0.2)
        assert torch.equal(alone, together[row : row + 1])


def test_lengths_of_other_sequences_are_refused() -> None:
    keys, values, tables = cache_of(2, torch.float32)
    with pytest.raises(KernelInputError, match="block_tables"):
        paged_attention(torch.randn(6, 2, HEAD_DIM), keys, values, tables, [1], 0.2)
