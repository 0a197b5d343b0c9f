import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact_kernels import dispatch
from sureact_kernels.errors import KernelInputError
from sureact_kernels.masked_argmax import (
    IS_NAN,
    NOTHING_ALLOWED,
    allowed_ids,
    check_picked,
    masked_argmax,
    masked_argmax_unchecked,
)
from sureact_kernels.triton.masked_argmax import masked_argmax_unchecked as in_triton


def bitmask_of(rows: list[list[int]], num_logits: int) -> torch.Tensor:
    words = torch.zeros(len(rows), -(-num_logits // 32), dtype=torch.int64)
    for row, ids in enumerate(rows):
        for i in set(ids):
            words[row, i // 32] += 1 << (i % 32)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


@given(st.data())
def test_is_the_largest_allowed_logit_and_the_lowest_id_on_ties(data: st.DataObject) -> None:
    num_logits = data.draw(st.integers(1, 100))
    values = data.draw(st.lists(st.sampled_from([-2.0, 0.0, 1.5, 3.0]), min_size=num_logits, max_size=num_logits))
    allowed = data.draw(st.lists(st.integers(0, num_logits - 1), min_size=1))
    picked = masked_argmax(torch.tensor([values]), bitmask_of([allowed], num_logits))
    assert int(picked) == min(allowed, key=lambda i: (-values[i], i))
    assert torch.equal(masked_argmax_unchecked(torch.tensor([values]), bitmask_of([allowed], num_logits)), picked)


def test_rows_are_masked_one_by_one() -> None:
    logits = torch.tensor([[1.0, 5.0, 3.0]]).repeat(3, 1)
    picked = masked_argmax(logits, bitmask_of([[0, 1, 2], [0, 2], [0]], 3))
    assert picked.tolist() == [1, 2, 0]


def test_allowed_ids_reads_the_sign_bit() -> None:
    assert allowed_ids(bitmask_of([[31, 63, 64]], 100)[0]).tolist() == [31, 63, 64]


def test_a_row_that_allows_nothing_is_refused() -> None:
    with pytest.raises(KernelInputError, match="allows no token"):
        masked_argmax(torch.zeros(1, 40), torch.zeros(1, 2, dtype=torch.int32))


def test_nan_is_refused_and_never_picked() -> None:
    with pytest.raises(KernelInputError, match="NaN"):
        masked_argmax(torch.tensor([[0.0, float("nan")]]), bitmask_of([[0, 1]], 2))


def test_bits_beyond_the_last_logit_allow_nothing() -> None:
    assert masked_argmax(torch.full((1, 40), -3.0), torch.full((1, 2), -1, dtype=torch.int32)).item() == 0
    beyond = torch.tensor([[0, 256]], dtype=torch.int32)
    with pytest.raises(KernelInputError, match="allows no token"):
        masked_argmax(torch.zeros(1, 40), beyond)
    assert masked_argmax_unchecked(torch.zeros(1, 40), beyond).tolist() == [NOTHING_ALLOWED]
    assert allowed_ids(torch.tensor([256, 256], dtype=torch.int32), 40).tolist() == [8]


def test_unchecked_faults_of_a_row_are_its_own() -> None:
    """They are those that Triton's version tells."""
    logits = torch.zeros(6, 40)
    allowed = [list(range(40)) for _ in range(6)]
    logits[1, 35] = torch.nan
    allowed[2] = []
    logits[3, 0], allowed[3] = torch.nan, [1, 2]
    logits[4], allowed[4] = -torch.inf, [7, 9]
    logits[5, [11, 30]] = torch.inf
    bitmask = bitmask_of(allowed, 40)
    picked = masked_argmax_unchecked(logits, bitmask)
    assert picked.tolist() == [0, IS_NAN, NOTHING_ALLOWED, 1, 7, 11]
    assert torch.equal(in_triton(logits, bitmask), picked)


def test_faults_are_raised_where_they_are_looked_at() -> None:
    check_picked("decode", torch.tensor([0, 3]))
    check_picked("decode", torch.tensor([], dtype=torch.int64))
    with pytest.raises(KernelInputError, match="decode: a logit is NaN"):
        check_picked("decode", torch.tensor([0, NOTHING_ALLOWED, IS_NAN]))
    with pytest.raises(KernelInputError, match="decode: a row of the bitmask allows no token"):
        check_picked("decode", torch.tensor([NOTHING_ALLOWED, 5]))


def test_unchecked_it_can_be_captured() -> None:
    """Tensors without values have none to wait for."""
    picked = masked_argmax_unchecked(torch.zeros(3, 40, device="meta"), torch.zeros(3, 2, dtype=torch.int32).to("meta"))
    assert (picked.shape, picked.dtype) == ((3,), torch.int64)


def test_on_a_gpu_triton_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, bitmask = torch.randn(2, 40), torch.full((2, 2), -1, dtype=torch.int32)
    wanted = logits.argmax(1)
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    monkeypatch.setattr(dispatch, "_disabled", {})
    assert torch.equal(masked_argmax_unchecked(logits, bitmask), wanted)
    assert torch.equal(masked_argmax(logits, bitmask), wanted)
    assert dispatch.disabled() == {}
    with pytest.raises(KernelInputError, match="allows no token"):
        masked_argmax(logits, torch.zeros_like(bitmask))


def test_a_mask_of_another_width_is_refused() -> None:
    for op in (masked_argmax, masked_argmax_unchecked):
        with pytest.raises(KernelInputError, match="bitmask"):
            op(torch.zeros(1, 40), torch.zeros(1, 1, dtype=torch.int32))


@given(st.data())
def test_seen_ids_are_penalized_before_the_pick(data: st.DataObject) -> None:
    """By hand in float32, where a quick division would be off by a bit; torch and Triton agree."""
    num_logits = data.draw(st.integers(1, 70))
    values = st.floats(-8, 8, width=32)
    logits = torch.tensor([data.draw(st.lists(values, min_size=num_logits, max_size=num_logits)) for _ in range(2)])
    ids = st.lists(st.integers(0, num_logits - 1), max_size=30)
    seen = [data.draw(ids) for _ in range(2)]
    penalties = torch.tensor([data.draw(st.sampled_from([1.0, 1.1, 1.05, 3.0])), 1.3])
    expected = logits.clone()
    for row, penalty in enumerate(penalties):
        for i in set(seen[row]):
            value = logits[row, i]
            expected[row, i] = value / penalty if value > 0 else value * penalty
    everything, seen_bits = torch.full((2, -(-num_logits // 32)), -1, dtype=torch.int32), bitmask_of(seen, num_logits)
    picked = masked_argmax_unchecked(logits, everything, seen_bits, penalties)
    assert torch.equal(picked, masked_argmax(expected, everything))
    assert torch.equal(in_triton(logits, everything, seen_bits, penalties), picked)


def test_seen_ids_without_penalties_are_refused() -> None:
    logits, bits = torch.zeros(2, 40), torch.zeros(2, 2, dtype=torch.int32)
    with pytest.raises(KernelInputError, match="seen and penalties come together"):
        masked_argmax_unchecked(logits, bits, bits)
    with pytest.raises(KernelInputError, match="penalties"):
        masked_argmax_unchecked(logits, bits, bits, torch.ones(3))
    with pytest.raises(KernelInputError, match="seen"):
        masked_argmax_unchecked(logits, bits, bits[:1], torch.ones(2))


def test_seen_ids_and_penalties_of_other_dtypes_or_devices_are_refused() -> None:
    logits, bits, ones = torch.zeros(2, 40), torch.zeros(2, 2, dtype=torch.int32), torch.ones(2)
    with pytest.raises(KernelInputError, match=r"seen has dtype torch\.int64"):
        masked_argmax_unchecked(logits, bits, bits.long(), ones)
    with pytest.raises(KernelInputError, match=r"penalties has dtype torch\.float64"):
        masked_argmax_unchecked(logits, bits, bits, ones.double())
    with pytest.raises(KernelInputError, match="seen is on meta; it must be on cpu"):
        masked_argmax_unchecked(logits, bits, bits.to("meta"), ones)
    with pytest.raises(KernelInputError, match="penalties is on meta; it must be on cpu"):
        masked_argmax_unchecked(logits, bits, bits, ones.to("meta"))


def test_strided_penalties_are_those_of_their_rows() -> None:
    """As those are that stand in a column of a wider table."""
    logits = torch.tensor([[2.0, 1.5], [2.0, 1.5]])
    everything = torch.full((2, 1), -1, dtype=torch.int32)
    penalties = torch.tensor([[1.0, 9.0], [4.0, 9.0]])[:, 0]
    for pick in (masked_argmax_unchecked, in_triton):
        assert pick(logits, everything, torch.ones_like(everything), penalties).tolist() == [0, 1]
