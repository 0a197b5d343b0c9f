# pyright: basic
"""The one switch between a kernel that is compiled and one that Triton's interpreter runs."""

import triton.language as tl
from triton import knobs

IS_INTERPRETED = tl.constexpr(knobs.runtime.interpret)
"""Whether TRITON_INTERPRET was set when this was imported. Where it is, kernels multiply in float64.

numpy would multiply the bits of bfloat16, and BLAS adds in an order that depends on the shape and on a row's place in
the tile. In float64 all orders round to the same float32, as on a tensor core an element depends on its own row and
column only. Whether a GPU keeps to that is what the benchmark of invariance checks.
"""
