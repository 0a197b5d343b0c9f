import pytest
import torch
from benchmarks.kernels.case import MODELS, Case, mask, shape_of

from sureact_kernels.masked_argmax import allowed_ids


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance"),
    [
        (torch.arange(3), torch.arange(3), None),
        (7, 7, None),
        (torch.tensor([1.0]), torch.tensor([1.001]), torch.bfloat16),
    ],
)
def test_results_that_agree_pass(
    ours: torch.Tensor | int, theirs: torch.Tensor | int, tolerance: torch.dtype | None
) -> None:
    Case("1", lambda: ours, lambda: theirs, num_bytes=1, flops=1, tolerance=tolerance).check()


@pytest.mark.parametrize(
    ("ours", "theirs", "tolerance"),
    [
        (torch.arange(3), torch.ones(3, dtype=torch.int64), None),
        (7, 8, None),
        (torch.tensor([1.0]), torch.tensor([1.1]), torch.bfloat16),
        (torch.tensor([torch.nan]), torch.tensor([1.1]), torch.bfloat16),
    ],
)
def test_a_wrong_result_is_found(
    ours: torch.Tensor | int, theirs: torch.Tensor | int, tolerance: torch.dtype | None
) -> None:
    with pytest.raises(AssertionError):
        Case("1", lambda: ours, lambda: theirs, num_bytes=1, flops=1, tolerance=tolerance).check()


def test_only_elements_that_count_are_compared() -> None:
    where = torch.tensor([True, False])
    ours, theirs = torch.tensor([1.0, -torch.inf]), torch.tensor([1.0, 5.0])
    Case("1", lambda: ours, lambda: theirs, 1, 1, torch.float32, where).check()


def test_a_mask_has_the_same_ids_in_both_forms() -> None:
    bitmask, is_allowed = mask(2, 320, 30)
    assert bitmask.shape == (2, 10)
    for row in range(2):
        assert torch.equal(allowed_ids(bitmask[row]), is_allowed[row].nonzero().flatten())
        assert int(is_allowed[row].sum()) == 30


def test_shapes_are_written_with_their_dtype() -> None:
    assert shape_of(torch.zeros(1, 2, dtype=torch.bfloat16)) == "[1, 2] bfloat16"


def test_the_merged_projection_has_all_heads() -> None:
    assert MODELS["qwen3-8b"].qkv_size == 6144
