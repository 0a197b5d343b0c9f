"""Attention of one new token per sequence over its paged keys and values."""

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
    context_lens: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Attend from the last token of each sequence to all of its tokens.

        p[t] = exp(scale * q . k[t] - max_t(...))      for t < context_len
        out  = sum_t p[t] * v[t] / sum_t p[t]

    Sums run block by block in the order of the table, in float32, so that a sequence's result does not depend on the
    other sequences, on the padding of its table, or on whether its queries came one by one or as a prompt.

    Args:
        q: `[num_seqs, num_q_heads, head_dim]`.
        key_cache: `[num_blocks, num_kv_heads, block_size, head_dim]`; finite everywhere, also in unused slots;
            block_size * head_dim at least 100, since torch multiplies tinier matrices in another order.
        value_cache: like `key_cache`.
        block_tables: `[num_seqs, max_blocks]`, int64; entries past a sequence's end may be any valid block.
        context_lens: `[num_seqs]`, int64, tokens to attend to, at least 1 and at most max_blocks * block_size.
        scale: factor of the scores, usually `head_dim ** -0.5`.

    Returns:
        `[num_seqs, num_q_heads, head_dim]`, dtype of `q`, new.

    Raises:
        KernelInputError: `block_tables` or `context_lens` do not match the number of sequences.

    Source: split-KV decoding, Dao et al. 2023, "Flash-Decoding for long-context inference".
    """
    num_seqs, num_q_heads, head_dim = q.shape
    check_shape("paged_attention", "block_tables", block_tables, (num_seqs, None))
    check_shape("paged_attention", "context_lens", context_lens, (num_seqs,))
    num_kv_heads = key_cache.shape[1]
    group = num_q_heads // num_kv_heads
    grouped = F.pad(q.view(num_seqs, num_kv_heads, group, head_dim).float() * scale, (0, 0, 0, -group % ROW_MULTIPLE))
    last = (context_lens - 1).view(num_seqs, 1, 1, 1, 1)
    out = attend(grouped, gather_blocks(key_cache, block_tables), gather_blocks(value_cache, block_tables), last)
    return out[:, :, :group].reshape(num_seqs, num_q_heads, head_dim).to(q.dtype)


def gather_blocks(cache: torch.Tensor, block_tables: torch.Tensor) -> torch.Tensor:
    """Return the blocks of each table, `[num_seqs, num_blocks, num_kv_heads, block_size, head_dim]`, float32."""
    gathered = cache.index_select(0, block_tables.reshape(-1)).float()
    return gathered.view(*block_tables.shape, *cache.shape[1:])


def attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, last_positions: torch.Tensor, first_masked_block: int = 0
) -> torch.Tensor:
    """Attend from grouped queries to gathered blocks, one product per block and sums in the order of the blocks.

    Args:
        q: `[num_seqs, num_kv_heads, rows, head_dim]`, float32, scaled; `rows` a multiple of `ROW_MULTIPLE`.
        keys: `[num_seqs, num_blocks, num_kv_heads, block_size, head_dim]`, float32.
        values: like `keys`.
        last_positions: the last position each row may see, int64, broadcastable to
            `[num_seqs, num_blocks, num_kv_heads, rows, block_size]`.
        first_masked_block: blocks before it are visible to every row, so that masking can skip them.

    Returns:
        `[num_seqs, num_kv_heads, rows, head_dim]`, float32, new.
    """
    num_blocks, block_size = keys.shape[1], keys.shape[3]
    scores = torch.matmul(q.unsqueeze(1), keys.transpose(-1, -2))
    positions = torch.arange(first_masked_block * block_size, num_blocks * block_size, device=q.device)
    hidden = positions.view(-1, 1, 1, block_size) > last_positions
    scores[:, first_masked_block:].masked_fill_(hidden, float("-inf"))
    weights = _exp_(scores.sub_(scores.amax((1, -1), keepdim=True)))
    block_sums = weights.sum(-1, keepdim=True)
    block_outs = torch.matmul(weights, values)
    # A loop, since a reduction over a varying number of blocks may pick its order by that number. Blocks past the end
    # of a sequence add exact zeros.
    total, out = block_sums[:, 0], block_outs[:, 0]
    for block in range(1, num_blocks):
        total = total + block_sums[:, block]
        out = out + block_outs[:, block]
    return out / total


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
