import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.linear import DenseWeight, Fp8Weight
from sureact_kernels.triton.matrix_operand import MatrixOperand, takes_operands

BF16 = torch.bfloat16


def test_each_form_names_itself_and_its_bits() -> None:
    matrix = torch.randn(32, 64)
    weights = (
        DenseWeight(matrix),
        DenseWeight(matrix.to(BF16)),
        quantize_int8(matrix),
        quantize_int4(matrix),
        Fp8Weight(matrix.to(torch.float8_e4m3fn), torch.ones(32)),
    )
    operands = [MatrixOperand.of(weight) for weight in weights]
    assert [(o.form, o.bits) for o in operands] == [("dense", 32), ("dense", 16), ("int8", 8), ("int4", 4), ("fp8", 8)]
    assert all(o.out_features == 32 for o in operands)
    assert operands[3].group_size == 32


def test_what_is_not_computed_is_not_taken() -> None:
    x, values = torch.empty(3, 64, dtype=BF16), torch.empty(32, 64, dtype=BF16)
    assert takes_operands(x, values)
    assert not takes_operands(x, values[:, :48])  # another number of columns
    assert not takes_operands(x, values.T.contiguous().T)  # columns that are not adjacent
    assert not takes_operands(x, values.double())
    assert not takes_operands(x.double(), values.double())
    assert not takes_operands(x[0], values)
    assert not takes_operands(torch.empty(3, 0, dtype=BF16), torch.empty(32, 0, dtype=BF16))
    assert not takes_operands(x, torch.empty(32, 64, dtype=BF16, device="meta"))


def test_scales_must_fit_the_matrix() -> None:
    x = torch.empty(3, 64, dtype=BF16)
    int8, nibbles = torch.empty(32, 64, dtype=torch.int8), torch.empty(32, 32, dtype=torch.uint8)
    assert takes_operands(x, int8, torch.empty(32))
    assert takes_operands(x, int8.to(torch.float8_e4m3fn), torch.empty(32))
    assert not takes_operands(x, int8, torch.empty(31))
    assert not takes_operands(x, int8, torch.empty(32).half())
    assert not takes_operands(x, int8, torch.empty(64)[::2])
    assert not takes_operands(x, int8.short(), torch.empty(32))
    assert takes_operands(x, nibbles, torch.empty(2, 32, 2, dtype=BF16))
    assert not takes_operands(x, nibbles, torch.empty(4, 32, 2, dtype=BF16))  # groups of 16
    assert not takes_operands(x, nibbles, torch.empty(2, 32, 2))
    assert not takes_operands(x, nibbles, torch.empty(32, dtype=BF16))
