from typing import Any

import pytest
import torch

from sureact_kernels.linear import DenseWeight
from sureact_kernels.testing import assert_close
from sureact_kernels.triton import small_m_product as module
from sureact_kernels.triton.matrix_operand import MatrixOperand


@pytest.mark.parametrize("num_rows", [1, 15, 16, 17, 48, 64])
def test_every_number_of_rows_is_computed(num_rows: int) -> None:
    """Three tiles of 16 rows are padded to four."""
    matrix, x = torch.randn(70, 100), torch.randn(num_rows, 100)
    out = module.small_m_product(x, MatrixOperand.of(DenseWeight(matrix)))
    assert_close(out, x.double() @ matrix.double().T, torch.float32)


def test_splits_are_added_in_order() -> None:
    """Each of the others vanishes beside the first split, but their sum would not."""
    kernel: Any = module.merge_splits_kernel
    sums = torch.tensor([2.0**24, 1.0, 1.0]).reshape(3, 1, 1).repeat(1, 2, 300)
    out = torch.full((2, 300), torch.nan)
    kernel[(2, 2)](out, sums, None, None, 2, 300, 3, FORM="dense", HAS_BIAS=False, IS_GATED=False, BLOCK_N=256)
    assert torch.equal(out, torch.full((2, 300), 2.0**24))
