"""What happens to queries, keys and values between their projection and attention."""

from typing import NamedTuple

import torch

from sureact_kernels.arguments import check_shape
from sureact_kernels.cpu.library import library_for
from sureact_kernels.rms_norm import rms_norm

MAX_HEAD_DIM = 512
"""Dimensions of a head that the C++ version takes; it keeps one on its stack."""


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
) -> torch.Tensor:
    """Normalize (if asked) and rotate queries and keys, and write keys and values into the paged cache.

    Rotation pairs dimension `d` with `d + head_dim / 2`:

        out[d]                = x[d] * cos[d] - x[d + head_dim / 2] * sin[d]
        out[d + head_dim / 2] = x[d + head_dim / 2] * cos[d] + x[d] * sin[d]

    in float32, rounded once. Slot `s` is row `s % block_size` of block `s // block_size`.

    Args:
        qkv: `[num_tokens, (num_q_heads + 2 * num_kv_heads) * head_dim]`: queries, keys, values.
        cos: `[num_tokens, head_dim]`, float32, at each token's position; both halves the same.
        sin: like `cos`, but with the first half negated, so that one sum rotates both halves.
        key_cache: `[num_blocks, block_size, num_kv_heads, head_dim]`; written in place.
        value_cache: like `key_cache`; written in place.
        slot_mapping: `[num_tokens]`, int64.
        head_norm: weights for normalizing each head before rotation, or None.

    Returns:
        Rotated queries, `[num_tokens, num_q_heads, head_dim]`, dtype of `qkv`, new.

    Raises:
        KernelInputError: `qkv`, `cos` or `slot_mapping` do not fit the cache or each other.

    Source: Su et al. 2021, arXiv:2104.09864.
    """
    num_tokens = qkv.shape[0]
    num_kv_heads, head_dim = key_cache.shape[2:]
    check_shape("qk_norm_rope_store", "cos", cos, (num_tokens, head_dim))
    check_shape("qk_norm_rope_store", "slot_mapping", slot_mapping, (num_tokens,))
    num_q_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
    library = library_for(qkv, cos, sin, *(head_norm[:2] if head_norm else ()))
    if library is None or not _is_compiled_for(key_cache, value_cache):
        return _reference(qkv.view(num_tokens, -1, head_dim), cos, sin, key_cache, value_cache, slot_mapping, head_norm)
    qkv, cos, sin = qkv.contiguous(), cos.contiguous(), sin.contiguous()
    q = qkv.new_empty((num_tokens, num_q_heads, head_dim))
    library.sureact_qk_norm_rope_store(
        *(tensor.data_ptr() for tensor in (qkv, cos, sin, key_cache, value_cache, slot_mapping.contiguous())),
        *(
            (head_norm.q_weight.data_ptr(), head_norm.k_weight.data_ptr(), head_norm.eps)
            if head_norm
            else (None, None, 0)
        ),
        *(q.data_ptr(), num_tokens, num_q_heads, num_kv_heads, head_dim, torch.get_num_threads()),
    )
    return q


def _is_compiled_for(key_cache: torch.Tensor, value_cache: torch.Tensor) -> bool:
    is_plain = all(cache.dtype is torch.bfloat16 and cache.is_contiguous() for cache in (key_cache, value_cache))
    return is_plain and key_cache.shape[3] % 32 == 0 and key_cache.shape[3] <= MAX_HEAD_DIM


def _reference(
    heads: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    head_norm: HeadNorm | None,
) -> torch.Tensor:
    num_kv_heads = key_cache.shape[2]
    num_q_heads = heads.shape[1] - 2 * num_kv_heads
    q, k, v = heads.split((num_q_heads, num_kv_heads, num_kv_heads), dim=1)
    if head_norm is not None:
        q = rms_norm(q, head_norm.q_weight, head_norm.eps)
        k = rms_norm(k, head_norm.k_weight, head_norm.eps)
        rotated = _rotate(torch.cat((q, k), dim=1), cos, sin)
    else:
        rotated = _rotate(heads[:, : num_q_heads + num_kv_heads], cos, sin)
    key_cache.flatten(0, 1).index_copy_(0, slot_mapping, rotated[:, num_q_heads:].to(key_cache.dtype))
    value_cache.flatten(0, 1).index_copy_(0, slot_mapping, v.to(value_cache.dtype))
    return rotated[:, :num_q_heads]


def _rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate `x` `[num_tokens, num_heads, head_dim]` by the angles of its tokens."""
    wide = x.float()
    first, second = wide.chunk(2, dim=-1)
    swapped = torch.cat((second, first), dim=-1).mul_(sin.unsqueeze(1))
    return (wide * cos.unsqueeze(1)).add_(swapped).to(x.dtype)
