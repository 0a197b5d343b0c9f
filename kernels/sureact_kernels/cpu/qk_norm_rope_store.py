"""`qk_norm_rope_store` in C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sureact_kernels.cpu.library import are_float32, call, is_plain_cache

if TYPE_CHECKING:
    from sureact_kernels.qk_norm_rope_store import HeadNorm

MAX_HEAD_DIM = 512
"""Dimensions of a head; the C++ op keeps one on its stack."""


def takes(qkv: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, *others: torch.Tensor) -> bool:
    """Tell whether this version computes these; `others` are angles and norm weights."""
    head_dim = key_cache.shape[3]
    return (
        head_dim % 32 == 0
        and head_dim <= MAX_HEAD_DIM
        and is_plain_cache(key_cache)
        and is_plain_cache(value_cache)
        and are_float32(qkv, *others)
    )


def qk_norm_rope_store(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    head_norm: HeadNorm | None = None,
) -> torch.Tensor:
    """See `sureact_kernels.qk_norm_rope_store`."""
    num_tokens = qkv.shape[0]
    num_kv_heads, head_dim = key_cache.shape[2:]
    num_q_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
    q = qkv.new_empty((num_tokens, num_q_heads, head_dim))
    norm = (None, None, 0.0) if head_norm is None else head_norm
    call(
        "qk_norm_rope_store",
        *(qkv.contiguous(), cos.contiguous(), sin.contiguous(), key_cache, value_cache, slot_mapping.contiguous()),
        *norm,
        *(q, num_tokens, num_q_heads, num_kv_heads, head_dim),
    )
    return q
