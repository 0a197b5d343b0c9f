from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch

from sureact.config import BLOCK_SIZE as ENGINE_BLOCK_SIZE
from sureact_kernels.attention_plan import AttentionPlan, plan_attention
from sureact_kernels.testing import assert_close
from sureact_kernels.triton.paged_attention import AOT, paged_attention, takes

BLOCK_SIZE, SCALE = 16, 0.2
QUERY_LENS = (1, 17, 3, 1, 2, 1)
CONTEXT_LENS = (1, 265, 258, 523, 63, 256)
NUM_BLOCKS, MAX_BLOCKS = 90, 34
FP8 = torch.float8_e4m3fn


class Batch(NamedTuple):
    """Queries and caches of sequences, whose blocks are shuffled; the slots that hold no token are NaN."""

    q: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    tables: torch.Tensor

    @property
    def group(self) -> int:
        return self.q.shape[1] // self.keys.shape[2]


def batch(
    dtype: torch.dtype, heads: tuple[int, int] = (3, 1), *, head_dim: int = 64, cache_dtype: torch.dtype | None = None
) -> Batch:
    torch.manual_seed(0)
    num_q_heads, num_kv_heads = heads
    blocks = torch.randperm(NUM_BLOCKS).tolist()
    caches = torch.full((2, NUM_BLOCKS, BLOCK_SIZE, num_kv_heads, head_dim), torch.nan)
    tables = torch.full((len(CONTEXT_LENS), MAX_BLOCKS), NUM_BLOCKS - 1)
    for row, length in enumerate(CONTEXT_LENS):
        for start in range(0, length, BLOCK_SIZE):
            block = blocks.pop()
            tables[row, start // BLOCK_SIZE] = block
            caches[:, block, : length - start].normal_()
    q = torch.randn(sum(QUERY_LENS), num_q_heads, head_dim).to(dtype)
    keys, values = caches.to(cache_dtype or dtype)
    return Batch(q, keys, values, tables)


def plan_of(some: Batch, query_lens: Sequence[int], context_lens: Sequence[int]) -> AttentionPlan:
    return plan_attention(some.tables, query_lens, context_lens, block_size=BLOCK_SIZE, group=some.group)


def attend(
    some: Batch,
    query_lens: Sequence[int] = QUERY_LENS,
    context_lens: Sequence[int] = CONTEXT_LENS,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    return paged_attention(
        some.q, some.keys, some.values, plan_of(some, query_lens, context_lens), SCALE, keys_scale, values_scale
    )


def exact(some: Batch, keys_scale: float = 1.0, values_scale: float = 1.0) -> torch.Tensor:
    """Causal attention by torch in float64, sequence after sequence."""
    outs: list[torch.Tensor] = []
    start = 0
    for table, query_len, context_len in zip(some.tables, QUERY_LENS, CONTEXT_LENS, strict=True):
        k, v = (
            c.double()[table].flatten(0, 1)[:context_len].transpose(0, 1).repeat_interleave(some.group, 0)
            for c in (some.keys, some.values)
        )
        mask = torch.ones(query_len, context_len).tril(context_len - query_len).bool()
        rows = some.q[start : start + query_len].double().transpose(0, 1)
        out = torch.nn.functional.scaled_dot_product_attention(
            rows, k * keys_scale, v * values_scale, mask, scale=SCALE
        )
        outs.append(out.transpose(0, 1))
        start += query_len
    return torch.cat(outs)


@pytest.fixture(autouse=True)
def memory_is_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a kernel leaves unwritten, or reads before it is written, is seen."""
    empty = torch.empty

    def nan(*args: Any, **options: Any) -> torch.Tensor:
        return empty(*args, **options).fill_(torch.nan)

    monkeypatch.setattr("sureact_kernels.triton.paged_attention.torch.empty", nan)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    ("heads", "head_dim"), [((6, 2), 64), ((7, 1), 80), ((2, 2), 96), ((4, 1), 128), ((2, 1), 256)]
)
def test_equals_causal_attention_in_float64(heads: tuple[int, int], head_dim: int, dtype: torch.dtype) -> None:
    some = batch(dtype, heads, head_dim=head_dim)
    assert takes(*some[:3])
    assert_close(attend(some), exact(some), dtype)


@pytest.mark.parametrize("num_q_heads", [1, 20])
def test_heads_of_any_group_are_served(num_q_heads: int) -> None:
    some = batch(torch.float32, (num_q_heads, 1))
    assert_close(attend(some), exact(some), torch.float32)


@pytest.mark.parametrize("cache_dtype", [torch.bfloat16, torch.float16])
def test_float32_queries_read_a_narrower_cache(cache_dtype: torch.dtype) -> None:
    some = batch(torch.float32, cache_dtype=cache_dtype)
    assert takes(*some[:3])
    assert_close(attend(some), exact(some), torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_cache_of_e4m3_is_read_exactly_and_scaled(dtype: torch.dtype) -> None:
    some = batch(dtype, cache_dtype=FP8)
    assert takes(*some[:3])
    out = attend(some, keys_scale=0.75, values_scale=3.5)
    assert_close(out, exact(some, keys_scale=0.75, values_scale=3.5), dtype)


@pytest.mark.parametrize("large", [1e4, 3e8])
def test_scores_of_any_size_are_served(large: float) -> None:
    some = batch(torch.float32, cache_dtype=torch.bfloat16)
    some.keys[some.tables[3, 20]] *= large
    some.keys[some.tables[1, 3]] *= large
    assert_close(attend(some), exact(some), torch.float32)


def test_queries_and_caches_may_be_parts_of_larger_tensors() -> None:
    some = batch(torch.bfloat16, (6, 2))
    whole = torch.randn(len(some.q), 11, 64, dtype=torch.bfloat16)
    whole[:, 2:8] = some.q
    cache = torch.stack((some.keys, some.values), dim=3)  # keys and values of a token side by side
    moved = some._replace(q=whole[:, 2:8], keys=cache[:, :, :, 0], values=cache[:, :, :, 1])
    assert not any(part.is_contiguous() for part in moved[:3])
    assert takes(*moved[:3])
    assert torch.equal(attend(moved), attend(some))


def test_no_sequence_needs_no_launch() -> None:
    some = batch(torch.bfloat16)
    none = some._replace(q=some.q[:0], tables=some.tables[:0])
    assert attend(none, (), ()).shape == (0, 3, 64)


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered:RuntimeWarning")  # the interpreter's maximum of a row
def test_a_sequence_that_is_damaged_leaves_the_others_alone() -> None:
    some = batch(torch.bfloat16)
    whole = attend(some)
    some.q[0] = torch.nan
    damaged = attend(some)
    assert damaged[0].isnan().all()
    assert torch.equal(damaged[1:], whole[1:])


@pytest.mark.parametrize(
    ("dtype", "cache_dtype", "heads"),
    [
        (torch.float32, torch.float32, (3, 1)),
        (torch.bfloat16, torch.bfloat16, (7, 1)),
        (torch.bfloat16, FP8, (4, 1)),
    ],
)
def test_each_token_has_the_bits_that_it_gets_alone(
    dtype: torch.dtype, cache_dtype: torch.dtype, heads: tuple[int, int]
) -> None:
    """Decoded alone, in a batch, in a draft of several queries, and within a chunk of a prompt."""
    some = batch(dtype, heads, cache_dtype=cache_dtype)
    out = attend(some)
    start = 0
    for row, (query_len, context_len) in enumerate(zip(QUERY_LENS, CONTEXT_LENS, strict=True)):
        for i in range(query_len):
            token = slice(start + i, start + i + 1)
            alone = some._replace(q=some.q[token], tables=some.tables[row : row + 1])
            assert torch.equal(attend(alone, [1], [context_len - query_len + i + 1]), out[token]), (row, i)
        start += query_len


@pytest.mark.parametrize("num_seqs", [2, 17])
def test_a_sequence_has_the_same_bits_in_a_batch_of_any_size(num_seqs: int) -> None:
    some = batch(torch.bfloat16)
    other = some._replace(q=some.q[:1].repeat(num_seqs, 1, 1), tables=some.tables[1:2].repeat(num_seqs, 1))
    out = attend(other, [1] * num_seqs, [265] + [17] * (num_seqs - 1))
    alone = attend(other._replace(q=other.q[:1], tables=other.tables[:1]), [1], [265])
    assert torch.equal(out[:1], alone)


def test_what_this_version_does_not_compute_is_left_to_the_reference() -> None:
    q, keys, values, _ = batch(torch.bfloat16)
    assert takes(q, keys, values)
    assert not takes(q, keys.half(), values.half())
    assert not takes(q, keys, values.half())
    assert not takes(q.double(), keys.double(), values.double())
    assert not takes(q[..., ::2], keys[..., ::2], values[..., ::2])
    assert not takes(*(part[..., :60] for part in (q, keys, values)))
    assert not takes(q.repeat(1, 1, 5), keys.repeat(1, 1, 1, 5), values.repeat(1, 1, 1, 5))
    assert not takes(q.repeat(1, 33, 1), keys, values)


def test_what_the_engine_launches_is_compiled_ahead_of_time() -> None:
    """Blocks of its size, the groups of the models, and both caches beside either dtype of the queries."""
    attending = [case for case in AOT if "BLOCK_SIZE" in case.constexprs]
    assert {case.constexprs["BLOCK_SIZE"] for case in attending} == {ENGINE_BLOCK_SIZE}
    assert {case.constexprs["GROUP"] for case in attending} >= {2, 5, 7, 8, 16}
    types = {(case.signature["q_ptr"], case.signature["keys_ptr"]) for case in attending}
    assert types == {("*bf16", "*bf16"), ("*bf16", "*u8"), ("*fp32", "*fp32"), ("*fp32", "*u8")}


def test_a_block_has_the_same_tokens_in_decoding_and_in_a_prompt() -> None:
    """They are part of the order of sums."""
    tokens: dict[tuple[str, int], set[int]] = {}
    for case in AOT:
        if "BLOCK_TOKENS" in case.constexprs:
            key = (case.signature["q_ptr"], case.constexprs["HEAD_DIM"])
            tokens.setdefault(key, set()).add(case.constexprs["BLOCK_TOKENS"])
    assert len(tokens) == 6
    assert all(len(some) == 1 for some in tokens.values())
