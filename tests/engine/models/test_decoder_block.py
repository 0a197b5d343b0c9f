"""A block adds attention and feed-forward to the residual stream, each after a norm."""

from typing import Any

import torch

from sureact.layers.attention_metadata import AttentionMetadata
from sureact.layers.norm import RmsNorm
from sureact.models.decoder_block import DecoderBlock


class Twice:
    """Stands for a sublayer: doubles what it gets."""

    def __call__(self, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
        return 2 * x


def test_the_residual_stream_carries_the_sum_of_what_came_before() -> None:
    stand_in: Any = Twice()
    norm = RmsNorm(torch.ones(8), 1e-6)
    block = DecoderBlock(norm, stand_in, norm, stand_in)
    where = AttentionMetadata(
        positions=torch.arange(3),
        slot_mapping=torch.arange(3),
        block_tables=torch.zeros(1, 1, dtype=torch.int64),
        context_lens=(3,),
        query_lens=(3,),
        is_invariant=True,
    )
    x = torch.randn(3, 8)
    none = torch.empty(0)
    out, residual = block(x, None, (none, none), none, none, where)
    assert torch.equal(residual, x + 2 * norm(x))
    assert torch.equal(out, 2 * norm(residual))
    again, total = block(out, residual, (none, none), none, none, where)
    middle = residual + out
    assert torch.equal(total, middle + 2 * norm(middle))
    assert torch.equal(again, 2 * norm(total))
