from collections.abc import Callable
from typing import Any

import torch

from sureact.distributed.communicator import Communicator
from sureact.layers.linear import Linear, SummedLinear
from sureact_kernels.linear import DenseWeight


def test_multiplies_by_the_weight_and_adds_the_bias() -> None:
    weight, bias, x = torch.randn(6, 8), torch.randn(6), torch.randn(3, 8)
    expected = (x.double() @ weight.double().T + bias).float()
    torch.testing.assert_close(Linear(DenseWeight(weight), bias)(x, invariant=True), expected)


def test_columns_that_several_processes_share_add_up_and_the_bias_comes_once(
    on_two_ranks: Callable[..., list[Any]],
) -> None:
    weight, bias, x = torch.randn(6, 8), torch.randn(6), torch.randn(3, 8)

    def work(ranks: Communicator) -> torch.Tensor:
        columns = ranks.shard.stretch(8)
        part = SummedLinear(DenseWeight(weight[:, columns].contiguous()), bias, ranks)
        return part(x[:, columns].contiguous(), invariant=True)

    first, second = on_two_ranks(work)
    torch.testing.assert_close(first, (x.double() @ weight.double().T + bias).float())
    assert torch.equal(first, second)
