# pyright: basic, reportCallIssue=false
"""Kernels that do nothing, to learn what a launch costs; imports Triton, so only where there is a GPU."""

import triton
import triton.language as tl
from triton.language.extra import cuda


@triton.jit
def empty_kernel(x_ptr, LIMIT: tl.constexpr):  # noqa: N803  as Triton names its constants
    """Read nothing and write nothing: one program, `x` `[1]`."""
    if LIMIT < 0:
        tl.store(x_ptr, 0.0)


@triton.jit
def early_kernel(x_ptr, LIMIT: tl.constexpr):  # noqa: N803
    """Do nothing, but let the next kernel start early and wait for the one before, as dependent launches do."""
    cuda.gdc_launch_dependents()
    cuda.gdc_wait()
    if LIMIT < 0:
        tl.store(x_ptr, 0.0)


def launch_empty(x) -> None:
    """Launch one empty kernel."""
    empty_kernel[(1,)](x, LIMIT=0, num_warps=1)


def launch_early(x) -> None:
    """Launch one as a programmatic dependent launch."""
    early_kernel[(1,)](x, LIMIT=0, num_warps=1, launch_pdl=True)
