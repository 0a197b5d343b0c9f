"""The int4 product: that of its matrix in float64, and the same bits for a row in any company."""

import pytest
import torch

from sureact_kernels.int4_product import PackedInt4, int4_blocks, int4_product, pack_int4, to_nibbles
from sureact_kernels.testing import assert_close

SHAPES = [(1152, 896), (896, 4864), (64, 64), (48, 32), (16, 160), (32, 96)]
ROW_COUNTS = (*range(1, 20), 64, 257)


def matrix(out_features: int, in_features: int, group_size: int = 32) -> tuple[torch.Tensor, torch.Tensor]:
    """Steps and bounds."""
    steps = torch.randint(0, 16, (out_features, in_features))
    return steps, torch.randn(in_features // group_size, out_features, 2).to(torch.bfloat16)


def packed(steps: torch.Tensor, bounds: torch.Tensor) -> PackedInt4:
    return pack_int4(to_nibbles(steps), bounds, steps.shape[1] // len(bounds))


def exact(x: torch.Tensor, steps: torch.Tensor, bounds: torch.Tensor) -> torch.Tensor:
    scale, zero = bounds.double().repeat_interleave(steps.shape[1] // len(bounds), dim=0).unbind(-1)
    return x.double() @ ((steps.double() - 8) * scale.T + zero.T).T


@pytest.mark.parametrize("shape", SHAPES)
def test_the_product_is_that_of_the_matrix(shape: tuple[int, int], ops: str) -> None:
    steps, bounds = matrix(*shape)
    weight, bias = packed(steps, bounds), torch.randn(shape[0])
    for num_rows in (1, 2, 5, 16):
        x = torch.randn(num_rows, shape[1])
        # torch rounds the rows to bfloat16; the C++ op is finer than float32 sums of 1,000 terms need it.
        dtype = torch.bfloat16 if ops == "torch" else torch.float32
        allowed = torch.bfloat16 if ops == "torch" else torch.float16
        assert_close(int4_product(x, weight), exact(x.to(dtype), steps, bounds), allowed)
        assert torch.equal(int4_product(x, weight, bias), int4_product(x, weight) + bias)


@pytest.mark.parametrize("group_size", [64, 128, 256])
def test_larger_groups_are_served_by_torch(group_size: int) -> None:
    steps, bounds = matrix(64, 512, group_size)
    x = torch.randn(3, 512)
    assert_close(int4_product(x, packed(steps, bounds)), exact(x, steps, bounds), torch.bfloat16)


@pytest.mark.parametrize("step", [0, 15])
def test_the_largest_sums_of_a_group_are_exact(step: int, ops: str) -> None:
    """Every product of the C++ op at its extreme, in a matrix that stands for `step`."""
    steps = torch.full((16, 64), step)
    bounds = torch.tensor([1.0, 8.0]).expand(2, 16, 2).to(torch.bfloat16)
    for sign in (-1.0, 1.0):
        x = torch.full((3, 64), sign)
        out = int4_product(x, packed(steps, bounds))
        tolerance = 0 if ops == "torch" else 1e-4
        torch.testing.assert_close(out, torch.full((3, 16), sign * step * 64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_has_the_same_bits_in_any_company(shape: tuple[int, int]) -> None:
    weight = packed(*matrix(*shape))
    x = torch.randn(max(ROW_COUNTS), shape[1])
    together = int4_product(x, weight)
    for num_rows in ROW_COUNTS:
        start = num_rows % 7 if num_rows < 250 else 0
        rows = x[start : start + num_rows]
        assert torch.equal(int4_product(rows, weight), together[start : start + num_rows]), num_rows


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_a_row_that_is_not_finite_gives_nan_and_leaves_the_others_alone(bad: float, ops: str) -> None:
    weight = packed(*matrix(64, 96))
    x = torch.randn(3, 96)
    damaged = x.clone()
    damaged[1, 5] = bad
    out = int4_product(damaged, weight)
    assert not out[1].isfinite().any() if ops == "torch" else out[1].isnan().all()
    assert torch.equal(out[::2], int4_product(x, weight)[::2])


def test_blocks_of_rows_give_the_bits_of_the_whole() -> None:
    weight, x = packed(*matrix(64 * 5, 96)), torch.randn(3, 96)
    whole = int4_product(x, weight).unflatten(1, (5, 64))
    for blocks in ([4], [0, 3], [1, 2, 4]):
        some = int4_product(x, int4_blocks(weight, torch.tensor(blocks)))
        assert torch.equal(some, whole[:, blocks].flatten(1))


def test_no_rows_give_no_rows() -> None:
    assert int4_product(torch.empty(0, 64), packed(*matrix(32, 64))).shape == (0, 32)
