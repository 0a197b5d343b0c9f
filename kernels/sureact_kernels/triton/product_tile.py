# pyright: basic
# Triton declares neither what its decorators add to a kernel nor what its ranges yield:
# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false
"""Parts of every product: tiles of a matrix in each of its forms, the sum of one split, the last step of a result."""

import triton
import triton.language as tl

from sureact_kernels.triton.interpreter import IS_INTERPRETED


@triton.jit
def load_weights(
    weight_ptr, scales_ptr, weight_stride_n, outs, start, out_features, in_features, DTYPE: tl.constexpr,
    FORM: tl.constexpr, GROUP_SIZE: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """Return rows `outs` and columns `start` to `start + BLOCK_K` of a matrix, in DTYPE, that of `x`.

    int8 and fp8 are not scaled: both are exact in bfloat16, and `finished` scales the sum. int4 is, and is rounded.

    weight_ptr: `[out_features, in_features]`, or `[out_features, in_features / 2]` of uint8 for int4; fp8 as uint8.
    scales_ptr: `[in_features / GROUP_SIZE, out_features, 2]` for int4.
    outs: int64 `[BLOCK_N]`, each below out_features.
    """
    if FORM == "int4":
        return _load_int4(
            weight_ptr, scales_ptr, weight_stride_n, outs, start, out_features, in_features, GROUP_SIZE, BLOCK_N,
            BLOCK_K, EVEN_K,
        ).to(DTYPE)  # fmt: skip
    columns = start + tl.arange(0, BLOCK_K)
    weight_ptrs = weight_ptr + outs[:, None] * weight_stride_n + columns[None, :]
    weights = tl.load(weight_ptrs) if EVEN_K else tl.load(weight_ptrs, mask=(columns < in_features)[None, :], other=0)
    if FORM == "fp8":
        # Moves the exponent of e4m3 into that of float32, whose bias is larger by 120. Not a cast: GPUs before Ada and
        # Hopper have none.
        bits = weights.to(tl.uint32)
        magnitude = ((bits & 0x7F) << 20).to(tl.float32, bitcast=True) * 1.329227995784916e36
        magnitude = tl.where((bits & 0x7F) == 0x7F, float("nan"), magnitude)
        return tl.where(bits >= 0x80, -magnitude, magnitude).to(DTYPE)
    # By way of float32: the interpreter would take an integer for the bits of a bfloat16.
    return weights.to(tl.float32).to(DTYPE) if FORM == "int8" else weights.to(DTYPE)


@triton.jit
def _load_int4(
    weight_ptr, scales_ptr, weight_stride_n, outs, start, out_features, in_features,
    GROUP_SIZE: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """Return `(q - 8) * scale + zero` in float32. The product is exact, so that it does not matter if it is fused."""
    WIDTH: tl.constexpr = GROUP_SIZE if GROUP_SIZE < BLOCK_K else BLOCK_K
    pairs = start // 2 + tl.arange(0, BLOCK_K // 2)
    groups = start // GROUP_SIZE + tl.arange(0, BLOCK_K // WIDTH)
    weight_ptrs = weight_ptr + outs[:, None] * weight_stride_n + pairs[None, :]
    scale_ptrs = scales_ptr + (groups[None, :] * out_features + outs[:, None]) * 2
    if EVEN_K:
        nibbles = tl.load(weight_ptrs)
        scales, zeros = tl.load(scale_ptrs), tl.load(scale_ptrs + 1)
    else:
        inside = (groups * GROUP_SIZE < in_features)[None, :]
        nibbles = tl.load(weight_ptrs, mask=(pairs * 2 < in_features)[None, :], other=0)
        scales, zeros = tl.load(scale_ptrs, mask=inside, other=0), tl.load(scale_ptrs + 1, mask=inside, other=0)
    steps = tl.join(nibbles & 15, nibbles >> 4).reshape(BLOCK_N, BLOCK_K // WIDTH, WIDTH).to(tl.float32) - 8
    weights = steps * scales.to(tl.float32)[:, :, None] + zeros.to(tl.float32)[:, :, None]
    return weights.reshape(BLOCK_N, BLOCK_K)


@triton.jit
def split_sums(
    x_ptr, weight_ptr, scales_ptr, x_stride_m, weight_stride_n, first_row, outs, first, num_rows, out_features,
    in_features, split_size, FORM: tl.constexpr, GROUP_SIZE: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr, TILE_M: tl.constexpr, NUM_TILES: tl.constexpr,
):  # fmt: skip
    """Return sums over columns `first` to `first + split_size`: a tuple of `[BLOCK_N, TILE_M]` float32, one per tile.

    The matrix is the left operand, since it fills the 64 rows that Hopper's tensor cores want when `x` has few. Each
    tile of weights is read once and multiplied with all tiles of `x`. Rows and outs that do not exist repeat others:
    no element of a tile depends on the rest of it.

    x_ptr: `[num_rows, in_features]`, last dimension contiguous.
    """
    sums = ()
    for _ in tl.static_range(NUM_TILES):
        sums = sums + (tl.zeros((BLOCK_N, TILE_M), tl.float32),)  # noqa: RUF005  what Triton understands
    for start in range(first, tl.minimum(first + split_size, in_features), BLOCK_K):
        columns = start + tl.arange(0, BLOCK_K)
        weights = load_weights(
            weight_ptr, scales_ptr, weight_stride_n, outs, start, out_features, in_features, x_ptr.dtype.element_ty,
            FORM, GROUP_SIZE, BLOCK_N, BLOCK_K, EVEN_K,
        )  # fmt: skip
        added = ()
        for tile in tl.static_range(NUM_TILES):
            rows = tl.minimum(first_row + tile * TILE_M + tl.arange(0, TILE_M), num_rows - 1).to(tl.int64)
            x_ptrs = x_ptr + rows[None, :] * x_stride_m + columns[:, None]
            x = tl.load(x_ptrs) if EVEN_K else tl.load(x_ptrs, mask=(columns < in_features)[:, None], other=0)
            added = added + (_add_product(sums[tile], weights, x),)  # noqa: RUF005
        sums = added
    return sums


@triton.jit
def _add_product(total, weights, x):
    """Return `total + weights @ x` in float32."""
    if IS_INTERPRETED:
        return total + tl.dot(weights.to(tl.float64), x.to(tl.float64), out_dtype=tl.float64).to(tl.float32)
    return tl.dot(weights, x, total, input_precision="ieee")


@triton.jit
def finished(total, scales_ptr, bias_ptr, outs, FORM: tl.constexpr, HAS_BIAS: tl.constexpr):
    """Scale a sum by its row of the matrix and add the bias: `outs` broadcasts to the shape of `total`."""
    scale = tl.load(scales_ptr + outs).to(tl.float32) if FORM == "int8" or FORM == "fp8" else 1.0
    if HAS_BIAS:
        # Fused by name: a compiler that fuses in one kernel and not in another would change bits.
        return tl.fma(total, tl.zeros_like(total) + scale, tl.zeros_like(total) + tl.load(bias_ptr + outs))
    return total * scale


@triton.jit
def gated(gate, up):
    """Return `silu(gate) * up`, without overflow on the way."""
    small = tl.exp(-tl.abs(gate))
    return gate * tl.where(gate >= 0, 1.0, small) / (1 + small) * up
