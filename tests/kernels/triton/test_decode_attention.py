from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from sureact_kernels.attention_plan import plan_attention
from sureact_kernels.triton.decode_attention import SPLIT_TOKENS, attend_split_kernel, widen
from sureact_kernels.triton.paged_attention import paged_attention

BLOCK_SIZE = 16


@triton.jit
def _widen_kernel(x_ptr, out_ptr, SIZE: tl.constexpr):  # pyright: ignore  # noqa: N803
    at = tl.arange(0, SIZE)
    tl.store(out_ptr + at, widen(tl.load(x_ptr + at), out_ptr.dtype.element_ty))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_e4m3_number_becomes_a_256th_of_itself(dtype: torch.dtype) -> None:
    x = torch.arange(256, dtype=torch.uint8)
    out = torch.empty(256, dtype=dtype)
    kernel: Any = _widen_kernel
    kernel[(1,)](x, out, SIZE=256)
    numbers = x.view(torch.float8_e4m3fn).double()
    is_number = ~numbers.isnan()
    assert int(is_number.sum()) == 254
    assert torch.equal(out.double()[is_number], numbers[is_number] / 256)
    assert out[~is_number].isnan().all()


def attend(context_len: int, capacity: int, new_len: int | None = None) -> torch.Tensor:
    """Decode one token of a sequence; with `new_len`, by a plan that was made for another length."""
    torch.manual_seed(0)
    num_blocks = -(-capacity // BLOCK_SIZE)
    q = torch.randn(1, 4, 64).bfloat16()
    keys, values = torch.randn(2, 80, BLOCK_SIZE, 2, 64).bfloat16()
    tables = torch.arange(num_blocks)[None]
    plan = plan_attention(tables, [1], [context_len], block_size=BLOCK_SIZE, group=2)
    if new_len is not None:
        plan.device_context_lens.fill_(new_len)
    return paged_attention(q, keys, values, plan, 0.125)


@pytest.mark.parametrize("length", [1, 255, 256, 257, 600, 1024])
def test_a_plan_made_for_more_tokens_follows_the_lengths_on_the_device(length: int) -> None:
    """So that a captured graph, whose grid is that of the longest context, serves every shorter one with equal bits."""
    assert torch.equal(attend(1100, 1200, length), attend(length, length))


def test_each_split_is_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    grids: list[tuple[int, ...]] = []

    class Spy:
        def __getitem__(self, grid: tuple[int, ...]) -> Any:
            grids.append(grid)
            kernel: Any = attend_split_kernel
            return kernel[grid]

    monkeypatch.setattr("sureact_kernels.triton.decode_attention.attend_split_kernel", Spy())
    attend(2 * SPLIT_TOKENS, 1024)
    attend(2 * SPLIT_TOKENS + 1, 1024)
    assert grids == [(1, 2, 2), (1, 2, 3)]
