from collections.abc import Sequence

import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.errors import KernelInputError
from sureact_kernels.paged_attention import paged_attention
from sureact_kernels.testing import assert_close

BLOCK_SIZE, SCALE = 16, 0.25
HEAD_DIMS = (24, 64, 80, 128)
QUERY_LENS = (1, 63, 5, 300, 1, 130, 2, 1, 16, 3)
CONTEXT_LENS = (40, 63, 128, 310, 1, 131, 17, 16, 200, 60)
NUM_BLOCKS, MAX_BLOCKS = 90, 20

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def batch(
    dtype: torch.dtype,
    num_q_heads: int = 6,
    num_kv_heads: int = 2,
    *,
    head_dim: int = 24,
    cache_dtype: torch.dtype | None = None,
) -> Batch:
    """Queries, keys, values, and a table of shuffled blocks per sequence, padded with block 0."""
    shape = (NUM_BLOCKS, BLOCK_SIZE, num_kv_heads, head_dim)
    blocks = torch.randperm(NUM_BLOCKS).tolist()
    tables = torch.zeros(len(CONTEXT_LENS), MAX_BLOCKS, dtype=torch.int64)
    for row, length in enumerate(CONTEXT_LENS):
        for i in range(-(-length // BLOCK_SIZE)):
            tables[row, i] = blocks.pop()
    q = torch.randn(sum(QUERY_LENS), num_q_heads, head_dim).to(dtype)
    return q, torch.randn(shape).to(cache_dtype or dtype), torch.randn(shape).to(cache_dtype or dtype), tables


def attend(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    tables: torch.Tensor,
    query_lens: Sequence[int] = QUERY_LENS,
    context_lens: Sequence[int] = CONTEXT_LENS,
    **scales: float,
) -> torch.Tensor:
    group = q.shape[1] // keys.shape[2]
    plan = plan_attention(tables, query_lens, context_lens, block_size=BLOCK_SIZE, group=group)
    return paged_attention(q, keys, values, plan, SCALE, **scales)


def exact(q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """Causal attention by torch in float64, sequence after sequence."""
    outs: list[torch.Tensor] = []
    start, group = 0, q.shape[1] // keys.shape[2]
    for table, query_len, context_len in zip(tables, QUERY_LENS, CONTEXT_LENS, strict=True):
        k, v = (
            c[table].flatten(0, 1)[:context_len].transpose(0, 1).double().repeat_interleave(group, 0)
            for c in (keys, values)
        )
        mask = torch.ones(query_len, context_len).tril(context_len - query_len).bool()
        rows = q[start : start + query_len].double().transpose(0, 1)
        outs.append(torch.nn.functional.scaled_dot_product_attention(rows, k, v, mask, scale=SCALE).transpose(0, 1))
        start += query_len
    return torch.cat(outs)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize(("num_q_heads", "num_kv_heads"), [(4, 4), (14, 2), (3, 1)])
def test_equals_causal_attention_in_float64(num_q_heads: int, num_kv_heads: int, dtype: torch.dtype) -> None:
    q, keys, values, tables = batch(dtype, num_q_heads, num_kv_heads)
    assert_close(attend(q, keys, values, tables), exact(q, keys, values, tables), dtype)


@pytest.mark.parametrize("head_dim", HEAD_DIMS)
@pytest.mark.parametrize(("num_q_heads", "num_kv_heads"), [(4, 4), (14, 2), (3, 1), (20, 1)])
def test_float32_queries_read_a_bfloat16_cache(num_q_heads: int, num_kv_heads: int, head_dim: int) -> None:
    q, keys, values, tables = batch(
        torch.float32, num_q_heads, num_kv_heads, head_dim=head_dim, cache_dtype=torch.bfloat16
    )
    assert_close(attend(q, keys, values, tables), exact(q, keys, values, tables), torch.float32)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("num_q_heads", [2, 14])
def test_a_cache_in_e4m3_is_multiplied_by_its_scales(num_q_heads: int, dtype: torch.dtype) -> None:
    q, keys, values, tables = batch(dtype, num_q_heads, head_dim=64, cache_dtype=torch.float8_e4m3fn)
    out = attend(q, keys, values, tables, keys_scale=0.37, values_scale=3.5)
    assert_close(out, exact(q, keys.double() * 0.37, values.double() * 3.5, tables), dtype)


def test_without_scales_a_cache_in_e4m3_gives_the_bits_of_the_same_numbers_in_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_version(*_: object) -> None: ...

    monkeypatch.setattr("sureact_kernels.paged_attention.version_of", no_version)
    q, keys, values, tables = batch(torch.float32, head_dim=64, cache_dtype=torch.float8_e4m3fn)
    assert torch.equal(attend(q, keys, values, tables), attend(q, keys.bfloat16(), values.bfloat16(), tables))


def test_a_scale_beside_a_cache_that_is_not_scaled_is_refused() -> None:
    with pytest.raises(KernelInputError, match=r"keys_scale is 2\.0 and values_scale 1\.0 .* torch\.bfloat16"):
        attend(*batch(torch.bfloat16), keys_scale=2.0)


@pytest.mark.parametrize("large", [1e4, 3e8])
def test_scores_of_any_size_are_served(large: float) -> None:
    """The largest exponent is taken off first; a block whose scores are all far below the others counts as zero.

    Small whole numbers make the large scores exact: float32 would round them by more than exponentials can bear.
    """
    q, keys, values, tables = batch(torch.float32, head_dim=64, cache_dtype=torch.bfloat16)
    q = (q * 2).round().clamp(-3, 3)
    keys[tables[3, 2]] = (keys[tables[3, 2]] * 2).round().clamp(-3, 3) * large
    out = attend(q, keys, values, tables)
    assert_close(out, exact(q, keys, values, tables), torch.float32)


def test_a_sequence_that_is_damaged_leaves_the_others_alone() -> None:
    q, keys, values, tables = batch(torch.float32, head_dim=64, cache_dtype=torch.bfloat16)
    whole = attend(q, keys, values, tables)
    q[3] = torch.nan
    damaged = attend(q, keys, values, tables)
    assert damaged[3].isnan().all()
    others = torch.arange(len(q)) != 3
    assert torch.equal(damaged[others], whole[others])


@pytest.mark.parametrize(
    ("dtype", "cache_dtype", "head_dim"),
    [
        (torch.float32, torch.float32, 24),
        (torch.bfloat16, torch.bfloat16, 24),
        (torch.float32, torch.bfloat16, 64),
        (torch.float32, torch.bfloat16, 80),
        (torch.float32, torch.float8_e4m3fn, 64),
        (torch.bfloat16, torch.float8_e4m3fn, 64),
    ],
)
@pytest.mark.parametrize(("num_q_heads", "num_kv_heads"), [(6, 2), (14, 2)])
def test_each_token_has_the_bits_that_it_gets_alone(
    num_q_heads: int, num_kv_heads: int, dtype: torch.dtype, cache_dtype: torch.dtype, head_dim: int
) -> None:
    q, keys, values, tables = batch(dtype, num_q_heads, num_kv_heads, head_dim=head_dim, cache_dtype=cache_dtype)
    out = attend(q, keys, values, tables)
    start = 0
    for table, query_len, context_len in zip(tables, QUERY_LENS, CONTEXT_LENS, strict=True):
        for i in range(query_len):
            length = context_len - query_len + i + 1
            blocks = table[None, : -(-length // BLOCK_SIZE)]
            alone = attend(q[start + i : start + i + 1], keys, values, blocks, [1], [length])
            assert torch.equal(alone, out[start + i : start + i + 1]), (start, i)
        start += query_len


@pytest.mark.parametrize("cache_dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("query_len", [1, 2, 3, 4, 7, 8])
def test_sequences_have_the_bits_that_they_get_alone(query_len: int, cache_dtype: torch.dtype) -> None:
    q, keys, values, tables = batch(torch.float32, head_dim=64, cache_dtype=cache_dtype)
    lens = [length for length in CONTEXT_LENS if length >= query_len]
    rows = [row for row, length in enumerate(CONTEXT_LENS) if length >= query_len]
    q = q[: query_len * len(lens)]
    together = attend(q, keys, values, tables[rows], [query_len] * len(lens), lens)
    for i, length in enumerate(lens):
        part = slice(i * query_len, (i + 1) * query_len)
        assert torch.equal(
            attend(q[part], keys, values, tables[rows][i : i + 1], [query_len], [length]), together[part]
        )


def test_blocks_that_follow_each_other_are_read_without_a_copy_and_give_the_same_bits() -> None:
    q, keys, values, tables = batch(torch.bfloat16)
    table, length = tables[3:4], CONTEXT_LENS[3]
    num_blocks = -(-length // BLOCK_SIZE)
    ordered = torch.arange(num_blocks)[None]
    moved_keys, moved_values = (cache.index_select(0, table[0, :num_blocks]) for cache in (keys, values))
    scattered = attend(q[:5], keys, values, table, [5], [length])
    assert torch.equal(attend(q[:5], moved_keys, moved_values, ordered, [5], [length]), scattered)


def test_queries_of_other_sequences_are_refused() -> None:
    q, keys, values, tables = batch(torch.float32)
    with pytest.raises(KernelInputError, match="q has shape"):
        attend(q[1:], keys, values, tables)
