"""`paged_attention` in C++."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from sureact_kernels.cpu.library import are_float32, call, is_plain_cache

if TYPE_CHECKING:
    from sureact_kernels.attention_plan import AttentionPlan


def takes(q: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor) -> bool:
    """Tell whether this version computes these."""
    return q.shape[2] % 16 == 0 and are_float32(q) and is_plain_cache(key_cache) and is_plain_cache(value_cache)


def paged_attention(
    q: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor, plan: AttentionPlan, scale: float
) -> torch.Tensor:
    """See `sureact_kernels.paged_attention`."""
    q = q.contiguous()
    out = torch.empty_like(q)
    call(
        "paged_attention",
        *(q, key_cache, value_cache, plan.block_tables, plan.first_rows, plan.context_lens),
        *(scale, out, *plan.block_tables.shape, plan.block_size),
        *(q.shape[1], *key_cache.shape[2:]),
    )
    return out
