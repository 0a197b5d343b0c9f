# pyright: basic
"""The table of tile sizes of products: what is cut how, by the shape of the matrix and never by the number of rows."""

from typing import NamedTuple

ROWS_OF_A_TILE = 16
"""Rows of `x` in one `tl.dot` of the small-M product: fewer are padded, more take several dots of the same shape."""

MOST_SMALL_ROWS = 64
"""Rows up to which the small-M product runs: above, reading a matrix is no longer what takes the time."""


class ProductShape(NamedTuple):
    """How a matrix `[out_features, in_features]` is cut. It fixes the order of sums, and so the bits of a result."""

    block_n: int
    """Rows of the matrix that one program of the small-M product takes: 64 is the least that Hopper's tensor cores
    take at once."""
    block_k: int
    """Columns between two loads; the same for the small-M and the large-M product."""
    split_size: int
    """Columns whose sum is added up alone; sums of splits are added in order. A multiple of block_k."""


_BLOCK_K = {32: 32, 16: 64, 8: 128, 4: 64}
"""By bits of a weight: 128 bytes of a row, a line of the cache; for int4 32 bytes, since it is unpacked in registers,
into which 128 columns do not fit beside 64 rows of `x` on Hopper. Which is the fastest is not measured yet."""

_SPLIT_SIZES = ((1024, 256), (4096, 512), (8192, 1024), (16384, 2048))
"""Largest out_features of a class and its split size. Few rows give few programs, so that short splits have to fill the
chip: 132 multiprocessors on an H100 or H200. Not measured yet."""

_UNSPLIT_SIZE = 1 << 30
"""For matrices with rows enough to fill any chip."""


def product_shape(out_features: int, in_features: int, weight_bits: int) -> ProductShape:
    """Return how to cut a matrix.

    Args:
        out_features: rows of the matrix; for a gated product the rows of its gate.
        in_features: columns.
        weight_bits: bits that one weight takes: 32, 16, 8 or 4.
    """
    split_size = next((size for most, size in _SPLIT_SIZES if out_features <= most), _UNSPLIT_SIZE)
    return ProductShape(64, _BLOCK_K[weight_bits], min(split_size, -(-in_features // 256) * 256))


class LargeTile(NamedTuple):
    """What one program of the large-M product computes; it changes no bits."""

    block_m: int
    """Rows of `x`."""
    block_n: int
    """Rows of the matrix."""
    num_warps: int
    num_stages: int


def large_tile(weight_bits: int, *, is_gated: bool, is_fp8: bool = False) -> LargeTile:
    """Return the tile of the large-M product. Not measured yet.

    A gated product holds sums of gate and up at once, and float32 is multiplied without tensor cores: both would run
    out of registers with a larger tile. So would fp8 on an A100, which cannot convert it, with three stages.
    """
    if weight_bits == 32:
        return LargeTile(32, 64, num_warps=4, num_stages=2)
    return LargeTile(128, 64 if is_gated else 128, num_warps=8, num_stages=2 if is_fp8 else 3)
