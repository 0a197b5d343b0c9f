import pytest
import torch

from sureact_kernels.errors import KernelInputError
from sureact_kernels.linear import DenseWeight, Int8Weight
from sureact_kernels.testing import AWKWARD_SIZES, assert_close
from sureact_kernels.triton.masked_head import masked_head, takes

DTYPES = (torch.bfloat16, torch.float16)


def random_case(num_rows: int, num_logits: int, hidden_size: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """An input, a matrix, and a mask of which about half the words are 0."""
    generator = torch.Generator().manual_seed(num_logits + hidden_size)
    x = torch.randn(num_rows, hidden_size, generator=generator).to(dtype)
    matrix = (torch.randn(num_logits, hidden_size, generator=generator) / hidden_size**0.5).to(dtype)
    words = torch.randint(0, 2, (num_rows, -(-num_logits // 32)), generator=generator, dtype=torch.int32)
    return x, matrix, words * (1 << torch.randint(0, 31, words.shape, generator=generator)).int()


def full(bitmask: torch.Tensor) -> torch.Tensor:
    return torch.full_like(bitmask, -1)


def spread(bitmask: torch.Tensor, num_logits: int) -> torch.Tensor:
    """Whether the word of each logit is not 0."""
    return (bitmask != 0).repeat_interleave(32, 1)[:, :num_logits]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_computes_the_words_that_are_not_zero(size: int, dtype: torch.dtype) -> None:
    x, matrix, bitmask = random_case(3, 123, size, dtype)
    logits = masked_head(x, DenseWeight(matrix), bitmask)
    needed = spread(bitmask, 123)
    assert logits.dtype is torch.float32
    assert logits[~needed].eq(-torch.inf).all()
    assert_close(logits[needed], (x.double() @ matrix.double().T)[needed], dtype)


@pytest.mark.parametrize("num_logits", [1, 63, 160, 1000])
def test_a_logit_has_the_bits_of_a_full_mask(num_logits: int) -> None:
    x, matrix, bitmask = random_case(5, num_logits, 300, torch.bfloat16)
    whole = masked_head(x, DenseWeight(matrix), full(bitmask))
    needed = spread(bitmask, num_logits)
    assert torch.equal(masked_head(x, DenseWeight(matrix), bitmask)[needed], whole[needed])
    assert_close(whole, x.double() @ matrix.double().T, torch.bfloat16)


def test_a_row_has_the_same_bits_in_any_company() -> None:
    x, matrix, bitmask = random_case(37, 100, 200, torch.bfloat16)
    together = masked_head(x, DenseWeight(matrix), bitmask)
    for num_rows in (1, 2, 7, 16, 17, 32):
        some = slice(37 - num_rows, 37)
        assert torch.equal(masked_head(x[some], DenseWeight(matrix), bitmask[some]), together[some])


def test_strided_input_gives_the_same() -> None:
    x, matrix, bitmask = random_case(3, 70, 64, torch.bfloat16)
    wanted = masked_head(x, DenseWeight(matrix), bitmask)
    wide_x, wide_matrix = torch.full((3, 200), torch.nan).bfloat16(), torch.full((70, 99), torch.nan).bfloat16()
    wide_x[:, :64], wide_matrix[:, :64] = x, matrix
    got = masked_head(wide_x[:, :64], DenseWeight(wide_matrix[:, :64]), bitmask.T.contiguous().T)
    assert torch.equal(got, wanted)
    assert torch.equal(masked_head(x.T.contiguous().T, DenseWeight(matrix.T.contiguous().T), bitmask), wanted)


def test_an_empty_batch_gives_no_logits() -> None:
    x, matrix, bitmask = random_case(0, 70, 64, torch.bfloat16)
    assert masked_head(x, DenseWeight(matrix), bitmask).shape == (0, 70)


def test_a_mask_of_another_width_is_refused_with_both_shapes() -> None:
    x, matrix, bitmask = random_case(2, 70, 64, torch.bfloat16)
    with pytest.raises(KernelInputError, match=r"\[2, 2\].*\[2, 3\]"):
        masked_head(x, DenseWeight(matrix), bitmask[:, :2])
    with pytest.raises(KernelInputError, match=r"x has shape \[2, 63\].*\[any, 64\]"):
        masked_head(x[:, :63], DenseWeight(matrix), bitmask)


def test_weights_of_other_forms_are_refused() -> None:
    int8 = Int8Weight(torch.zeros(70, 64, dtype=torch.int8), torch.ones(70))
    with pytest.raises(KernelInputError, match="Int8Weight"):
        masked_head(torch.zeros(1, 64).bfloat16(), int8, torch.zeros(1, 3, dtype=torch.int32))


def test_takes_one_half_precision_for_both() -> None:
    x, matrix, _ = random_case(1, 70, 64, torch.bfloat16)
    assert takes(x, matrix)
    assert not takes(x.float(), matrix)
    assert not takes(x.float(), matrix.float())
