"""What is ordered arrives as it was meant."""

from dataclasses import replace

import pytest
import torch

from sureact.execution.shard_orders import (
    Order,
    PassInputs,
    Wanted,
    block_order,
    head_order,
    read_head_order,
    read_numbers,
)

INPUTS = PassInputs(
    token_ids=[7, 8, 9, 250],
    positions=[4, 5, 6, 0],
    slots=[12, 13, 14, 40],
    query_lens=[3, 1],
    context_lens=[7, 1],
    block_tables=[[2, 3], [5, 5]],
    picked_rows=[2, 3],
    is_invariant=True,
)


@pytest.mark.parametrize("inputs", [INPUTS, replace(INPUTS, picked_rows=[], is_invariant=False)])
def test_a_pass_is_read_as_it_was_written(inputs: PassInputs) -> None:
    order, numbers = read_numbers(inputs.pack())
    assert order == Order.BLOCKS
    assert PassInputs.unpack(numbers) == inputs


def test_the_layers_get_what_the_pass_says() -> None:
    metadata = INPUTS.metadata(torch.device("cpu"))
    assert metadata.positions.tolist() == INPUTS.positions
    assert metadata.slot_mapping.tolist() == INPUTS.slots
    assert metadata.block_tables.tolist() == INPUTS.block_tables
    assert (metadata.query_lens, metadata.context_lens) == ((3, 1), (7, 1))
    assert metadata.is_invariant


@pytest.mark.parametrize("wanted", [Wanted.NOTHING, Wanted.LOGITS])
def test_an_order_for_the_head_without_masks(wanted: Wanted) -> None:
    assert read_head_order(head_order(wanted), 3) == (wanted, None)


def test_masks_arrive_bit_by_bit() -> None:
    masks = torch.randint(-(2**31), 2**31 - 1, (3, 9), dtype=torch.int32)
    wanted, found = read_head_order(head_order(Wanted.LIKELIEST, masks[:, :7]), 3)
    assert wanted == Wanted.LIKELIEST
    assert found is not None
    assert torch.equal(found, masks[:, :7])


def test_blocks_are_named_in_order() -> None:
    assert read_numbers(block_order(Order.COPY, [3, 1, 2])) == (Order.COPY, [3, 1, 2])
    assert read_numbers(block_order(Order.END, ())) == (Order.END, [])
