# pyright: basic
"""Attention of the many queries of a prompt or a chunk of one, over the paged keys and values before and among them.

One program walks all splits of its tile's context and merges as it goes, since partial sums of a whole prompt would
be larger than the cache. The sums are those of `decode_attention`, in the same order.
"""

import triton
import triton.language as tl

from sureact_kernels.triton.decode_attention import attend_split, load_tile, merge_split


@triton.jit(do_not_specialize=["max_blocks"])
def prefill_attention_kernel(
    q_ptr, keys_ptr, values_ptr, tables_ptr, context_lens_ptr, tiles_ptr, out_ptr,
    score_scale, value_scale, max_blocks, q_stride_row, q_stride_head, out_stride_row,
    keys_stride_block, keys_stride_slot, keys_stride_head, values_stride_block, values_stride_slot, values_stride_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_DIM: tl.constexpr, SPLIT_TOKENS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr, BLOCK_DIM: tl.constexpr, BLOCK_TOKENS: tl.constexpr,
):  # fmt: skip
    """Attend from one tile of queries and one key head to all that they see; grid `[num_tiles, num_kv_heads]`.

    q `[num_tokens, num_q_heads, HEAD_DIM]`; keys, values `[num_blocks, BLOCK_SIZE, num_kv_heads, HEAD_DIM]`;
    tables `[num_seqs, max_blocks]` int64; context_lens `[num_seqs]` int32; tiles `[num_tiles, 5]` int32, of
    `QueryTiles`; out like q, contiguous.
    """
    tile_ptr = tiles_ptr + tl.program_id(0) * 5
    kv_head = tl.program_id(1)
    q, visible, end, sequence = load_tile(
        q_ptr, tile_ptr, context_lens_ptr, kv_head, q_stride_row, q_stride_head, GROUP, HEAD_DIM, BLOCK_ROWS, BLOCK_DIM
    )
    peak = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    total = tl.zeros([BLOCK_ROWS], tl.float32)
    sums = tl.zeros([BLOCK_ROWS, BLOCK_DIM], tl.float32)
    for first in range(0, end, SPLIT_TOKENS):
        split_peak, split_total, split_sums = attend_split(
            q, visible, first, tl.minimum(first + SPLIT_TOKENS, end), tables_ptr + sequence * max_blocks,
            keys_ptr + kv_head * keys_stride_head, values_ptr + kv_head * values_stride_head, score_scale,
            keys_stride_block, keys_stride_slot, values_stride_block, values_stride_slot,
            BLOCK_SIZE, HEAD_DIM, BLOCK_ROWS, BLOCK_DIM, BLOCK_TOKENS,
        )  # fmt: skip
        peak, total, sums = merge_split(peak, total, sums, split_peak, split_total, split_sums)
    out = sums / total[:, None] * value_scale
    rows = tl.arange(0, BLOCK_ROWS)
    dims = tl.arange(0, BLOCK_DIM)
    is_there = (rows < tl.load(tile_ptr + 1) * GROUP)[:, None] & (dims < HEAD_DIM)[None, :]
    offsets = (tl.load(tile_ptr) + rows // GROUP).to(tl.int64) * out_stride_row
    offsets += (kv_head * GROUP + rows % GROUP) * HEAD_DIM
    tl.store(out_ptr + offsets[:, None] + dims[None, :], out, mask=is_there)
