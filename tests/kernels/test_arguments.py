import pytest
import torch

from sureact_kernels.arguments import check_device, check_dtype, check_shape
from sureact_kernels.errors import KernelInputError


def test_a_shape_may_leave_dimensions_open() -> None:
    check_shape("op", "x", torch.zeros(3, 4), (None, 4))
    with pytest.raises(KernelInputError, match=r"op: x has shape \[3, 4\]; it must be \[any, 5\]"):
        check_shape("op", "x", torch.zeros(3, 4), (None, 5))
    with pytest.raises(KernelInputError, match=r"\[3, 4\]; it must be \[any\]"):
        check_shape("op", "x", torch.zeros(3, 4), (None,))


def test_a_dtype_is_named_with_those_allowed() -> None:
    with pytest.raises(KernelInputError, match=r"torch.int32.*torch.int64"):
        check_dtype("op", "x", torch.zeros(1, dtype=torch.int32), (torch.int64,))


def test_a_device_is_named_with_the_one_it_must_be() -> None:
    check_device("op", "x", torch.zeros(1), torch.device("cpu"))
    with pytest.raises(KernelInputError, match=r"op: x is on meta; it must be on cpu\."):
        check_device("op", "x", torch.zeros(1, device="meta"), torch.device("cpu"))
