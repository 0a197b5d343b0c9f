"""The reference and Triton's version against a statement in plain Python."""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact_kernels import dispatch
from sureact_kernels.advance_rows import DecodeRows, advance_rows
from sureact_kernels.errors import KernelInputError
from sureact_kernels.triton import advance_rows as triton_module
from sureact_kernels.triton.advance_rows import advance_rows as in_triton

MAX_ROWS, MAX_BLOCKS, BLOCK_SIZE, DUMMY_SLOT, NUM_WORDS, MAX_STOP_LEN = 5, 4, 8, 999, 3, 3
Advance = Callable[..., None]


def tensor(values: list[object], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype)


@st.composite
def rows(draw: st.DrawFn) -> DecodeRows:
    def ids(low: int, high: int, *shape: int) -> torch.Tensor:
        count = int(torch.tensor(shape).prod())
        return tensor(draw(st.lists(st.integers(low, high), min_size=count, max_size=count))).view(shape)

    stops = ids(0, 3, 6, MAX_STOP_LEN)
    for row, stop in enumerate(stops):
        stop[: row % (MAX_STOP_LEN + 1)] = -1
    positions = ids(0, MAX_BLOCKS * BLOCK_SIZE - 1, MAX_ROWS).long()
    return DecodeRows(
        token_ids=ids(0, 90, MAX_ROWS).long(),
        positions=positions,
        context_lens=(positions + 1).int(),
        slots=ids(0, 90, MAX_ROWS).long(),
        is_running=ids(0, 1, MAX_ROWS),
        block_tables=ids(0, 50, MAX_ROWS, MAX_BLOCKS).long(),
        recent=ids(0, 3, MAX_ROWS, MAX_STOP_LEN),
        num_generated=ids(0, 4, MAX_ROWS),
        stops=stops,
        stops_of_row=ids(0, 6, MAX_ROWS, 2),
        seen=ids(-(2**31), 2**31 - 1, MAX_ROWS, NUM_WORDS),
        results=torch.full((2, MAX_ROWS), -7),
    )


def copy_of(state: DecodeRows) -> DecodeRows:
    return DecodeRows(*(getattr(state, field.name).clone() for field in fields(state)))


def state_in_python(picked: list[int], state: DecodeRows) -> dict[str, list[object]]:
    """Return every field after the step."""
    after = {field.name: getattr(state, field.name).tolist() for field in fields(state)}
    stops = [[i for i in stop if i >= 0] for stop in state.stops.tolist()]
    for row, token_id in enumerate(picked):
        after["recent"][row] = [*after["recent"][row][1:], token_id]
        after["num_generated"][row] += 1
        known = after["recent"][row][max(0, MAX_STOP_LEN - after["num_generated"][row]) :]
        first, end = after["stops_of_row"][row]
        has_stopped = any(stop and known[-len(stop) :] == stop for stop in stops[first:end])
        after["results"][0][row], after["results"][1][row] = token_id, int(has_stopped)
        has_place = after["positions"][row] + 1 < MAX_BLOCKS * BLOCK_SIZE
        is_running = bool(after["is_running"][row]) and not has_stopped and token_id >= 0 and has_place
        after["is_running"][row] = int(is_running)
        after["token_ids"][row] = max(0, token_id)
        position = after["positions"][row] = after["positions"][row] + 1 if is_running else 0
        after["context_lens"][row] = position + 1
        block = after["block_tables"][row][position // BLOCK_SIZE]
        after["slots"][row] = block * BLOCK_SIZE + position % BLOCK_SIZE if is_running else DUMMY_SLOT
        word, bit = divmod(max(0, token_id), 32)
        seen = after["seen"][row][word] & 0xFFFFFFFF | 1 << bit
        after["seen"][row][word] = seen - 2**32 if seen >= 2**31 else seen
    return after


@pytest.mark.parametrize("advance", [advance_rows, in_triton], ids=["torch", "triton"])
@given(state=rows(), picked=st.lists(st.integers(-2, 3) | st.integers(0, 95), max_size=MAX_ROWS))
def test_is_what_the_statement_says(advance: Advance, state: DecodeRows, picked: list[int]) -> None:
    wanted = state_in_python(picked, state)
    advance(torch.tensor(picked, dtype=torch.int64), state, block_size=BLOCK_SIZE, dummy_slot=DUMMY_SLOT)
    assert {field.name: getattr(state, field.name).tolist() for field in fields(state)} == wanted


@pytest.mark.parametrize("advance", [advance_rows, in_triton], ids=["torch", "triton"])
@settings(max_examples=10)
@given(state=rows())
def test_a_row_at_the_last_position_of_its_table_ends(advance: Advance, state: DecodeRows) -> None:
    """The other rows, whose tables lie behind it, go on as they do without it."""
    state.is_running.fill_(1)
    state.stops_of_row.zero_()
    state.positions.fill_(MAX_BLOCKS * BLOCK_SIZE - 2)
    state.positions[[0, MAX_ROWS - 1]] += 1
    advance(torch.full((MAX_ROWS,), 3), state, block_size=BLOCK_SIZE, dummy_slot=DUMMY_SLOT)
    ended = [DUMMY_SLOT, 0, 0, 1]
    for row in range(MAX_ROWS):
        place = [int(x[row]) for x in (state.slots, state.is_running, state.positions, state.context_lens)]
        last = int(state.block_tables[row, -1]) * BLOCK_SIZE + BLOCK_SIZE - 1
        is_last = row in (0, MAX_ROWS - 1)
        assert place == (ended if is_last else [last, 1, MAX_BLOCKS * BLOCK_SIZE - 1, MAX_BLOCKS * BLOCK_SIZE])
    assert state.results[1].tolist() == [0] * MAX_ROWS


@given(state=rows(), picked=st.lists(st.integers(-2, 95), min_size=MAX_ROWS, max_size=MAX_ROWS))
def test_a_row_advances_the_same_alone(state: DecodeRows, picked: list[int]) -> None:
    alone, together = copy_of(state), state
    in_triton(torch.tensor(picked), together, block_size=BLOCK_SIZE, dummy_slot=DUMMY_SLOT)
    in_triton(torch.tensor(picked[:1]), alone, block_size=BLOCK_SIZE, dummy_slot=DUMMY_SLOT)
    for name in ("token_ids", "positions", "context_lens", "slots", "is_running", "recent", "num_generated", "seen"):
        assert torch.equal(getattr(alone, name)[0], getattr(together, name)[0])


@given(state=rows())
def test_on_a_gpu_triton_computes(state: DecodeRows) -> None:
    picked, by_hand = torch.tensor([5, -1, 3]), copy_of(state)
    in_triton(picked, by_hand, block_size=BLOCK_SIZE, dummy_slot=DUMMY_SLOT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "GPU", "cpu")
        patch.setattr(dispatch, "_disabled", {})
        advance_rows(picked, state, block_size=BLOCK_SIZE, dummy_slot=DUMMY_SLOT)
        assert dispatch.disabled() == {}
    assert all(torch.equal(getattr(state, field.name), getattr(by_hand, field.name)) for field in fields(state))


@given(state=rows())
def test_other_shapes_and_dtypes_are_refused_by_name(state: DecodeRows) -> None:
    options = {"block_size": BLOCK_SIZE, "dummy_slot": DUMMY_SLOT}
    with pytest.raises(KernelInputError, match="picked has dtype"):
        advance_rows(torch.tensor([1], dtype=torch.int32), state, **options)
    with pytest.raises(KernelInputError, match="rows"):
        advance_rows(torch.zeros(MAX_ROWS + 1, dtype=torch.int64), state, **options)
    with pytest.raises(KernelInputError, match=r"seen has dtype torch\.int64"):
        advance_rows(torch.tensor([1]), replace(state, seen=state.seen.long()), **options)
    with pytest.raises(KernelInputError, match=r"slots has shape \[4\]; it must be \[5\]"):
        advance_rows(torch.tensor([1]), replace(state, slots=state.slots[:4]), **options)


@settings(max_examples=10)
@given(state=rows())
def test_it_can_be_captured_in_a_graph(state: DecodeRows) -> None:
    """Nothing is read on the host, which tensors without data would not allow."""
    on_meta = DecodeRows(*(getattr(state, field.name).to("meta") for field in fields(state)))
    advance_rows(torch.zeros(3, dtype=torch.int64, device="meta"), on_meta, block_size=BLOCK_SIZE, dummy_slot=0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(triton_module, "_advance_rows_kernel", {(3,): lambda *_, **__: None})  # pyright: ignore
        in_triton(torch.zeros(3, dtype=torch.int64, device="meta"), on_meta, block_size=BLOCK_SIZE, dummy_slot=0)
