import pytest
import torch

from sureact_kernels.embedding import embedding
from sureact_kernels.errors import KernelInputError
from sureact_kernels.testing import AWKWARD_SIZES


@pytest.mark.parametrize("hidden_size", AWKWARD_SIZES)
def test_each_row_is_the_row_of_its_token(hidden_size: int) -> None:
    weight = torch.randn(50, hidden_size)
    token_ids = torch.tensor([3, 0, 49, 3])
    out = embedding(token_ids, weight)
    assert all(torch.equal(out[i], weight[t]) for i, t in enumerate(token_ids.tolist()))


def test_no_tokens_give_no_rows() -> None:
    assert embedding(torch.empty(0, dtype=torch.int64), torch.randn(5, 8)).shape == (0, 8)


def test_ids_of_another_dtype_are_refused_with_both_dtypes() -> None:
    with pytest.raises(KernelInputError, match=r"int32.*int64"):
        embedding(torch.zeros(1, dtype=torch.int32), torch.randn(5, 8))
