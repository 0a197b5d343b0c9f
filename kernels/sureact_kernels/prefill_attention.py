"""Causal attention of many new tokens over their sequence's paged keys and values."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import check_shape
from sureact_kernels.paged_attention import ROW_MULTIPLE, attend, gather_blocks

QUERY_TILE = 128
"""Queries handled at once: enough rows for the products to run at full speed, few enough to skip most of the future."""


def prefill_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    query_lens: Sequence[int],
    context_lens: Sequence[int],
    scale: float,
    *,
    invariant: bool = True,
) -> torch.Tensor:
    """Attend from the last `query_lens[s]` tokens of each sequence to all tokens up to themselves.

    A token's result has the same bits as `paged_attention` gives when it comes alone; without `invariant`, torch's
    fused attention is used, which may sum in another order.

    Args:
        q: `[num_tokens, num_q_heads, head_dim]`: the queries of all sequences, one after another.
        key_cache: `[num_blocks, num_kv_heads, block_size, head_dim]`; finite everywhere, also in unused slots.
        value_cache: like `key_cache`.
        block_tables: `[num_seqs, max_blocks]`, int64.
        query_lens: new tokens per sequence; they add up to num_tokens.
        context_lens: tokens per sequence including the new ones.
        scale: factor of the scores.
        invariant: whether each row must be independent of the number of rows.

    Returns:
        `[num_tokens, num_q_heads, head_dim]`, dtype of `q`, new.

    Raises:
        KernelInputError: the lengths do not add up.
    """
    check_shape("prefill_attention", "q", q, (sum(query_lens), None, None))
    out = torch.empty_like(q)
    start = 0
    for table, query_len, context_len in zip(block_tables, query_lens, context_lens, strict=True):
        rows = slice(start, start + query_len)
        if invariant:
            _attend_in_tiles(q[rows], key_cache, value_cache, table, context_len, scale, out[rows])
        else:
            out[rows] = _attend_fused(q[rows], key_cache, value_cache, table, context_len, scale)
        start += query_len
    return out


def _attend_in_tiles(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    context_len: int,
    scale: float,
    out: torch.Tensor,
) -> None:
    query_len, num_q_heads, head_dim = q.shape
    _, num_kv_heads, block_size, _ = key_cache.shape
    group = num_q_heads // num_kv_heads
    num_blocks = -(-context_len // block_size)
    keys = gather_blocks(key_cache, table[None, :num_blocks])
    values = gather_blocks(value_cache, table[None, :num_blocks])
    for start in range(0, query_len, QUERY_TILE):
        tile = q[start : start + QUERY_TILE]
        first = context_len - query_len + start
        seen = -(-(first + len(tile)) // block_size)
        padded = F.pad(tile.float() * scale, (0, 0, 0, 0, 0, -len(tile) % ROW_MULTIPLE))
        positions = torch.arange(first, first + len(padded), device=q.device)
        # [num_kv_heads, tokens * group, head_dim]: the rows of a token's heads stay together.
        rows = padded.view(-1, num_kv_heads, group, head_dim).transpose(0, 1).reshape(1, num_kv_heads, -1, head_dim)
        last = positions.repeat_interleave(group).view(-1, 1)
        attended = attend(rows, keys[:, :seen], values[:, :seen], last, first // block_size)
        by_token = attended.view(num_kv_heads, -1, group, head_dim).transpose(0, 1)
        out[start : start + len(tile)] = by_token[: len(tile)].reshape(len(tile), num_q_heads, head_dim)


def _attend_fused(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    context_len: int,
    scale: float,
) -> torch.Tensor:
    query_len, num_q_heads, _ = q.shape
    block_size = key_cache.shape[2]
    blocks = table[: -(-context_len // block_size)]
    group = num_q_heads // key_cache.shape[1]

    def heads(cache: torch.Tensor) -> torch.Tensor:
        flat = cache.index_select(0, blocks).transpose(0, 1).flatten(1, 2)[:, :context_len]
        return flat.to(q.dtype).repeat_interleave(group, dim=0)

    if query_len == context_len:
        attended = F.scaled_dot_product_attention(
            q.transpose(0, 1), heads(key_cache), heads(value_cache), is_causal=True, scale=scale
        )
    else:
        visible = torch.ones(query_len, context_len, dtype=torch.bool, device=q.device)
        visible = visible.tril(context_len - query_len)
        attended = F.scaled_dot_product_attention(
            q.transpose(0, 1), heads(key_cache), heads(value_cache), attn_mask=visible, scale=scale
        )
    return attended.transpose(0, 1)
