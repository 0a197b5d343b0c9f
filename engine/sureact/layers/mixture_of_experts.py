"""A feed-forward block of many experts, of which each token uses a few."""

from collections.abc import Sequence

import torch

from sureact.distributed.communicator import Communicator
from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.linear import Linear


class MixtureOfExperts:
    """Routes each token to its `num_experts_per_token` likeliest experts and adds their weighted results."""

    __slots__ = ("experts", "norm_topk_prob", "num_experts_per_token", "router")

    def __init__(
        self, router: Linear, experts: Sequence[GatedMlp], *, num_experts_per_token: int, norm_topk_prob: bool
    ) -> None:
        self.router = router
        self.experts = experts
        self.num_experts_per_token = num_experts_per_token
        self.norm_topk_prob = norm_topk_prob

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Map `[num_tokens, hidden_size]` to the same shape.

        A token's experts are added in the order of their index, so its sum is the same in any batch.
        """
        probabilities = self.router(x, invariant=invariant).float().softmax(-1)
        weights, chosen = probabilities.topk(self.num_experts_per_token, dim=-1)
        if self.norm_topk_prob:
            weights = weights / weights.sum(-1, keepdim=True)
        weights = weights.to(x.dtype)
        out = torch.zeros_like(x)
        for index in chosen.unique().tolist():
            tokens, ranks = (chosen == index).nonzero(as_tuple=True)
            result = self.experts[index](x[tokens], invariant=invariant)
            out[tokens] += result * weights[tokens, ranks].unsqueeze(1)
        return out


class SummedExperts(MixtureOfExperts):
    """A share of every expert's columns: the results of all processes add up."""

    __slots__ = ("_communicator",)

    def __init__(self, share: MixtureOfExperts, communicator: Communicator) -> None:
        super().__init__(
            share.router,
            share.experts,
            num_experts_per_token=share.num_experts_per_token,
            norm_topk_prob=share.norm_topk_prob,
        )
        self._communicator = communicator

    def __call__(self, x: torch.Tensor, *, invariant: bool) -> torch.Tensor:
        """Map `[num_tokens, hidden_size]` to the same shape, the same in all processes."""
        return self._communicator.sum(super().__call__(x, invariant=invariant))
