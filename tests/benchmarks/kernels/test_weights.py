import pytest
import torch
import torch.nn.functional as F  # noqa: N812  the field's name for it
from benchmarks.kernels.weights import GPU_FORMS, weight_of

from sureact_kernels.linear import linear
from sureact_kernels.testing import assert_close


@pytest.mark.parametrize("form", GPU_FORMS)
def test_both_matrices_are_the_same(form: str) -> None:
    torch.manual_seed(0)
    weight, dense = weight_of(form, 96, 64)
    assert dense.shape == (weight.out_features, 64)
    x = torch.randn(3, 64)
    assert_close(linear(x, weight), F.linear(x.double(), dense.double()), torch.bfloat16)
