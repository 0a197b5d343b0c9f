from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact_kernels import attention_plan
from sureact_kernels.attention_plan import (
    LONG_TILE_ROWS,
    MOST_QUERIES_TOGETHER,
    QUERY_TILE,
    SHORT_TILE_ROWS,
    AttentionPlan,
    Gathered,
    Tile,
    plan_attention,
)
from sureact_kernels.errors import KernelInputError

BLOCK_SIZE = 4


def plan_of(query_lens: Sequence[int], context_lens: Sequence[int], group: int = 3) -> AttentionPlan:
    """Plan sequences whose blocks lie one after another, with a gap of one block between sequences."""
    width = max(-(-length // BLOCK_SIZE) for length in context_lens) + 1
    tables = torch.arange(len(context_lens) * width).view(-1, width)
    return plan_attention(tables, query_lens, context_lens, block_size=BLOCK_SIZE, group=group)


def numbers(index: slice | torch.Tensor) -> list[int]:
    return list(range(index.start, index.stop)) if isinstance(index, slice) else index.tolist()


def tiles(plan: AttentionPlan) -> list[tuple[Gathered, Tile]]:
    return [(part, tile) for part in plan.parts for tile in part.tiles]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 70), st.integers(0, 90)), min_size=1, max_size=12))
def test_every_query_is_computed_once_and_sees_what_it_may(lengths: list[tuple[int, int]]) -> None:
    query_lens = [queries for queries, _ in lengths]
    context_lens = [queries + before for queries, before in lengths]
    plan = plan_of(query_lens, context_lens)
    limits = [c - q + i for q, c in zip(query_lens, context_lens, strict=True) for i in range(q)]
    computed: list[int] = []
    for part, tile in tiles(plan):
        rows = torch.tensor(numbers(tile.rows)).view(part.num_seqs, tile.num_queries)
        computed += numbers(tile.targets)
        num_before = tile.num_blocks - tile.hidden.shape[1]
        for sequence, queries in enumerate(rows.tolist()):
            of_sequence = tile.hidden[sequence].transpose(0, 2).squeeze(1)  # [num_rows, num_last_blocks, block_size]
            for index, row in enumerate(queries):
                hidden = of_sequence[min(index * plan.group, len(of_sequence) - 1)].flatten()
                visible = num_before * BLOCK_SIZE + int((hidden == 0).sum())
                assert visible == limits[row] + 1
    assert sorted(computed) == list(range(sum(query_lens)))


def test_a_long_stretch_is_cut_into_tiles_that_read_only_the_past() -> None:
    plan = plan_of([2 * QUERY_TILE + 1], [2 * QUERY_TILE + 1])
    assert [tile.num_queries for _, tile in tiles(plan)] == [QUERY_TILE, QUERY_TILE, 1]
    assert [tile.num_blocks for _, tile in tiles(plan)] == [8, 16, 17]


def test_short_stretches_of_about_one_length_share_a_product() -> None:
    plan = plan_of([1] * 5 + [3, 4, 2], [9, 10, 11, 12, 13, 16, 15, 14])
    assert [(part.num_seqs, part.tiles[0].num_queries) for part in plan.parts] == [(5, 1), (3, 4)]


def test_a_short_context_does_not_pay_for_a_long_one() -> None:
    plan = plan_of([1, 1], [4, 400])
    assert sorted(part.num_seqs * part.tiles[0].num_blocks for part in plan.parts) == [1, 100]


def test_what_is_read_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_plan, "_MOST_TOKENS_GATHERED", 2 * 16)
    plan = plan_of([1] * 5, [16] * 5)
    assert [part.num_seqs for part in plan.parts] == [2, 2, 1]


def test_blocks_and_rows_that_follow_each_other_are_slices() -> None:
    (part,) = plan_of([5], [18]).parts
    assert part.blocks == slice(0, 5)
    assert part.tiles[0].rows == slice(0, 5)
    (part,) = plan_of([1, 1], [5, 5]).parts
    assert numbers(part.blocks) == [0, 1, 3, 4]


@pytest.mark.parametrize(("query_lens", "context_lens"), [([0], [3]), ([4], [3]), ([1], [9]), ([1, 1], [3, 3])])
def test_lengths_that_do_not_fit_are_refused(query_lens: list[int], context_lens: list[int]) -> None:
    with pytest.raises(KernelInputError, match="plan_attention"):
        plan_attention(torch.zeros(1, 2, dtype=torch.int64), query_lens, context_lens, block_size=4, group=1)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 70), st.integers(0, 90)), max_size=12), st.sampled_from([1, 3, 7, 16, 20]))
def test_every_query_is_in_one_tile_of_a_gpu_kernel(lengths: list[tuple[int, int]], group: int) -> None:
    query_lens = [queries for queries, _ in lengths]
    context_lens = [queries + before for queries, before in lengths]
    tables = torch.zeros(len(lengths), 40, dtype=torch.int64)
    plan = plan_attention(tables, query_lens, context_lens, block_size=BLOCK_SIZE, group=group)
    seen: list[tuple[int, int, int]] = []  # row, sequence, position
    for some, is_short in ((plan.short_tiles, True), (plan.long_tiles, False)):
        num_before = 0
        for first_row, num_queries, sequence, from_end, before in some.tiles.tolist():
            assert (query_lens[sequence] <= MOST_QUERIES_TOGETHER) == is_short
            assert num_queries == 1 or num_queries * group <= (SHORT_TILE_ROWS if is_short else LONG_TILE_ROWS)
            assert before == num_before
            num_before += num_queries
            first = context_lens[sequence] - from_end
            seen += [(first_row + i, sequence, first + i) for i in range(num_queries)]
        assert some.num_queries == num_before
        assert some.most_queries == max((tile[1] for tile in some.tiles.tolist()), default=0)
        assert some.most_tokens == max((context_lens[tile[2]] for tile in some.tiles.tolist()), default=0)
    places = [(s, c - q + i) for s, (q, c) in enumerate(zip(query_lens, context_lens, strict=True)) for i in range(q)]
    assert sorted(seen) == [(row, *place) for row, place in enumerate(places)]
    assert plan.device_context_lens.dtype == torch.int32
    assert plan.device_context_lens.tolist() == context_lens
