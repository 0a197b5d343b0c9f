from collections.abc import Callable
from typing import Any

import pytest
import torch

from sureact.distributed.communicator import Communicator
from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.linear import Linear
from sureact.layers.mixture_of_experts import MixtureOfExperts, SummedExperts
from sureact_kernels.linear import DenseWeight


def dense(out_features: int, in_features: int) -> Linear:
    return Linear(DenseWeight(torch.randn(out_features, in_features)))


def block(norm_topk_prob: bool) -> MixtureOfExperts:
    experts = [GatedMlp(dense(24, 8), dense(8, 12)) for _ in range(5)]
    return MixtureOfExperts(dense(5, 8), experts, num_experts_per_token=2, norm_topk_prob=norm_topk_prob)


@pytest.mark.parametrize("norm_topk_prob", [True, False])
def test_each_token_is_the_weighted_sum_of_its_likeliest_experts(norm_topk_prob: bool) -> None:
    moe = block(norm_topk_prob)
    x = torch.randn(7, 8)
    out = moe(x, invariant=True)
    for row in range(7):
        weights, chosen = moe.router(x[row : row + 1], invariant=True).softmax(-1)[0].topk(2)
        if norm_topk_prob:
            weights = weights / weights.sum()
        expected = sum(
            weight * moe.experts[int(index)](x[row : row + 1], invariant=True)[0]
            for weight, index in zip(weights, chosen, strict=True)
        )
        torch.testing.assert_close(out[row], expected, rtol=1e-4, atol=1e-4)


def test_a_token_has_the_same_bits_in_any_company() -> None:
    moe = block(norm_topk_prob=True)
    x = torch.randn(40, 8)
    together = moe(x, invariant=True)
    assert all(torch.equal(moe(x[i : i + 1], invariant=True), together[i : i + 1]) for i in range(40))


def test_experts_whose_columns_several_processes_share_add_up(on_two_ranks: Callable[..., list[Any]]) -> None:
    moe = block(norm_topk_prob=True)
    x = torch.randn(7, 8)

    def part(expert: GatedMlp, columns: slice) -> GatedMlp:
        gate, up = expert.gate_up.weight.weight.chunk(2)  # pyright: ignore[reportAttributeAccessIssue]
        down = expert.down.weight.weight[:, columns].contiguous()  # pyright: ignore[reportAttributeAccessIssue]
        return GatedMlp(Linear(DenseWeight(torch.cat((gate[columns], up[columns])))), Linear(DenseWeight(down)))

    def work(ranks: Communicator) -> torch.Tensor:
        experts = [part(expert, ranks.shard.stretch(12)) for expert in moe.experts]
        share = MixtureOfExperts(moe.router, experts, num_experts_per_token=2, norm_topk_prob=True)
        return SummedExperts(share, ranks)(x, invariant=True)

    first, second = on_two_ranks(work)
    torch.testing.assert_close(first, moe(x, invariant=True), rtol=1e-4, atol=1e-4)
    assert torch.equal(first, second)
