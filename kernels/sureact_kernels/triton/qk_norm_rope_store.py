# pyright: basic, reportCallIssue=false
"""`qk_norm_rope_store` in Triton."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.triton.aot import AotCase
from sureact_kernels.triton.rms_norm import aligned_rows, stride_of_rows

if TYPE_CHECKING:
    from sureact_kernels.qk_norm_rope_store import HeadNorm

_FP8 = torch.float8_e4m3fn

MAX_HEAD_DIM = 256
"""Dimensions of a head, which one warp holds in registers."""


@triton.jit
def _to_e4m3(x, scale):
    """Return the bytes of `x / scale` as e4m3: to the nearest, ties to even, at most +-448; NaN stays NaN.

    By integers, the same on every GPU: an A100 has no instruction for it.
    """
    bits = tl.div_rn(x, scale).to(tl.uint32, bitcast=True)
    size = bits & 0x7FFFFFFF
    # Three bits of the mantissa stay; the exponent of a float32 is larger by 120. Below 2**-6 all numbers lie 2**-9
    # apart, as float32 does from 2**14 on.
    normal = (size + 0x7FFFF + ((size >> 20) & 1)) >> 20
    small = (size.to(tl.float32, bitcast=True) + 16384.0).to(tl.uint32, bitcast=True) - 0x46800000
    code = tl.minimum(tl.where(size < 0x3C800000, small, normal - 960), 0x7E)
    code = tl.where(size > 0x7F800000, 0x7F, code)
    return (code | ((bits >> 24) & 0x80)).to(tl.uint8)


@triton.jit
def _qk_norm_rope_store_kernel(
    qkv_ptr,
    cos_ptr,
    sin_ptr,
    q_weight_ptr,
    k_weight_ptr,
    slot_mapping_ptr,
    q_ptr,
    key_cache_ptr,
    value_cache_ptr,
    qkv_stride_token,
    cos_stride_token,
    sin_stride_token,
    cache_stride_block,
    cache_stride_row,
    cache_stride_head,
    num_q_heads,
    num_kv_heads,
    num_blocks,
    block_size,
    eps,
    keys_scale,
    values_scale,
    HAS_NORM: tl.constexpr,
    HALF: tl.constexpr,
    BLOCK_HALF: tl.constexpr,
):
    """Bring one head of one token to where it belongs; programs: (token, head), queries, then keys, then values.

    qkv_ptr: `[num_tokens, (num_q_heads + 2 * num_kv_heads) * 2 * HALF]`; cos_ptr, sin_ptr: `[num_tokens, 2 * HALF]`;
    q_weight_ptr, k_weight_ptr: `[2 * HALF]`, not read without a norm; slot_mapping_ptr: `[num_tokens]`;
    q_ptr: `[num_tokens, num_q_heads, 2 * HALF]`, contiguous; key_cache_ptr, value_cache_ptr:
    `[num_blocks, block_size, num_kv_heads, 2 * HALF]`, e4m3 as uint8. For a slot that is not in the cache nothing is
    stored.
    """
    token = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1)
    columns = tl.arange(0, BLOCK_HALF)
    inside = columns < HALF
    head_ptr = qkv_ptr + token * qkv_stride_token + head * (2 * HALF) + columns
    first = tl.load(head_ptr, mask=inside, other=0.0)
    second = tl.load(head_ptr + HALF, mask=inside, other=0.0)

    if head < num_q_heads + num_kv_heads:
        dtype = first.dtype
        x, y = first.to(tl.float32), second.to(tl.float32)
        if HAS_NORM:
            weight_ptr = q_weight_ptr if head < num_q_heads else k_weight_ptr
            inverse = tl.rsqrt(tl.sum(x * x + y * y, axis=0) / (2 * HALF) + eps)
            x_weight = tl.load(weight_ptr + columns, mask=inside, other=0.0).to(tl.float32)
            y_weight = tl.load(weight_ptr + HALF + columns, mask=inside, other=0.0).to(tl.float32)
            # Rounded between the norm and the rotation, as the reference and the models' own code are.
            x = (x * inverse * x_weight).to(dtype).to(tl.float32)
            y = (y * inverse * y_weight).to(dtype).to(tl.float32)
        cos = tl.load(cos_ptr + token * cos_stride_token + columns, mask=inside, other=0.0)
        sin = tl.load(sin_ptr + token * sin_stride_token + HALF + columns, mask=inside, other=0.0)
        first = (x * cos - y * sin).to(dtype)
        second = (y * cos + x * sin).to(dtype)

    if head < num_q_heads:
        out_ptr = q_ptr + (token * num_q_heads + head) * (2 * HALF) + columns
        tl.store(out_ptr, first, mask=inside)
        tl.store(out_ptr + HALF, second, mask=inside)
    else:
        is_key = head < num_q_heads + num_kv_heads
        kv_head = head - num_q_heads - tl.where(is_key, 0, num_kv_heads)
        slot = tl.load(slot_mapping_ptr + token).to(tl.int64)
        block = slot // block_size
        is_stored = columns < tl.where((slot >= 0) & (block < num_blocks), HALF, 0)
        offset = block * cache_stride_block + (slot % block_size) * cache_stride_row
        offset += kv_head.to(tl.int64) * cache_stride_head
        cache_ptr = key_cache_ptr if is_key else value_cache_ptr
        stored_ptr = cache_ptr + offset + columns
        if key_cache_ptr.dtype.element_ty == tl.uint8:
            scale = tl.where(is_key, keys_scale, values_scale)
            tl.store(stored_ptr, _to_e4m3(first.to(tl.float32), scale), mask=is_stored)
            tl.store(stored_ptr + HALF, _to_e4m3(second.to(tl.float32), scale), mask=is_stored)
        else:
            tl.store(stored_ptr, first.to(cache_ptr.dtype.element_ty), mask=is_stored)
            tl.store(stored_ptr + HALF, second.to(cache_ptr.dtype.element_ty), mask=is_stored)


def takes(
    qkv: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    *norm_weights: torch.Tensor,
) -> bool:
    """Tell whether this version computes these."""
    head_dim = key_cache.shape[3]
    dtypes_fit = qkv.dtype in FLOAT_DTYPES and all(weight.dtype is qkv.dtype for weight in norm_weights)
    angles_fit = cos.dtype is torch.float32 and sin.dtype is torch.float32
    caches_fit = key_cache.dtype in (*FLOAT_DTYPES, _FP8) and value_cache.dtype is key_cache.dtype
    strides_fit = key_cache.stride() == value_cache.stride() and key_cache.stride(3) == 1
    return head_dim % 2 == 0 and head_dim <= MAX_HEAD_DIM and dtypes_fit and angles_fit and caches_fit and strides_fit


def qk_norm_rope_store(
    qkv: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    head_norm: HeadNorm | None = None,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    """See `sureact_kernels.qk_norm_rope_store`."""
    num_tokens = qkv.shape[0]
    num_blocks, block_size, num_kv_heads, head_dim = key_cache.shape
    num_heads = qkv.shape[1] // head_dim
    num_q_heads = num_heads - 2 * num_kv_heads
    q = torch.empty((num_tokens, num_q_heads, head_dim), dtype=qkv.dtype, device=qkv.device)
    if num_tokens == 0:
        return q
    if key_cache.dtype is _FP8:
        key_cache, value_cache = key_cache.view(torch.uint8), value_cache.view(torch.uint8)
    rows, cos, sin = aligned_rows(qkv), aligned_rows(cos), aligned_rows(sin)
    q_weight, k_weight, eps = (rows, rows, 0.0) if head_norm is None else head_norm
    _qk_norm_rope_store_kernel[(num_tokens, num_heads)](
        *(rows, cos, sin, q_weight.contiguous(), k_weight.contiguous(), slot_mapping.contiguous()),
        *(q, key_cache, value_cache),
        *(stride_of_rows(rows), stride_of_rows(cos), stride_of_rows(sin), *key_cache.stride()[:3]),
        *(num_q_heads, num_kv_heads, num_blocks, block_size, eps, keys_scale, values_scale),
        HAS_NORM=head_norm is not None,
        HALF=head_dim // 2,
        BLOCK_HALF=triton.next_power_of_2(head_dim // 2),
        num_warps=1,
    )
    return q


def _aot_case(name: str, kind: str, head_dim: int, has_norm: bool, cache: str = "") -> AotCase:
    pointers = ("qkv_ptr", "cos_ptr", "sin_ptr", "q_weight_ptr", "k_weight_ptr", "slot_mapping_ptr")
    types = (f"*{kind}", "*fp32", "*fp32", f"*{kind}", f"*{kind}", "*i64")
    strides = ("qkv_stride_token", "cos_stride_token", "sin_stride_token")
    strides += ("cache_stride_block", "cache_stride_row", "cache_stride_head")
    signature = {
        **dict(zip(pointers, types, strict=True)),
        "q_ptr": f"*{kind}",
        **dict.fromkeys(("key_cache_ptr", "value_cache_ptr"), "*u8" if cache else f"*{kind}"),
        **dict.fromkeys(strides, "i32:16"),
        "num_q_heads": "i32:16",
        "num_kv_heads": "i32",
        "num_blocks": "i32",
        "block_size": "i32:16",
        **dict.fromkeys(("eps", "keys_scale", "values_scale"), "fp32"),
        "HAS_NORM": "constexpr",
        "HALF": "constexpr",
        "BLOCK_HALF": "constexpr",
    }
    half = head_dim // 2
    constexprs = {"HAS_NORM": has_norm, "HALF": half, "BLOCK_HALF": triton.next_power_of_2(half)}
    title = f"qk_norm_rope_store {name} {head_dim}{' with norm' if has_norm else ''}{cache}"
    return AotCase(title, _qk_norm_rope_store_kernel, signature, constexprs, num_warps=1)


_FP8_CASES = ((64, False), (128, True))
AOT = (
    *(
        _aot_case(*dtype, head_dim, has_norm)
        for dtype in (("bfloat16", "bf16"), ("float16", "fp16"))
        for head_dim in (64, 128)
        for has_norm in (False, True)
    ),
    _aot_case("float32", "fp32", 128, True),
    _aot_case("bfloat16", "bf16", MAX_HEAD_DIM, True),
    *(_aot_case("bfloat16", "bf16", head_dim, has_norm, ", cache float8_e4m3") for head_dim, has_norm in _FP8_CASES),
)
