import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact_kernels.errors import KernelInputError
from sureact_kernels.stop_match import PADDING, stop_match

Case = tuple[list[list[int]], list[list[int]], list[tuple[int, int]], int]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Rows of tokens, stop sequences, which of them are whose, and the longest stop: few tokens, so that many match."""
    max_stop_len = draw(st.integers(1, 5))
    token = st.integers(0, 2)
    rows = draw(st.lists(st.lists(token, max_size=8), max_size=4))
    stops = draw(st.lists(st.lists(token, max_size=max_stop_len), max_size=40))
    bound = st.integers(-2, len(stops) + 2)
    return rows, stops, [(draw(bound), draw(bound)) for _ in rows], max_stop_len


def tensors_of(case: Case) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    rows, stops, bounds, max_stop_len = case
    recent = torch.full((len(rows), max_stop_len), 1, dtype=torch.int32)
    packed = torch.full((len(stops), max_stop_len), PADDING, dtype=torch.int32)
    for target, sequences in ((recent, rows), (packed, stops)):
        for i, sequence in enumerate(sequences):
            tail = sequence[-max_stop_len:]
            target[i, max_stop_len - len(tail) :] = torch.tensor(tail, dtype=torch.int32)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.int32)
    return recent, lengths, packed, torch.tensor(bounds, dtype=torch.int32).view(-1, 2)


def statement(case: Case) -> list[int]:
    rows, stops, bounds, _ = case
    return [
        next((s for s, stop in enumerate(stops) if first <= s < end and stop and row[-len(stop) :] == stop), -1)
        for row, (first, end) in zip(rows, bounds, strict=True)
    ]


@given(cases())
def test_finds_the_first_stop_that_a_row_ends_with(case: Case) -> None:
    found = stop_match(*tensors_of(case))
    assert found.dtype is torch.int32
    assert found.tolist() == statement(case)


def test_what_lies_before_a_row_counts_for_nothing() -> None:
    """`recent` of a short row holds what was there before; a stop cannot begin in it."""
    recent, stops = torch.tensor([[7, 8, 9]] * 3, dtype=torch.int32), torch.tensor([[-1, 8, 9]], dtype=torch.int32)
    bounds = torch.tensor([[0, 1]] * 3, dtype=torch.int32)
    assert stop_match(recent, torch.tensor([1, 2, 3], dtype=torch.int32), stops, bounds).tolist() == [-1, 0, 0]


def test_wrong_shapes_and_dtypes_are_refused() -> None:
    recent, lengths, stops, bounds = tensors_of(([[1], [2]], [[1], [2]], [(0, 1), (0, 2)], 3))
    with pytest.raises(KernelInputError, match=r"stops has shape \[2, 2\].*\[any, 3\]"):
        stop_match(recent, lengths, stops[:, 1:], bounds)
    with pytest.raises(KernelInputError, match=r"lengths has shape \[1\].*\[2\]"):
        stop_match(recent, lengths[:1], stops, bounds)
    with pytest.raises(KernelInputError, match=r"stops_of_row has shape \[2, 1\].*\[2, 2\]"):
        stop_match(recent, lengths, stops, bounds[:, :1])
    with pytest.raises(KernelInputError, match=r"stops has dtype torch\.int64"):
        stop_match(recent, lengths, stops.long(), bounds)
