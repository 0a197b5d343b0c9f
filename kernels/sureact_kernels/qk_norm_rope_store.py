"""What happens to queries, keys and values between their projection and attention."""

from typing import NamedTuple

import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.dispatch import version_of
from sureact_kernels.errors import KernelInputError
from sureact_kernels.rms_norm import rms_norm


class HeadNorm(NamedTuple):
    """Root-mean-square normalization of each query and key head (Qwen3)."""

    q_weight: torch.Tensor
    """`[head_dim]`."""
    k_weight: torch.Tensor
    """`[head_dim]`."""
    eps: float


def qk_norm_rope_store(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    head_norm: HeadNorm | None = None,
    *,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    """Normalize (if asked) and rotate queries and keys, and write keys and values into the paged cache.

    Rotation pairs dimension `d` with `d + head_dim / 2`:

        out[d]                = x[d] * cos[d] - x[d + head_dim / 2] * sin[d]
        out[d + head_dim / 2] = x[d + head_dim / 2] * cos[d] + x[d] * sin[d]

    in float32, rounded once. Slot `s` is row `s % block_size` of block `s // block_size`.

    For a cache in float8_e4m3fn what is rounded to the dtype of `qkv` is divided by its scale in float32 and rounded to
    the nearest, ties to even; what lies beyond +-448, infinity too, becomes that. NaN stays NaN.

    Args:
        qkv: `[num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]`: queries, keys, values.
        cos: `[num_tokens, head_dim]`, float32, at each token's position; both halves the same.
        sin: like `cos`, but with the first half negated, so that one sum rotates both halves.
        key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`; written in place.
        value_cache: like `key_cache`; written in place.
        slot_mapping: `[num_tokens]`, int64.
        head_norm: weights for normalizing each head before rotation, or None.
        keys_scale: what keys are divided by, > 0; 1 but for a cache in float8_e4m3fn.
        values_scale: like `keys_scale`, for values.

    Returns:
        Rotated queries, `[num_tokens, num_q_heads, head_dim]`, dtype of `qkv`, new.

    Raises:
        KernelInputError: `qkv`, `cos` or `slot_mapping` do not fit the cache or each other, or a cache that is not
            float8_e4m3fn has a scale.

    Source: Su et al. 2021, arXiv:2104.09864.
    """
    num_tokens = qkv.shape[0]
    head_dim = key_cache.shape[3]
    check_shape("qk_norm_rope_store", "cos", cos, (num_tokens, head_dim))
    check_shape("qk_norm_rope_store", "slot_mapping", slot_mapping, (num_tokens,))
    norm_weights = () if head_norm is None else (head_norm.q_weight, head_norm.k_weight)
    version = version_of("qk_norm_rope_store", qkv, key_cache, value_cache, cos, sin, *norm_weights)
    run = _reference if version is None else version.qk_norm_rope_store
    if key_cache.dtype is torch.float8_e4m3fn:
        scales = (keys_scale, values_scale)
        return run(qkv, cos, sin, key_cache, value_cache, slot_mapping, head_norm, *scales)
    check_scales("qk_norm_rope_store", key_cache, keys_scale, values_scale)
    return run(qkv, cos, sin, key_cache, value_cache, slot_mapping, head_norm)


def check_scales(op: str, cache: torch.Tensor, keys_scale: float, values_scale: float) -> None:
    """Raise if keys or values of a cache that holds them as they are come with a scale."""
    if cache.dtype is not torch.float8_e4m3fn and not keys_scale == values_scale == 1:
        raise KernelInputError(
            f"{op}: keys_scale is {keys_scale} and values_scale {values_scale} with a cache in {cache.dtype}; only one "
            "in torch.float8_e4m3fn is scaled."
        )


def _reference(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    head_norm: HeadNorm | None,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    num_kv_heads, head_dim = key_cache.shape[2:]
    heads = qkv.view(qkv.shape[0], -1, head_dim)
    num_q_heads = heads.shape[1] - 2 * num_kv_heads
    q, k, v = heads.split((num_q_heads, num_kv_heads, num_kv_heads), dim=1)
    if head_norm is not None:
        q = rms_norm(q, head_norm.q_weight, head_norm.eps)
        k = rms_norm(k, head_norm.k_weight, head_norm.eps)
        rotated = _rotate(torch.cat((q, k), dim=1), cos, sin)
    else:
        rotated = _rotate(heads[:, : num_q_heads + num_kv_heads], cos, sin)
    _store(rotated[:, num_q_heads:], key_cache, slot_mapping, keys_scale)
    _store(v, value_cache, slot_mapping, values_scale)
    return rotated[:, :num_q_heads]


def _store(heads: torch.Tensor, cache: torch.Tensor, slot_mapping: torch.Tensor, scale: float) -> None:
    if cache.dtype is torch.float8_e4m3fn:
        # Over a tensor: over a number, torch multiplies by the reciprocal on a GPU. And it copies no float8 by index.
        divided = heads.float() / torch.full((), scale, device=heads.device)
        heads, cache = divided.clamp_(-448, 448).to(cache.dtype).view(torch.uint8), cache.view(torch.uint8)
    cache.flatten(0, 1).index_copy_(0, slot_mapping, heads.to(cache.dtype))


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate `x` `[num_tokens, num_heads, head_dim]` by the angles of its tokens."""
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    swapped = torch.cat((second, first), dim=-1).mul_(sin.unsqueeze(1))
    return (wide * cos.unsqueeze(1)).add_(swapped).to(x.dtype)
