"""Attention of new tokens over the paged keys and values of their sequences."""

import numpy as np
import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.attention_plan import ROW_MULTIPLE, AttentionPlan, Tile
from sureact_kernels.dispatch import version_of
from sureact_kernels.errors import KernelInputError
from sureact_kernels.qk_norm_rope_store import check_scales


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    plan: AttentionPlan,
    scale: float,
    *,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    """Attend from each token to all tokens of its sequence up to itself.

        p[t] = exp(scale * q . k[t] - max_t(...))      for t up to the token's own position
        out  = sum_t p[t] * v[t] / sum_t p[t]

    Sums run block by block in the order of the table, in float32, so that a token's result does not depend on the
    other tokens and sequences of the pass, nor on whether it came alone or within a prompt.

    A cache in float8_e4m3fn holds keys and values over their scale, as `qk_norm_rope_store` writes them.

    Args:
        q: `[num_tokens, num_q_heads, head_dim]`: the queries of all sequences, one after another.
        key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`; finite everywhere, also in unused slots;
            block_size * head_dim at least 100, since torch multiplies tinier matrices in another order.
        value_cache: like `key_cache`.
        plan: where the tokens stand, from `plan_attention`.
        scale: factor of the scores, usually `head_dim ** -0.5`.
        keys_scale: what a key in `key_cache` is multiplied by; 1 but for float8_e4m3fn.
        values_scale: like `keys_scale`, for `value_cache`.

    Returns:
        `[num_tokens, num_q_heads, head_dim]`, dtype of `q`, new.

    Raises:
        KernelInputError: `q` does not match the plan or the cache, or a cache that is not float8_e4m3fn has a scale.

    Source: split-KV decoding, Dao et al. 2023, "Flash-Decoding for long-context inference".
    """
    num_kv_heads, head_dim = key_cache.shape[2:]
    check_shape("paged_attention", "q", q, (plan.num_tokens, num_kv_heads * plan.group, head_dim))
    version = version_of("paged_attention", q, key_cache, value_cache)
    run = _reference if version is None else version.paged_attention
    if key_cache.dtype is torch.float8_e4m3fn:
        return run(q, key_cache, value_cache, plan, scale, keys_scale, values_scale)
    check_scales("paged_attention", key_cache, keys_scale, values_scale)
    return run(q, key_cache, value_cache, plan, scale)


def _reference(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    plan: AttentionPlan,
    scale: float,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    if plan.lens_on_device is not None:
        raise KernelInputError(
            "paged_attention: the lengths of this plan are on the device, where only the kernels in Triton follow "
            "them, and they do not compute these tensors. Plan with plan_attention."
        )
    scale *= keys_scale
    out: torch.Tensor | None = None
    for part in plan.parts:
        keys = _by_head(key_cache, part.blocks, part.num_seqs)
        values = _by_head(value_cache, part.blocks, part.num_seqs)
        for tile in part.tiles:
            attended = _attend(q, keys[:, : tile.num_blocks], values[:, : tile.num_blocks], tile, plan.group, scale)
            if values_scale != 1:
                attended.mul_(values_scale)
            if len(attended) == len(q):
                return attended.to(q.dtype)
            out = torch.empty_like(q) if out is None else out
            out[tile.targets] = attended.to(q.dtype)
    return torch.empty_like(q) if out is None else out


def _by_head(cache: torch.Tensor, blocks: slice | torch.Tensor, num_seqs: int) -> torch.Tensor:
    """Return blocks as `[num_seqs, num_blocks, num_kv_heads, block_size, head_dim]`, float32, contiguous."""
    if isinstance(blocks, slice):
        read = cache[blocks]
    elif cache.dtype is torch.float8_e4m3fn:
        # torch does not select from this dtype on every device; bytes it does.
        read = cache.view(torch.uint8).index_select(0, blocks).view(cache.dtype)
    else:
        read = cache.index_select(0, blocks)
    by_head = torch.empty_like(read, dtype=torch.float32).view(len(read), read.shape[2], read.shape[1], -1)
    return by_head.copy_(read.transpose(1, 2)).unflatten(0, (num_seqs, -1))


def _attend(
    q: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, tile: Tile, group: int, scale: float
) -> torch.Tensor:
    """Attend from the tile's queries; return their kept rows, `[num_rows, num_q_heads, head_dim]`, float32."""
    num_seqs, _, num_kv_heads, _, head_dim = keys.shape
    num_queries = tile.num_queries
    num_rows = num_queries * group
    read = q[tile.rows] if isinstance(tile.rows, slice) else q.index_select(0, tile.rows)
    by_token = read.view(num_seqs, num_queries, num_kv_heads, group, head_dim)
    # The rows of a query's heads stay together: [num_seqs, num_kv_heads, num_queries * group, head_dim], and padding.
    rows = q.new_zeros((num_seqs, num_kv_heads, num_rows + -num_rows % ROW_MULTIPLE, head_dim), dtype=torch.float32)
    by_head = rows[:, :, :num_rows].view(num_seqs, num_kv_heads, num_queries, group, head_dim)
    torch.mul(by_token.transpose(1, 2).float(), scale, out=by_head)
    scores = torch.matmul(rows.unsqueeze(1), keys.transpose(-1, -2))
    scores[:, -tile.hidden.shape[1] :].add_(tile.hidden)
    weights = _exp_(scores.sub_(scores.amax((1, -1), keepdim=True)))
    # A loop, since a reduction over a varying number of blocks may pick its order by that number. Blocks past the end
    # of a sequence add exact zeros.
    sums = _sum_in_order(weights.sum(-1, keepdim=True))
    attended = _sum_in_order(torch.matmul(weights, values)).div_(sums)[:, :, :num_rows]
    by_query = attended.view(num_seqs, num_kv_heads, num_queries, group, head_dim).transpose(1, 2)
    flat = by_query.reshape(num_seqs * num_queries, num_kv_heads * group, head_dim)
    return flat if tile.kept is None else flat.index_select(0, tile.kept)


def _sum_in_order(blocks: torch.Tensor) -> torch.Tensor:
    """Add `[num_seqs, num_blocks, ...]` over the blocks, the first to the second, then the third, and so on."""
    total, *rest = blocks.unbind(1)
    for block in rest:
        total.add_(block)
    return total


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
