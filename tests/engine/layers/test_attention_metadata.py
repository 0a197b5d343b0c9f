import torch

from sureact.layers.attention_metadata import AttentionMetadata
from sureact.layers.rotary import RotaryTable


def test_the_context_holds_the_angles_of_the_positions_and_the_plan_of_the_tokens() -> None:
    metadata = AttentionMetadata(
        positions=torch.tensor([4, 0, 1, 2]),
        slot_mapping=torch.tensor([4, 16, 17, 18]),
        block_tables=torch.tensor([[0], [1]]),
        context_lens=(5, 3),
        query_lens=(1, 3),
        is_invariant=True,
    )
    rotary = RotaryTable(torch.tensor([1.0, 0.1]), 1.0, 8)
    context = metadata.context(rotary, block_size=16, group=2)
    assert torch.equal(context.cos, rotary.at(metadata.positions)[0])
    assert torch.equal(context.sin, rotary.at(metadata.positions)[1])
    assert context.slot_mapping is metadata.slot_mapping
    assert (context.plan.num_tokens, context.plan.group) == (4, 2)
    assert context.is_invariant
