# pyright: basic
"""`paged_attention` in Triton: which kernel attends from which queries, and how both are launched."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import torch
import triton

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.attention_plan import LONG_TILE_ROWS, SHORT_TILE_ROWS
from sureact_kernels.triton import decode_attention, prefill_attention
from sureact_kernels.triton.aot import FP_FUSION, AotCase
from sureact_kernels.triton.decode_attention import SPLIT_TOKENS

if TYPE_CHECKING:
    from sureact_kernels.attention_plan import AttentionPlan

_FP8 = torch.float8_e4m3fn
_FP8_UNIT = 256.0
"""What the kernels' bytes are too small by: see `widen`."""
_MERGE_OPTIONS: dict[str, Any] = {"num_warps": 1, "enable_fp_fusion": FP_FUSION}


def takes(q: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor) -> bool:
    """Tell whether this version computes these: the cache has the dtype of `q`, or e4m3, or any if `q` is float32."""
    cache_dtypes = {q.dtype, _FP8, *(FLOAT_DTYPES if q.dtype == torch.float32 else ())}
    return (
        q.dtype in FLOAT_DTYPES
        and key_cache.dtype == value_cache.dtype
        and key_cache.dtype in cache_dtypes
        and q.shape[2] % 8 == 0
        and q.shape[2] <= 256
        and q.shape[1] // key_cache.shape[2] <= LONG_TILE_ROWS
        and all(tensor.stride(-1) == 1 for tensor in (q, key_cache, value_cache))
    )


def paged_attention(
    q: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    plan: AttentionPlan,
    scale: float,
    keys_scale: float = 1.0,
    values_scale: float = 1.0,
) -> torch.Tensor:
    """See `sureact_kernels.paged_attention`.

    Sequences with few queries are cut into splits that run side by side, the others into many tiles. Neither the kernel
    nor the tile that a query falls into touches its bits.
    """
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if key_cache.dtype == _FP8:
        key_cache, value_cache = key_cache.view(torch.uint8), value_cache.view(torch.uint8)
        keys_scale, values_scale = keys_scale * _FP8_UNIT, values_scale * _FP8_UNIT
    score_scale = scale * keys_scale * math.log2(math.e)
    if plan.short_tiles.num_queries:
        _decode(q, key_cache, value_cache, plan, score_scale, values_scale, out)
    if plan.long_tiles.num_queries:
        _prefill(q, key_cache, value_cache, plan, score_scale, values_scale, out)
    return out


def _decode(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    score_scale: float,
    value_scale: float,
    out: torch.Tensor,
) -> None:
    tiles = plan.short_tiles
    num_kv_heads, head_dim = keys.shape[2:]
    num_splits = triton.cdiv(tiles.most_tokens, SPLIT_TOKENS)
    places = (tiles.num_queries, q.shape[1], num_splits)
    # Apart, since Triton compiles a kernel anew for a pointer that is aligned otherwise.
    peaks = torch.empty(places, dtype=torch.float32, device=q.device)
    totals = torch.empty(places, dtype=torch.float32, device=q.device)
    sums = torch.empty((*places, head_dim), dtype=torch.float32, device=q.device)
    strides = (*q.stride()[:2], *keys.stride()[:3], *values.stride()[:3])
    attend: Any = decode_attention.attend_split_kernel
    attend[(len(tiles.tiles), num_kv_heads, num_splits)](
        *(q, keys, values, plan.block_tables, plan.device_context_lens, tiles.tiles, peaks, totals, sums),
        *(score_scale, num_splits, plan.block_tables.shape[1], *strides),
        **_constants(q.dtype, plan.group, plan.block_size, head_dim, SHORT_TILE_ROWS),
        **_options(q.dtype, keys.dtype, head_dim, SHORT_TILE_ROWS),
    )
    decode_attention.merge_splits_kernel[(len(tiles.tiles), tiles.most_queries, q.shape[1])](
        *(peaks, totals, sums, plan.device_context_lens, tiles.tiles, out, value_scale, num_splits, out.stride(0)),
        **_merge_constants(head_dim),
        **_MERGE_OPTIONS,
    )


def _prefill(
    q: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    plan: AttentionPlan,
    score_scale: float,
    value_scale: float,
    out: torch.Tensor,
) -> None:
    tiles = plan.long_tiles
    num_kv_heads, head_dim = keys.shape[2:]
    strides = (*q.stride()[:2], out.stride(0), *keys.stride()[:3], *values.stride()[:3])
    attend: Any = prefill_attention.prefill_attention_kernel
    attend[(len(tiles.tiles), num_kv_heads)](
        *(q, keys, values, plan.block_tables, plan.device_context_lens, tiles.tiles, out),
        *(score_scale, value_scale, plan.block_tables.shape[1], *strides),
        **_constants(q.dtype, plan.group, plan.block_size, head_dim, LONG_TILE_ROWS),
        **_options(q.dtype, keys.dtype, head_dim, LONG_TILE_ROWS),
    )


def _constants(dtype: torch.dtype, group: int, block_size: int, head_dim: int, num_rows: int) -> dict[str, Any]:
    return {
        "GROUP": group,
        "BLOCK_SIZE": block_size,
        "HEAD_DIM": head_dim,
        "SPLIT_TOKENS": SPLIT_TOKENS,
        "BLOCK_ROWS": max(num_rows, triton.next_power_of_2(group)),
        "BLOCK_DIM": max(16, triton.next_power_of_2(head_dim)),
        # Part of the order of the sums, so that it must not depend on the tile.
        "BLOCK_TOKENS": 32 if dtype == torch.float32 or head_dim > 128 else 64,
    }


def _merge_constants(head_dim: int) -> dict[str, Any]:
    return {
        "HEAD_DIM": head_dim,
        "SPLIT_TOKENS": SPLIT_TOKENS,
        "BLOCK_DIM": max(16, triton.next_power_of_2(head_dim)),
    }


def _options(dtype: torch.dtype, cache_dtype: torch.dtype, head_dim: int, num_rows: int) -> dict[str, Any]:
    """Return the launch options, which touch no bits: more warps where a thread's registers would not do.

    For what is converted from e4m3, too; but in a prompt's tiles of small heads, 8 warps leave each thread half of the
    registers and do not halve what it needs, so that it spills.
    """
    is_wide = dtype == torch.float32 or head_dim > 128
    is_converted = cache_dtype == torch.uint8 and (head_dim > 64 or num_rows == SHORT_TILE_ROWS)
    num_warps = 8 if is_wide or is_converted else 4
    return {"num_warps": num_warps, "num_stages": 2 if is_wide else 3, "enable_fp_fusion": FP_FUSION}


def _aot_cases() -> tuple[AotCase, ...]:
    kernels = (
        ("attend_split", decode_attention.attend_split_kernel, SHORT_TILE_ROWS),
        ("prefill_attention", prefill_attention.prefill_attention_kernel, LONG_TILE_ROWS),
    )
    caches = (("bfloat16", "*bf16", torch.bfloat16), ("float8_e4m3", "*u8", torch.uint8))
    cases: list[AotCase] = []
    # Heads of Qwen2.5 0.5B, and of Qwen3 8B.
    for head_dim, group in ((64, 7), (128, 4)):
        for (name, kernel, num_rows), (cache, pointer, dtype) in itertools.product(kernels, caches):
            types = {"q_ptr": "*bf16", "keys_ptr": pointer, "values_ptr": pointer, "out_ptr": "*bf16"}
            constants = _constants(torch.bfloat16, group, 16, head_dim, num_rows)
            options = _options(torch.bfloat16, dtype, head_dim, num_rows)
            cases.append(_aot_case(f"{name} bfloat16 {head_dim}, cache {cache}", kernel, types, constants, options))
        kernel, constants = decode_attention.merge_splits_kernel, _merge_constants(head_dim)
        name = f"merge_splits bfloat16 {head_dim}"
        cases.append(_aot_case(name, kernel, {"out_ptr": "*bf16"}, constants, _MERGE_OPTIONS))
    return tuple(cases)


def _aot_case(
    name: str, kernel: Any, types: dict[str, str], constants: dict[str, Any], options: dict[str, Any]
) -> AotCase:
    by_name = {"tables_ptr": "*i64", "context_lens_ptr": "*i32", "tiles_ptr": "*i32", **types}
    signature: dict[str, str] = {}
    for argument in kernel.arg_names:
        if argument in constants:
            signature[argument] = "constexpr"
        elif argument.endswith("_ptr"):
            signature[argument] = by_name.get(argument, "*fp32")
        elif argument.endswith("_scale"):
            signature[argument] = "fp32"
        else:
            signature[argument] = "i32:16" if "_stride_" in argument else "i32"
    return AotCase(name, kernel, signature, constants, options["num_warps"], options.get("num_stages", 3))


AOT = _aot_cases()
