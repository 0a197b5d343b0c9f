from collections.abc import Generator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sureact.execution.decode_buffers import MOST_STOP_LEN, DecodeBuffers, DecodeRow
from sureact_kernels.errors import KernelInputError

BLOCK_SIZE, DUMMY = 4, 9


@pytest.fixture
def buffers() -> DecodeBuffers:
    return DecodeBuffers(
        max_rows=4, max_blocks=3, block_size=BLOCK_SIZE, dummy_block=DUMMY, num_logits=40, device=torch.device("cpu")
    )


def load(buffers: DecodeBuffers, rows: list[DecodeRow], num_rows: int) -> None:
    buffers.load(rows, num_rows)
    buffers.load_stops(rows, num_rows)


def pick(buffers: DecodeBuffers, *token_ids: int) -> None:
    buffers.feed(torch.tensor(token_ids))


def test_a_row_writes_behind_its_context_and_padding_into_the_dummy_block(buffers: DecodeBuffers) -> None:
    buffers.load([DecodeRow(7, 5, [3, 8]), DecodeRow(2, 0, [1])], 4)
    assert buffers.rows.token_ids.tolist() == [7, 2, 0, 0]
    assert buffers.rows.context_lens.tolist() == [6, 1, 1, 1]
    assert buffers.rows.slots[:4].tolist() == [8 * BLOCK_SIZE + 1, BLOCK_SIZE, DUMMY * BLOCK_SIZE, DUMMY * BLOCK_SIZE]


def test_what_was_picked_is_what_the_next_step_computes(buffers: DecodeBuffers) -> None:
    buffers.load([DecodeRow(7, 2, [3, 8])], 2)
    pick(buffers, 11, 5)
    assert buffers.rows.token_ids[0] == 11
    assert buffers.rows.slots[:1].tolist() == [3 * BLOCK_SIZE + 3]
    pick(buffers, 12, 5)
    assert buffers.rows.slots[:2].tolist() == [8 * BLOCK_SIZE, DUMMY * BLOCK_SIZE]
    assert buffers.rows.context_lens.tolist()[:2] == [5, 1]
    assert buffers.fetch(1).wait() == [12]


def test_a_row_that_met_a_stop_runs_on_in_the_dummy_block(buffers: DecodeBuffers) -> None:
    rows = [
        DecodeRow(1, 1, [3], generated=[4, 1], stops=((4, 1, 2), (30,))),
        DecodeRow(1, 1, [5], generated=[1], stops=((4, 1, 2),)),
        DecodeRow(1, 1, [6], generated=[1], stops=((30,),)),
    ]
    load(buffers, rows, 4)
    pick(buffers, 2, 2, 30, 30)
    picks = buffers.fetch(3)
    assert picks.wait() == [2, 2, 30]
    assert picks.has_stopped() == [True, False, True]
    assert buffers.rows.slots[:3].tolist() == [DUMMY * BLOCK_SIZE, 5 * BLOCK_SIZE + 2, DUMMY * BLOCK_SIZE]
    pick(buffers, 30, 30, 30, 30)
    assert buffers.rows.positions.tolist()[:3] == [0, 3, 0]


def test_a_stop_does_not_begin_before_the_generated_text(buffers: DecodeBuffers) -> None:
    """Of the prompt the device knows nothing."""
    load(buffers, [DecodeRow(4, 1, [3], generated=[], stops=((4, 2),))], 1)
    pick(buffers, 2)
    assert buffers.fetch(1).has_stopped() == [False]


def test_stops_that_do_not_fit_are_left_to_the_host(buffers: DecodeBuffers) -> None:
    too_long = tuple(range(MOST_STOP_LEN + 1))
    many = tuple((token_id,) for token_id in range(1, 41))
    load(buffers, [DecodeRow(0, 1, [3], generated=[0], stops=(too_long, *many))], 1)
    pick(buffers, 32)
    assert buffers.fetch(1).has_stopped() == [True]
    load(buffers, [DecodeRow(0, 1, [3], generated=[0], stops=(too_long, *many))], 1)
    pick(buffers, 33)
    assert buffers.fetch(1).has_stopped() == [False]


def test_a_fault_stops_its_row_and_is_told_when_it_is_read(buffers: DecodeBuffers) -> None:
    load(buffers, [DecodeRow(1, 1, [3]), DecodeRow(1, 1, [5])], 2)
    pick(buffers, -1, 6)
    with pytest.raises(KernelInputError):
        buffers.fetch(2).wait()
    assert buffers.rows.token_ids.tolist()[:2] == [0, 6]
    assert buffers.rows.slots[:2].tolist() == [DUMMY * BLOCK_SIZE, 5 * BLOCK_SIZE + 2]


def test_padded_rows_may_pick_anything(buffers: DecodeBuffers) -> None:
    buffers.load_masks(torch.tensor([[5, 1]], dtype=torch.int32), 2)
    assert buffers.masks(2).tolist() == [[5, 1], [-1, -1]]


def test_two_steps_may_be_on_their_way(buffers: DecodeBuffers) -> None:
    load(buffers, [DecodeRow(1, 1, [3])], 1)
    pick(buffers, 2)
    first = buffers.fetch(1)
    pick(buffers, 3)
    second = buffers.fetch(1)
    assert (first.wait(), second.wait()) == ([2], [3])


def test_seen_ids_are_penalized_and_what_is_picked_is_seen_then(buffers: DecodeBuffers) -> None:
    seen = np.array([1 << 5, 0], dtype=np.int32)
    load(buffers, [DecodeRow(5, 1, [3], repetition_penalty=2.0, seen=seen), DecodeRow(5, 1, [4])], 2)
    buffers.load_masks(torch.full((2, 2), -1, dtype=torch.int32), 2)
    logits = torch.zeros(2, 40)
    logits[:, 5], logits[:, 33], logits[:, 34] = 4.0, 3.0, 1.75
    for expected in ([33, 5], [5, 5]):
        picked = buffers.pick(logits)
        assert picked.tolist() == expected
        buffers.feed(picked)
    load(buffers, [DecodeRow(5, 1, [3])], 2)
    assert buffers.pick(logits).tolist() == [5, 5]


def test_masks_travel_beside_the_pass_and_what_comes_after_waits_for_them(
    buffers: DecodeBuffers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for the streams of a GPU: the copy is on a stream of its own, and its event is waited for."""
    done: list[str] = []

    @contextmanager
    def stream(used: object) -> Generator[None]:
        assert used is copies
        done.append("copy from here")
        yield
        done.append("to here")

    copies = SimpleNamespace(record_event=lambda: done.append("event") or "the event")
    passes = SimpleNamespace(wait_event=lambda event: done.append(f"pass waits for {event}"))  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "stream", stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: passes)  # pyright: ignore
    monkeypatch.setattr(buffers, "_mask_copies", copies)
    monkeypatch.setattr(buffers._masks, "send", lambda _: done.append("copy"))  # pyright: ignore
    buffers.load_masks(torch.tensor([[5, 1]], dtype=torch.int32), 1)
    assert done == ["copy from here", "copy", "event", "to here", "pass waits for the event"]
