"""A block adds attention and feed-forward to the residual stream, each after a norm."""

from typing import Any

import torch

from sureact.layers.attention_metadata import AttentionContext
from sureact.layers.norm import RmsNorm
from sureact.models.decoder_block import DecoderBlock
from sureact_kernels.attention_plan import plan_attention


class Twice:
    """Stands for a sublayer: doubles what it gets."""

    def __call__(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return 2 * x


def test_the_residual_stream_carries_the_sum_of_what_came_before() -> None:
    stand_in: Any = Twice()
    norm = RmsNorm(torch.ones(8), 1e-6)
    block = DecoderBlock(norm, stand_in, norm, stand_in)
    plan = plan_attention(torch.zeros(1, 1, dtype=torch.int64), [3], [3], block_size=16, group=1)
    where = AttentionContext(torch.ones(3, 8), torch.zeros(3, 8), torch.arange(3), plan, is_invariant=True)
    x = torch.randn(3, 8)
    none = torch.empty(0)
    out, residual = block(x, None, none, none, where)
    assert torch.equal(residual, x + 2 * norm(x))
    assert torch.equal(out, 2 * norm(residual))
    again, total = block(out, residual, none, none, where)
    middle = residual + out
    assert torch.equal(total, middle + 2 * norm(middle))
    assert torch.equal(again, 2 * norm(total))
