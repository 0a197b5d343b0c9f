import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.errors import KernelInputError
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.prefill_attention import prefill_attention
from sureact_kernels.testing import assert_close

BLOCK_SIZE, HEAD_DIM, NUM_Q_HEADS, NUM_KV_HEADS, SCALE = 16, 24, 6, 2, 0.2
QUERY_LENS, CONTEXT_LENS = (1, 63, 5, 300, 130), (40, 63, 128, 310, 131)


def batch(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    shape = (60, BLOCK_SIZE, NUM_KV_HEADS, HEAD_DIM)
    blocks = torch.randperm(60).tolist()
    tables = torch.zeros(len(CONTEXT_LENS), 20, dtype=torch.int64)
    for row, length in enumerate(CONTEXT_LENS):
        for i in range(-(-length // BLOCK_SIZE)):
            tables[row, i] = blocks.pop()
    q = torch.randn(sum(QUERY_LENS), NUM_Q_HEADS, HEAD_DIM).to(dtype)
    return q, torch.randn(shape).to(dtype), torch.randn(shape).to(dtype), tables


def exact(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, tables: torch.Tensor, visible_offset: int = 0
) -> torch.Tensor:
    """Causal attention by torch in float64, sequence after sequence."""
    outs: list[torch.Tensor] = []
    start = 0
    for table, query_len, context_len in zip(tables, QUERY_LENS, CONTEXT_LENS, strict=True):
        k, v = (
            c[table].flatten(0, 1)[:context_len].transpose(0, 1).double().repeat_interleave(3, 0)
            for c in (keys, values)
        )
        mask = torch.ones(query_len, context_len).tril(context_len - query_len + visible_offset).bool()
        rows = q[start : start + query_len].double().transpose(0, 1)
        outs.append(torch.nn.functional.scaled_dot_product_attention(rows, k, v, mask, scale=SCALE).transpose(0, 1))
        start += query_len
    return torch.cat(outs)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("invariant", [True, False])
def test_equals_causal_attention_in_float64(dtype: torch.dtype, invariant: bool) -> None:
    q, keys, values, tables = batch(dtype)
    out = prefill_attention(q, keys, values, tables, QUERY_LENS, CONTEXT_LENS, SCALE, invariant=invariant)
    assert_close(out, exact(q, keys, values, tables), dtype)


def test_each_token_has_the_bits_that_decoding_it_alone_gives() -> None:
    q, keys, values, tables = batch(torch.bfloat16)
    out = prefill_attention(q, keys, values, tables, QUERY_LENS, CONTEXT_LENS, SCALE)
    start = 0
    for table, query_len, context_len in zip(tables, QUERY_LENS, CONTEXT_LENS, strict=True):
        for i in range(query_len):
            length = context_len - query_len + i + 1
            blocks = table[None, : -(-length // BLOCK_SIZE)]
            row = q[start + i : start + i + 1]
            alone = paged_attention(row, keys, values, blocks, [length], SCALE)
            assert torch.equal(alone, out[start + i : start + i + 1]), (start, i)
        start += query_len


def test_lengths_that_do_not_add_up_are_refused() -> None:
    q, keys, values, tables = batch(torch.float32)
    with pytest.raises(KernelInputError, match="q has shape"):
        prefill_attention(q[1:], keys, values, tables, QUERY_LENS, CONTEXT_LENS, SCALE)
