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
_AOT_BLOCK_SIZE = 128
"""Tokens in a block of the engine's cache."""
_AOT_HEADS: dict[tuple[torch.dtype, torch.dtype], tuple[tuple[int, int], ...]] = {
    (torch.bfloat16, torch.bfloat16): ((64, 7), (128, 2), (128, 5), (128, 7), (128, 8), (128, 16), (256, 16)),
    (torch.bfloat16, torch.uint8): ((64, 7), (128, 2), (128, 16), (256, 16)),
    (torch.float32, torch.float32): ((64, 7), (128, 2), (256, 16)),
    (torch.float32, torch.uint8): ((64, 7), (128, 8), (256, 16)),
}
"""By dtype and the cache's: sizes of heads, and query heads per key head, that are compiled ahead of time. They are
those of Qwen2.5 0.5B and 7B and of Qwen3 0.6B, 14B, 32B and 235B, and the widest heads."""
_POINTERS = {torch.bfloat16: "*bf16", torch.float32: "*fp32", torch.uint8: "*u8"}
_FLOAT32_WARPS = {
    (SHORT_TILE_ROWS, 64): 4,
    (SHORT_TILE_ROWS, 128): 8,
    (SHORT_TILE_ROWS, 256): 8,
    (LONG_TILE_ROWS, 64): 16,
    (LONG_TILE_ROWS, 128): 8,
    (LONG_TILE_ROWS, 256): 16,
}
"""With which nothing spills, by rows of a tile and size of a head."""
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
    is_decode = num_rows == SHORT_TILE_ROWS
    if dtype == torch.float32:
        num_warps = _FLOAT32_WARPS[num_rows, max(64, triton.next_power_of_2(head_dim))]
        # One stage: what is on its way while others are multiplied would take the registers of the product.
        return {"num_warps": num_warps, "num_stages": 1, "enable_fp_fusion": FP_FUSION}
    is_wide = head_dim > 128
    is_converted = cache_dtype == torch.uint8
    num_warps = 8 if is_wide or (is_converted and (head_dim > 64 or is_decode)) else 4
    # What decoding converts fits into the registers with one stage less, or one more where a block has half the tokens.
    is_other = is_converted and is_decode
    return {"num_warps": num_warps, "num_stages": 2 if is_wide != is_other else 3, "enable_fp_fusion": FP_FUSION}


def _aot_cases() -> tuple[AotCase, ...]:
    kernels = (
        ("attend_split", decode_attention.attend_split_kernel, SHORT_TILE_ROWS),
        ("prefill_attention", prefill_attention.prefill_attention_kernel, LONG_TILE_ROWS),
    )
    cases: list[AotCase] = []
    for (dtype, cache), heads in _AOT_HEADS.items():
        for (head_dim, group), (name, kernel, num_rows) in itertools.product(heads, kernels):
            types = {"q_ptr": _POINTERS[dtype], "out_ptr": _POINTERS[dtype]}
            types |= dict.fromkeys(("keys_ptr", "values_ptr"), _POINTERS[cache])
            constants = _constants(dtype, group, _AOT_BLOCK_SIZE, head_dim, num_rows)
            options = _options(dtype, cache, head_dim, num_rows)
            case = f"{name} {_name(dtype)} {head_dim}, group {group}, cache {_name(cache)}"
            cases.append(_aot_case(case, kernel, types, constants, options))
    for dtype, head_dim in itertools.product((torch.bfloat16, torch.float32), (64, 128, 256)):
        name, types = f"merge_splits {_name(dtype)} {head_dim}", {"out_ptr": _POINTERS[dtype]}
        constants = _merge_constants(head_dim)
        cases.append(_aot_case(name, decode_attention.merge_splits_kernel, types, constants, _MERGE_OPTIONS))
    return tuple(cases)


def _name(dtype: torch.dtype) -> str:
    return "float8_e4m3" if dtype == torch.uint8 else str(dtype).removeprefix("torch.")


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
