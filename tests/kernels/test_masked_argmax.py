import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact_kernels.errors import KernelInputError
from sureact_kernels.masked_argmax import allowed_ids, masked_argmax


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


def test_a_mask_of_another_width_is_refused() -> None:
    with pytest.raises(KernelInputError, match="bitmask"):
        masked_argmax(torch.zeros(1, 40), torch.zeros(1, 1, dtype=torch.int32))
