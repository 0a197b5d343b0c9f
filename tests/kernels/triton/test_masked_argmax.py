from collections.abc import Callable
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact_kernels.errors import KernelInputError
from sureact_kernels.masked_argmax import IS_NAN, NOTHING_ALLOWED
from sureact_kernels.masked_argmax import masked_argmax as reference
from sureact_kernels.testing import AWKWARD_SIZES
from sureact_kernels.triton import masked_argmax as module
from sureact_kernels.triton.masked_argmax import masked_argmax, masked_argmax_unchecked, takes

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def bitmask_of(allowed: torch.Tensor) -> torch.Tensor:
    """Pack bools `[num_rows, num_logits]`."""
    num_rows, num_logits = allowed.shape
    bits = torch.zeros(num_rows, -(-num_logits // 32) * 32, dtype=torch.int64)
    bits[:, :num_logits] = allowed
    return (bits.view(num_rows, -1, 32) << torch.arange(32)).sum(2).to(torch.int32)


def random_case(num_rows: int, num_logits: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits with many ties, and a mask that allows about half and at least one."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randint(-9, 9, (num_rows, num_logits), generator=generator) / 2
    allowed = torch.rand(num_rows, num_logits, generator=generator) < 0.5
    allowed[:, -1] = True
    return logits, bitmask_of(allowed)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("num_logits", [*AWKWARD_SIZES, 2500])
def test_picks_what_the_reference_picks(num_logits: int, dtype: torch.dtype) -> None:
    logits, bitmask = random_case(3, num_logits)
    assert torch.equal(masked_argmax(logits.to(dtype), bitmask), reference(logits, bitmask))


@settings(max_examples=40)
@given(st.data())
def test_the_lowest_id_wins_within_and_across_blocks(data: st.DataObject) -> None:
    num_logits = data.draw(st.integers(1, 3000))
    tied = data.draw(st.lists(st.integers(0, num_logits - 1), min_size=1, max_size=4))
    value = data.draw(st.sampled_from([-torch.inf, -2.0, -0.0, 5.0, torch.inf]))
    logits = torch.full((1, num_logits), -torch.inf)
    logits[0, tied] = value
    allowed = torch.zeros(1, num_logits, dtype=torch.bool)
    allowed[0, tied] = True
    assert masked_argmax(logits, bitmask_of(allowed)).item() == min(tied)


@pytest.mark.parametrize("best", [0, 1023, 1024, 2047, 2499])
def test_the_best_of_all_blocks_wins(best: int) -> None:
    logits = -(torch.arange(2500) - best).abs().float().unsqueeze(0)
    assert masked_argmax(logits, bitmask_of(torch.ones(1, 2500, dtype=torch.bool))).item() == best
    allowed = torch.ones(1, 2500, dtype=torch.bool)
    allowed[0, best] = False
    assert masked_argmax(logits, bitmask_of(allowed)).item() == (best - 1 if best else 1)


def test_the_two_zeros_are_a_tie() -> None:
    assert masked_argmax(torch.tensor([[-1.0, -0.0, 0.0]]), torch.tensor([[7]], dtype=torch.int32)).item() == 1


def test_faults_of_a_row_are_its_own() -> None:
    """An id below 0 tells them without a wait; the other rows have their picks."""
    logits = torch.zeros(4, 1100)
    allowed = torch.ones(4, 1100, dtype=torch.bool)
    logits[1, 1050] = torch.nan
    allowed[2] = False
    logits[3, 0], allowed[3, 0] = torch.nan, False
    picked = masked_argmax_unchecked(logits, bitmask_of(allowed))
    assert picked.tolist() == [0, IS_NAN, NOTHING_ALLOWED, 1]
    with pytest.raises(KernelInputError, match="NaN"):
        masked_argmax(logits[1:2], bitmask_of(allowed[1:2]))
    with pytest.raises(KernelInputError, match="allows no token"):
        masked_argmax(logits[2:3], bitmask_of(allowed[2:3]))


def test_bits_beyond_the_last_logit_allow_nothing() -> None:
    everything = torch.full((1, 2), -1, dtype=torch.int32)
    assert masked_argmax(torch.full((1, 40), -3.0), everything).item() == 0
    only_padding = torch.tensor([[0, -(2**31)]], dtype=torch.int32)
    with pytest.raises(KernelInputError, match="allows no token"):
        masked_argmax(torch.zeros(1, 40), only_padding)


def test_strided_input_gives_the_same() -> None:
    logits, bitmask = random_case(4, 123)
    wanted = masked_argmax(logits, bitmask)
    in_wide_rows = torch.full((4, 300), torch.nan)
    in_wide_rows[:, :123] = logits
    assert torch.equal(masked_argmax(in_wide_rows[:, :123], bitmask.T.contiguous().T), wanted)
    assert torch.equal(masked_argmax(logits.T.contiguous().T, bitmask), wanted)


def test_unchecked_it_can_be_captured(without_kernels: Callable[[ModuleType], None]) -> None:
    without_kernels(module)
    logits, bitmask = random_case(3, 123)
    assert masked_argmax_unchecked(logits.to("meta"), bitmask.to("meta")).shape == (3,)


def test_an_empty_batch_gives_no_picks() -> None:
    assert masked_argmax(torch.zeros(0, 40), torch.zeros(0, 2, dtype=torch.int32)).tolist() == []


def test_a_row_is_picked_the_same_in_any_company() -> None:
    logits, bitmask = random_case(9, 1008)
    together = masked_argmax(logits, bitmask)
    for row in range(9):
        assert torch.equal(masked_argmax(logits[row : row + 1], bitmask[row : row + 1]), together[row : row + 1])


def test_a_mask_of_another_width_is_refused_with_both_shapes() -> None:
    with pytest.raises(KernelInputError, match=r"\[1, 1\].*\[1, 2\]"):
        masked_argmax(torch.zeros(1, 40), torch.zeros(1, 1, dtype=torch.int32))


def test_takes_floats_and_packed_masks() -> None:
    logits, bitmask = random_case(1, 40)
    assert takes(logits, bitmask)
    assert not takes(logits.double(), bitmask)
    assert not takes(logits, bitmask.long())
