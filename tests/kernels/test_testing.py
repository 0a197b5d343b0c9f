import pytest
import torch

from sureact_kernels.testing import RELATIVE_TOLERANCE, assert_close


@pytest.mark.parametrize("dtype", RELATIVE_TOLERANCE)
def test_twice_the_tolerance_is_refused(dtype: torch.dtype) -> None:
    exact = torch.ones(3, dtype=torch.float64)
    assert_close(exact * (1 + 0.5 * RELATIVE_TOLERANCE[dtype]), exact, dtype)
    with pytest.raises(AssertionError):
        assert_close(exact * (1 + 3 * RELATIVE_TOLERANCE[dtype]), exact, dtype)
