from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from sureact_kernels.arguments import FLOAT_DTYPES
from sureact_kernels.embedding import embedding as reference
from sureact_kernels.testing import AWKWARD_SIZES
from sureact_kernels.triton import embedding as module
from sureact_kernels.triton.embedding import BLOCK_SIZE, embedding, takes


@pytest.fixture(autouse=True)
def nan_in_new_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel does not write shows."""
    new = torch.empty

    def empty(*args: Any, **kwargs: Any) -> torch.Tensor:
        out = new(*args, **kwargs)
        return out.fill_(torch.nan) if out.is_floating_point() and out.device.type == "cpu" else out

    monkeypatch.setattr(torch, "empty", empty)


@pytest.mark.parametrize("dtype", FLOAT_DTYPES)
@pytest.mark.parametrize("size", [*AWKWARD_SIZES, BLOCK_SIZE, 2 * BLOCK_SIZE + 1])
def test_each_row_is_the_row_of_its_token(size: int, dtype: torch.dtype) -> None:
    weight = torch.randn(50, size).to(dtype)
    token_ids = torch.tensor([3, 0, 49, 3])
    assert takes(token_ids, weight)
    assert torch.equal(embedding(token_ids, weight), weight[token_ids])


def test_strided_ids_and_rows_are_taken_as_they_are() -> None:
    weight, token_ids = torch.randn(50, 80)[::2, 1:41], torch.tensor([[3, 1], [0, 7], [24, 9]])
    for column in token_ids.unbind(1):
        assert torch.equal(embedding(column, weight), weight[column])


def test_ids_outside_of_the_table_give_nan_and_the_others_their_rows() -> None:
    weight = torch.randn(6, 40)[1:5]
    out = embedding(torch.tensor([-1, 3, 4, 2**40, -(2**40)]), weight)
    assert torch.equal(out[1], weight[3])
    assert out[[0, 2, 3, 4]].isnan().all()


def test_offsets_past_2_to_the_31_are_not_cut_off() -> None:
    memory = torch.from_numpy(np.zeros(2**31 + 2**20, np.float16))  # the system gives pages when they are written
    weight = memory.as_strided((2**11 + 1, 32), (2**20, 1))
    weight[-1] = torch.randn(32)
    assert torch.equal(embedding(torch.tensor([2**11]), weight)[0], weight[-1])


def test_no_tokens_give_no_rows() -> None:
    assert embedding(torch.ones(0, dtype=torch.int64), torch.randn(5, 8)).shape == (0, 8)


def test_other_dtypes_and_layouts_are_not_taken() -> None:
    token_ids, weight = torch.zeros(1, dtype=torch.int64), torch.randn(5, 8)
    assert not takes(token_ids.int(), weight)
    assert not takes(token_ids, weight.double())
    assert not takes(token_ids, weight.T)


def test_it_can_be_captured(without_kernels: Callable[[ModuleType], None]) -> None:
    """Tensors without values have none to wait for; the same holds for the reference."""
    without_kernels(module)
    case = torch.tensor([1, 2, 3]).to("meta"), torch.ones(7, 16).to("meta")
    assert embedding(*case).shape == reference(*case).shape == (3, 16)
