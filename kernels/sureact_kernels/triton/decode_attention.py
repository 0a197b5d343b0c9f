# pyright: basic
"""Attention of few queries over long contexts: each split of a context by a program of its own, then one merge.

`attend_split` and `merge_split` are also what `prefill_attention` is made of: a query's sums run over the tokens of a
split, and over the splits, in the same order in both. A split is a fixed number of tokens, never a fixed number of
splits, so that the order depends on nothing but a token's position.
"""

import triton
import triton.language as tl

from sureact_kernels.triton.interpreter import IS_INTERPRETED

SPLIT_TOKENS = 256
"""Tokens that one program attends to."""


@triton.jit
def load_tile(
    q_ptr, tile_ptr, context_lens_ptr, kv_head, q_stride_row, q_stride_head,
    GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr,
):  # fmt: skip
    """Return a tile's queries, how many tokens each sees, how many its last one sees, and its sequence.

    A row is a query and one of its heads: row // GROUP, row % GROUP. Rows beyond the tile's are zeros, and see token 0.
    """
    first_row = tl.load(tile_ptr)
    num_queries = tl.load(tile_ptr + 1)
    sequence = tl.load(tile_ptr + 2)
    first_visible = tl.load(context_lens_ptr + sequence) - tl.load(tile_ptr + 3) + 1
    rows = tl.arange(0, BLOCK_ROWS)
    dims = tl.arange(0, BLOCK_DIM)
    is_row = rows < num_queries * GROUP
    offsets = (first_row + rows // GROUP).to(tl.int64) * q_stride_row
    offsets += (kv_head * GROUP + rows % GROUP) * q_stride_head
    q = tl.load(q_ptr + offsets[:, None] + dims[None, :], mask=is_row[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
    visible = tl.where(is_row, first_visible + rows // GROUP, 1)
    return q, visible, first_visible + num_queries - 1, sequence.to(tl.int64)


@triton.jit
def widen(x, dtype: tl.constexpr):
    """Return `x` as `dtype`; bytes are e4m3 numbers, returned as 1/256 of them.

    Their bits, shifted, are those of a float16 whose exponent is less by 8: exact, subnormal ones too, and without the
    instructions for e4m3 that an A100 lacks. NaN stays NaN, so that what is damaged shows.
    """
    if x.dtype == tl.uint8:
        bits = x.to(tl.uint16)
        half = ((bits & 0x80) << 8) | ((bits & 0x7F) << 7)
        half = tl.where((bits & 0x7F) == 0x7F, 0x7E00, half).to(tl.uint16)
        x = half.to(tl.float16, bitcast=True).to(tl.float32)
    return x.to(dtype)


@triton.jit
def _dot(a, b, sums):
    """Return `sums + a @ b` in float32."""
    if IS_INTERPRETED:
        return sums + tl.dot(a.to(tl.float64), b.to(tl.float64), out_dtype=tl.float64).to(tl.float32)
    return tl.dot(a, b, sums, input_precision="ieee")


@triton.jit
def attend_split(
    q, visible, first, last, table_ptr, keys_ptr, values_ptr, score_scale,
    keys_stride_block, keys_stride_slot, values_stride_block, values_stride_slot,
    BLOCK_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK_TOKENS: tl.constexpr,
):  # fmt: skip
    """Attend from rows `q` to the tokens from `first` to before `last`, of which each row sees those before `visible`.

    Returns each row's largest score (times log2(e)), the sum of its weights, and its weighted sum of values. Tokens
    that a row does not see add exact zeros, so that its bits do not depend on what the tile's other rows see.
    """
    dims = tl.arange(0, BLOCK_DIM)
    peak = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    # Weights are summed by a product with ones, its columns all equal: the order of its sums is that of a row alone
    # whatever the number of rows, while that of `tl.sum` follows the threads that the rows are dealt to.
    ones = tl.full([BLOCK_TOKENS, 16], 1.0, q.dtype)
    totals = tl.zeros([BLOCK_ROWS, 16], tl.float32)
    sums = tl.zeros([BLOCK_ROWS, BLOCK_DIM], tl.float32)
    for start in range(first, last, BLOCK_TOKENS):
        tokens = start + tl.arange(0, BLOCK_TOKENS)
        is_token = tokens < last
        blocks = tl.load(table_ptr + tokens // BLOCK_SIZE, mask=is_token, other=0)
        slots = tokens % BLOCK_SIZE
        is_there = is_token[:, None] & (dims < HEAD_DIM)[None, :]
        key_offsets = (blocks * keys_stride_block + slots * keys_stride_slot)[:, None] + dims[None, :]
        keys = widen(tl.load(keys_ptr + key_offsets, mask=is_there, other=0), q.dtype)
        scores = _dot(q, tl.trans(keys), tl.zeros([BLOCK_ROWS, BLOCK_TOKENS], tl.float32)) * score_scale
        scores = tl.where(tokens[None, :] < visible[:, None], scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1))
        level = tl.where(new_peak == float("-inf"), 0.0, new_peak)
        weights = tl.exp2(scores - level[:, None]).to(q.dtype)
        shrink = tl.exp2(peak - level)[:, None]
        value_offsets = (blocks * values_stride_block + slots * values_stride_slot)[:, None] + dims[None, :]
        values = widen(tl.load(values_ptr + value_offsets, mask=is_there, other=0), q.dtype)
        totals = _dot(weights, ones, totals * shrink)
        sums = _dot(weights, values, sums * shrink)
        peak = new_peak
    return peak, tl.max(totals, 1), sums


@triton.jit
def merge_split(peak, total, sums, split_peak, split_total, split_sums):
    """Add the next split to the splits before it, row by row.

    The fused operations are written out: left to the compiler, each kernel could fuse another product.
    """
    new_peak = tl.maximum(peak, split_peak)
    level = tl.where(new_peak == float("-inf"), 0.0, new_peak)
    shrink = tl.exp2(peak - level)
    split_shrink = tl.exp2(split_peak - level)
    total = tl.fma(total, shrink, split_total * split_shrink)
    shrinks = tl.broadcast_to(shrink[:, None], sums.shape)
    return new_peak, total, tl.fma(sums, shrinks, split_sums * split_shrink[:, None])


@triton.jit(do_not_specialize=["num_splits", "max_blocks"])
def attend_split_kernel(
    q_ptr, keys_ptr, values_ptr, tables_ptr, context_lens_ptr, tiles_ptr, peaks_ptr, totals_ptr, sums_ptr,
    score_scale, num_splits, max_blocks, q_stride_row, q_stride_head,
    keys_stride_block, keys_stride_slot, keys_stride_head, values_stride_block, values_stride_slot, values_stride_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, SPLIT_TOKENS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK_TOKENS: tl.constexpr,
):  # fmt: skip
    """Attend from one tile of queries and one key head to one split; grid `[num_tiles, num_kv_heads, num_splits]`.

    q `[num_tokens, num_q_heads, HEAD_DIM]`; keys, values `[num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_DIM]`;
    tables `[num_seqs, max_blocks]` int64; context_lens `[num_seqs]` int32; tiles `[num_tiles, 5]` int32, of
    `QueryTiles`; peaks, totals `[num_queries, num_q_heads, num_splits]` and sums
    `[num_queries, num_q_heads, num_splits, HEAD_DIM]` float32, written where the tile's context reaches.
    """
    tile_ptr = tiles_ptr + tl.program_id(0) * 5
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    q, visible, end, sequence = load_tile(
        q_ptr, tile_ptr, context_lens_ptr, kv_head, q_stride_row, q_stride_head, GROUP, HEAD_DIM, BLOCK_ROWS, BLOCK_DIM
    )
    first = split * SPLIT_TOKENS
    if first >= end:
        return
    peak, total, sums = attend_split(
        q, visible, first, tl.minimum(first + SPLIT_TOKENS, end), tables_ptr + sequence * max_blocks,
        keys_ptr + kv_head * keys_stride_head, values_ptr + kv_head * values_stride_head, score_scale,
        keys_stride_block, keys_stride_slot, values_stride_block, values_stride_slot,
        BLOCK_SIZE, HEAD_DIM, BLOCK_ROWS, BLOCK_DIM, BLOCK_TOKENS,
    )  # fmt: skip
    rows = tl.arange(0, BLOCK_ROWS)
    dims = tl.arange(0, BLOCK_DIM)
    is_row = rows < tl.load(tile_ptr + 1) * GROUP
    queries = (tl.load(tile_ptr + 4) + rows // GROUP).to(tl.int64)
    heads = kv_head * GROUP + rows % GROUP
    places = (queries * (tl.num_programs(1) * GROUP) + heads) * num_splits + split
    tl.store(peaks_ptr + places, peak, mask=is_row)
    tl.store(totals_ptr + places, total, mask=is_row)
    is_there = is_row[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(sums_ptr + places[:, None] * HEAD_DIM + dims[None, :], sums, mask=is_there)


@triton.jit(do_not_specialize=["num_splits"])
def merge_splits_kernel(
    peaks_ptr, totals_ptr, sums_ptr, context_lens_ptr, tiles_ptr, out_ptr, value_scale, num_splits, out_stride_row,
    HEAD_DIM: tl.constexpr, SPLIT_TOKENS: tl.constexpr, BLOCK_DIM: tl.constexpr,
):  # fmt: skip
    """Merge the splits of one query and head in order; grid `[num_tiles, most_queries, num_q_heads]`.

    peaks, totals, sums, context_lens and tiles are those of `attend_split_kernel`; out
    `[num_tokens, num_q_heads, HEAD_DIM]`, contiguous.
    """
    tile_ptr = tiles_ptr + tl.program_id(0) * 5
    query = tl.program_id(1)
    head = tl.program_id(2)
    if query >= tl.load(tile_ptr + 1):
        return
    visible = tl.load(context_lens_ptr + tl.load(tile_ptr + 2)) - tl.load(tile_ptr + 3) + 1 + query
    place = ((tl.load(tile_ptr + 4) + query).to(tl.int64) * tl.num_programs(2) + head) * num_splits
    # One row, in the shape of rows, so that the merge is that of a prompt's tile.
    places = place + tl.arange(0, 1)
    dims = tl.arange(0, BLOCK_DIM)
    is_dim = (dims < HEAD_DIM)[None, :]
    peak = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    sums = tl.zeros([1, BLOCK_DIM], tl.float32)
    for split in range(tl.cdiv(visible, SPLIT_TOKENS)):
        split_sums = tl.load(sums_ptr + (places + split)[:, None] * HEAD_DIM + dims[None, :], mask=is_dim, other=0.0)
        split_peak = tl.load(peaks_ptr + places + split)
        split_total = tl.load(totals_ptr + places + split)
        peak, total, sums = merge_split(peak, total, sums, split_peak, split_total, split_sums)
    out = sums / total[:, None] * value_scale
    row = (tl.load(tile_ptr) + query).to(tl.int64)
    tl.store(out_ptr + row * out_stride_row + head * HEAD_DIM + dims[None, :], out, mask=is_dim)
