"""Causal attention of many new tokens over their sequence's paged keys and values."""

from collections.abc import Sequence
from functools import partial

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
        key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`; finite everywhere, also in unused slots.
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
    block_size, num_kv_heads = key_cache.shape[1:3]
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
        last_positions = positions.repeat_interleave(group)
        attended = attend(
            rows, keys[:, :seen], values[:, :seen], partial(_hide_future, last_positions=last_positions, first=first)
        )
        by_token = attended.view(num_kv_heads, -1, group, head_dim).transpose(0, 1)
        out[start : start + len(tile)] = by_token[: len(tile)].reshape(len(tile), num_q_heads, head_dim)


def _hide_future(scores: torch.Tensor, *, last_positions: torch.Tensor, first: int) -> None:
    """Set scores behind each row's own position to -inf; every row sees all that lies before position `first`."""
    num_blocks, block_size = scores.shape[1], scores.shape[-1]
    first_block = first // block_size
    positions = torch.arange(first_block * block_size, num_blocks * block_size, device=scores.device)
    hidden = positions.view(-1, 1, 1, block_size) > last_positions.view(-1, 1)
    scores[:, first_block:].masked_fill_(hidden, float("-inf"))


def _attend_fused(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    table: torch.Tensor,
    context_len: int,
    scale: float,
) -> torch.Tensor:
    query_len, num_q_heads, _ = q.shape
    block_size = key_cache.shape[1]
    blocks = table[: -(-context_len // block_size)]
    group = num_q_heads // key_cache.shape[2]

    def heads(cache: torch.Tensor) -> torch.Tensor:
        flat = cache.index_select(0, blocks).flatten(0, 1)[:context_len].transpose(0, 1)
        return flat.to(q.dtype).repeat_interleave(group, dim=0).unsqueeze(0)

    is_whole_prompt = query_len == context_len
    visible = None
    if not is_whole_prompt:
        visible = torch.ones(query_len, context_len, dtype=torch.bool, device=q.device).tril(context_len - query_len)
    attended = F.scaled_dot_product_attention(
        q.transpose(0, 1).unsqueeze(0),  # torch's fused routine takes four dimensions only
        heads(key_cache),
        heads(value_cache),
        attn_mask=visible,
        is_causal=is_whole_prompt,
        scale=scale,
    )
    return attended.squeeze(0).transpose(0, 1)
