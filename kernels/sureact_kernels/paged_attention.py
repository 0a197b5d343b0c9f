"""Attention of one new token per sequence over its paged keys and values."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it

from sureact_kernels.arguments import check_shape

ROW_MULTIPLE = 4
"""float32 batched products agree bit for bit between row counts that are multiples of this."""


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    context_lens: Sequence[int],
    scale: float,
) -> torch.Tensor:
    """Attend from the last token of each sequence to all of its tokens.

        p[t] = exp(scale * q . k[t] - max_t(...))      for t < context_len
        out  = sum_t p[t] * v[t] / sum_t p[t]

    Sums run block by block in the order of the table, in float32, so that a sequence's result does not depend on the
    other sequences, on the padding of its table, or on whether its queries came one by one or as a prompt.

    Args:
        q: `[num_seqs, num_q_heads, head_dim]`.
        key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`; finite everywhere, also in unused slots;
            block_size * head_dim at least 100, since torch multiplies tinier matrices in another order.
        value_cache: like `key_cache`.
        block_tables: `[num_seqs, max_blocks]`, int64; entries past a sequence's end may be any valid block.
        context_lens: tokens to attend to per sequence, at least 1 and at most max_blocks * block_size.
        scale: factor of the scores, usually `head_dim ** -0.5`.

    Returns:
        `[num_seqs, num_q_heads, head_dim]`, dtype of `q`, new.

    Raises:
        KernelInputError: `q` or `block_tables` do not match the number of sequences.

    Source: split-KV decoding, Dao et al. 2023, "Flash-Decoding for long-context inference".
    """
    num_seqs, num_q_heads, head_dim = q.shape
    check_shape("paged_attention", "block_tables", block_tables, (len(context_lens), None))
    check_shape("paged_attention", "q", q, (len(context_lens), None, None))
    num_kv_heads = key_cache.shape[2]
    group = num_q_heads // num_kv_heads
    grouped = F.pad(q.view(num_seqs, num_kv_heads, group, head_dim).float() * scale, (0, 0, 0, -group % ROW_MULTIPLE))
    keys, values = gather_blocks(key_cache, block_tables), gather_blocks(value_cache, block_tables)
    out = attend(grouped, keys, values, lambda scores: _hide_past_end(scores, context_lens))
    return out[:, :, :group].reshape(num_seqs, num_q_heads, head_dim).to(q.dtype)


def gather_blocks(cache: torch.Tensor, block_tables: torch.Tensor) -> torch.Tensor:
    """Return the blocks of each table, `[num_seqs, num_blocks, num_kv_heads, block_size, head_dim]`, float32."""
    gathered = cache.index_select(0, block_tables.reshape(-1)).transpose(1, 2)
    by_head = gathered.to(torch.float32, memory_format=torch.contiguous_format)
    return by_head.contiguous().view(*block_tables.shape, *by_head.shape[1:])


def attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, hide: Callable[[torch.Tensor], None]
) -> torch.Tensor:
    """Attend from grouped queries to gathered blocks, one product per block and sums in the order of the blocks.

    Args:
        q: `[num_seqs, num_kv_heads, rows, head_dim]`, float32, scaled; `rows` a multiple of `ROW_MULTIPLE`.
        keys: `[num_seqs, num_blocks, num_kv_heads, block_size, head_dim]`, float32.
        values: like `keys`.
        hide: sets the scores `[num_seqs, num_blocks, num_kv_heads, rows, block_size]` that a row must not see to -inf.

    Returns:
        `[num_seqs, num_kv_heads, rows, head_dim]`, float32, new.
    """
    scores = torch.matmul(q.unsqueeze(1), keys.transpose(-1, -2))
    hide(scores)
    weights = _exp_(scores.sub_(scores.amax((1, -1), keepdim=True)))
    block_sums = weights.sum(-1, keepdim=True)
    block_outs = torch.matmul(weights, values)
    # A loop, since a reduction over a varying number of blocks may pick its order by that number. Blocks past the end
    # of a sequence add exact zeros.
    return _sum_in_order(block_outs) / _sum_in_order(block_sums)


def _sum_in_order(blocks: torch.Tensor) -> torch.Tensor:
    """Add `[num_seqs, num_blocks, ...]` over the blocks, the first to the second, then the third, and so on."""
    total, *rest = blocks.unbind(1)
    for block in rest:
        total = total + block
    return total


def _hide_past_end(scores: torch.Tensor, context_lens: Sequence[int]) -> None:
    """Set the scores of each sequence behind its last token to -inf."""
    block_size = scores.shape[-1]
    for row, context_len in zip(scores, context_lens, strict=True):
        num_full, num_rest = divmod(context_len, block_size)
        if num_rest:
            row[num_full, :, :, num_rest:] = float("-inf")
            num_full += 1
        if num_full < len(row):
            row[num_full:] = float("-inf")


def _exp_(x: torch.Tensor) -> torch.Tensor:
    """Replace float32 `x` by its exponential; equal elements give equal bits wherever they stand.

    torch's own CPU loop takes another routine for the last elements of each thread's share, so that the bits of an
    element depend on how many others there are. numpy's does not, and is as fast on one thread as torch's on two.
    """
    if x.device.type != "cpu":
        return x.exp_()
    array = x.numpy()
    np.exp(array, out=array)
    return x
