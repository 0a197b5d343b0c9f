from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact_kernels.stop_match import PADDING
from sureact_kernels.stop_match import stop_match as reference
from sureact_kernels.testing import AWKWARD_SIZES
from sureact_kernels.triton import stop_match as module
from sureact_kernels.triton.stop_match import stop_match, takes

Case = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def random_case(num_rows: int, num_stops: int, max_stop_len: int, seed: int = 0) -> Case:
    """Rows of three tokens and stops of 0 to `max_stop_len` of them, so that many match."""
    generator = torch.Generator().manual_seed(seed)

    def integers(low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=generator, dtype=torch.int32)

    recent, stops = integers(0, 3, num_rows, max_stop_len), integers(0, 3, num_stops, max_stop_len)
    sizes = integers(0, min(max_stop_len, 6) + 1, num_stops)
    stops[torch.arange(max_stop_len) < max_stop_len - sizes[:, None]] = PADDING
    return recent, integers(0, 9, num_rows), stops, integers(-2, num_stops + 3, num_rows, 2)


@settings(max_examples=60)
@given(st.integers(1, 6), st.integers(0, 40), st.integers(1, 7), st.integers(0, 10**6))
def test_finds_what_the_reference_finds(num_rows: int, num_stops: int, max_stop_len: int, seed: int) -> None:
    case = random_case(num_rows, num_stops, max_stop_len, seed)
    assert torch.equal(stop_match(*case), reference(*case))


@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_long_stops_and_many(size: int) -> None:
    """A stop that differs in its first token only is another, and the last of many is found."""
    recent = torch.arange(2 * size, dtype=torch.int32).view(2, size)
    stops = recent[:1].repeat(40, 1)
    stops[:39, 0] += 5000
    lengths, bounds = torch.tensor([size, size], dtype=torch.int32), torch.tensor([[0, 40]] * 2, dtype=torch.int32)
    assert stop_match(recent, lengths, stops, bounds).tolist() == [39, -1]
    assert stop_match(recent, lengths - 1, stops, bounds).tolist() == [-1, -1]


def test_a_row_is_judged_the_same_in_any_company() -> None:
    recent, lengths, stops, bounds = random_case(9, 33, 4)
    together = stop_match(recent, lengths, stops, bounds)
    assert together.ge(0).any()
    for row in range(9):
        one = slice(row, row + 1)
        assert torch.equal(stop_match(recent[one], lengths[one], stops, bounds[one]), together[one])


def test_strided_input_gives_the_same() -> None:
    case = random_case(5, 20, 4)
    strided = [torch.stack([tensor, tensor + 1], -1)[..., 0] for tensor in case]
    assert not any(tensor.is_contiguous() for tensor in strided)
    assert torch.equal(stop_match(*strided), stop_match(*case))


def test_no_rows_and_no_stops() -> None:
    assert stop_match(*random_case(0, 3, 4)).tolist() == []
    assert stop_match(*random_case(2, 0, 4)).tolist() == [-1, -1]


def test_takes_int32() -> None:
    case = random_case(1, 1, 1)
    assert takes(*case)
    assert not takes(*case[:3], case[3].long())


def test_it_can_be_captured(without_kernels: Callable[[ModuleType], None]) -> None:
    """Tensors without values have none to wait for; the same holds for the reference."""
    without_kernels(module)
    case = [tensor.to("meta") for tensor in random_case(3, 5, 4)]
    assert stop_match(*case).shape == reference(*case).shape == (3,)
