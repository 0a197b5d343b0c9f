import torch
from benchmarks.gpu.bits import EQUAL, difference


def test_equal_bits_are_equal_nan_included() -> None:
    x = torch.tensor([1.0, torch.nan, -torch.inf])
    assert difference(x.clone(), x) == EQUAL


def test_the_first_difference_is_said() -> None:
    found = difference(torch.tensor([1.0, 2.5, 4.0]).bfloat16(), torch.tensor([1.0, 2.0, 3.0]).bfloat16())
    assert found.num_elements == 2
    assert found.first == "2 of 3 elements differ, first 1: 2.5 instead of 2.0"


def test_signs_of_zero_shapes_and_dtypes_count() -> None:
    assert difference(torch.tensor([-0.0]), torch.tensor([0.0])).num_elements == 1
    assert difference(torch.zeros(2), torch.zeros(3)).num_elements == 3
    assert difference(torch.zeros(2), torch.zeros(2).half()).num_elements == 2
    strided = torch.arange(6).view(2, 3).T
    assert difference(strided, strided.contiguous()) == EQUAL
