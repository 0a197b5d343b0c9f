# pyright: basic
"""What products launch for the matrices of Qwen3 0.6B and 8B, for compiling ahead of time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sureact_kernels.triton.aot import AotCase
from sureact_kernels.triton.large_m_product import large_m_product_kernel
from sureact_kernels.triton.product_shapes import MOST_SMALL_ROWS, ROWS_OF_A_TILE, large_tile, product_shape
from sureact_kernels.triton.small_m_product import (
    MERGE_BLOCK,
    NUM_STAGES,
    NUM_WARPS,
    merge_splits_kernel,
    small_m_product_kernel,
)


class Form(NamedTuple):
    """A form of the matrix and the types of the kernels' pointers."""

    name: str
    form: str
    bits: int
    group_size: int
    x: str
    values: str
    scales: str | None


FORMS = (
    Form("bfloat16", "dense", 16, 0, "*bf16", "*bf16", None),
    Form("float16", "dense", 16, 0, "*fp16", "*fp16", None),
    Form("float32", "dense", 32, 0, "*fp32", "*fp32", None),
    Form("int8", "int8", 8, 0, "*bf16", "*i8", "*bf16"),
    Form("int4 in groups of 32", "int4", 4, 32, "*bf16", "*u8", "*bf16"),
    Form("int4 in groups of 128", "int4", 4, 128, "*bf16", "*u8", "*bf16"),
    Form("fp8", "fp8", 8, 0, "*bf16", "*u8", "*fp32"),
)

SHAPES = ((4096, 1024), (1024, 2048), (1024, 3072), (151_936, 1024), (6144, 4096), (4096, 4096), (4096, 12_288))
"""`[out_features, in_features]` of qkv, o, down and head of Qwen3 0.6B, and of qkv, o and down of 8B."""

GATED_SHAPES = ((6144, 1024), (24_576, 4096))
"""Those of gate_up of Qwen3 0.6B and 8B."""


BIASED_SHAPES = ((1152, 896), (4608, 3584))
"""Those of qkv of Qwen2.5 0.5B and 7B, which add a bias."""

BIASED_FORMS = ("bfloat16", "float32", "int8")
"""Whose products are compiled with a bias: the others add it as these do."""


def _case(name: str, kernel: Any, form: Form, out: str, constants: dict[str, Any], warps: int, stages: int) -> AotCase:
    types = {
        "out_ptr": out, "x_ptr": form.x, "sums_ptr": "*fp32", "weight_ptr": form.values, "num_rows": "i32",
        "out_features": "i32:16", "in_features": "i32:16", "x_stride_m": "i32:16", "weight_stride_n": "i32:16",
        "num_splits": "i32", "split_size": "i32:16",
    }  # fmt: skip
    constants = {**constants, "FORM": form.form, "GROUP_SIZE": form.group_size}
    if constants["HAS_BIAS"]:
        types["bias_ptr"] = form.x
    else:
        constants["bias_ptr"] = None
    if form.scales is None:
        constants["scales_ptr"] = None
    else:
        types["scales_ptr"] = form.scales
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    return AotCase(name, kernel, signature, {n: constants[n] for n in signature if n in constants}, warps, stages)


def _cases_of(form: Form, out_features: int, in_features: int, *, is_gated: bool, has_bias: bool) -> Iterator[AotCase]:
    num_outs = out_features // 2 if is_gated else out_features
    shape = product_shape(num_outs, in_features, form.bits)
    name = f"{'gated_linear' if is_gated else 'linear'} {form.name} [{out_features}, {in_features}]"
    name += " with bias" if has_bias else ""
    is_split = in_features > shape.split_size
    same = {
        "IS_GATED": is_gated, "HAS_BIAS": has_bias, "BLOCK_K": shape.block_k,
        "EVEN_K": in_features % shape.block_k == 0,
    }  # fmt: skip
    small = {**same, "IS_SPLIT": is_split, "BLOCK_N": shape.block_n, "TILE_M": ROWS_OF_A_TILE}
    out = "*fp32" if is_split else form.x
    for num_tiles in (1, MOST_SMALL_ROWS // ROWS_OF_A_TILE):
        yield _case(
            f"{name} {num_tiles * ROWS_OF_A_TILE} rows", small_m_product_kernel, form, out,
            {**small, "NUM_TILES": num_tiles}, NUM_WARPS, NUM_STAGES,
        )  # fmt: skip
    if is_split:
        merge = {"IS_GATED": is_gated, "HAS_BIAS": has_bias, "BLOCK_N": MERGE_BLOCK}
        yield _case(f"{name} merge", merge_splits_kernel, form, form.x, merge, 4, 3)
    tile = large_tile(form.bits, is_gated=is_gated, is_fp8=form.form == "fp8")
    large = {**same, "BLOCK_M": tile.block_m, "BLOCK_N": tile.block_n}
    yield _case(f"{name} many rows", large_m_product_kernel, form, form.x, large, tile.num_warps, tile.num_stages)


def _distinct_cases() -> Iterator[AotCase]:
    """Yield each kernel once: sizes of a matrix are no constants, so that many shapes share one."""
    seen: set[object] = set()
    for form in FORMS:
        plain, gated, biased = SHAPES, GATED_SHAPES, BIASED_SHAPES
        if form is not FORMS[0]:  # what they add is how a tile is read, which no shape changes
            plain, gated, biased = SHAPES[1:2], GATED_SHAPES[-1:], BIASED_SHAPES[-1:]
        shapes = [(*shape, False, False) for shape in plain] + [(*shape, True, False) for shape in gated]
        shapes += [(*shape, False, True) for shape in biased if form.name in BIASED_FORMS]
        for out_features, in_features, is_gated, has_bias in shapes:
            for case in _cases_of(form, out_features, in_features, is_gated=is_gated, has_bias=has_bias):
                key = (case.kernel, tuple(case.signature.items()), tuple(case.constexprs.items()))
                if key not in seen:
                    seen.add(key)
                    yield case


AOT = tuple(_distinct_cases())
