import os
import subprocess
import sys
from functools import cache
from itertools import accumulate, pairwise

import pytest
import torch

from sureact_kernels.attention_plan import MOST_QUERIES_TOGETHER, plan_attention
from sureact_kernels.triton.paged_attention import paged_attention

LENGTH, BLOCK_SIZE, HEADS, HEAD_DIM = 290, 16, (4, 2), 64


def attend(first: int, end: int) -> torch.Tensor:
    """Attend from a chunk of a prompt; its later tokens are not in the cache yet."""
    torch.manual_seed(0)
    num_blocks = -(-LENGTH // BLOCK_SIZE)
    q = torch.randn(LENGTH, HEADS[0], HEAD_DIM).bfloat16()
    caches = torch.randn(2, num_blocks * BLOCK_SIZE, HEADS[1], HEAD_DIM).bfloat16()
    caches[:, end:] = torch.nan
    keys, values = caches.view(2, num_blocks, BLOCK_SIZE, *caches.shape[2:])
    tables = torch.arange(num_blocks)[None]
    plan = plan_attention(tables, [end - first], [end], block_size=BLOCK_SIZE, group=HEADS[0] // HEADS[1])
    return paged_attention(q[first:end], keys, values, plan, HEAD_DIM**-0.5)


@cache
def whole() -> torch.Tensor:
    return attend(0, LENGTH)


@pytest.mark.parametrize(
    "chunks",
    [
        (256, 34),
        (17, 240, 33),
        (1, 288, 1),
        (64, 64, 64, 64, 34),
        (200, MOST_QUERIES_TOGETHER, MOST_QUERIES_TOGETHER + 1, 57),
    ],
)
def test_a_prompt_has_the_same_bits_in_chunks_and_whole(chunks: tuple[int, ...]) -> None:
    cuts = [0, *accumulate(chunks)]
    assert cuts[-1] == LENGTH
    assert torch.equal(torch.cat([attend(first, end) for first, end in pairwise(cuts)]), whole())


@pytest.mark.parametrize("length", [17, 63, 123, 256, 257])
def test_the_start_of_a_prompt_does_not_depend_on_what_follows(length: int) -> None:
    assert torch.equal(attend(0, length), whole()[:length])


PRINT_PRODUCTS = """
import re
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from sureact_kernels.triton.aot import FP_FUSION, source_of
from sureact_kernels.triton.paged_attention import AOT
for case in AOT:
    if "merge" not in case.name and "bfloat16 64" in case.name:
        options = {"num_warps": case.num_warps, "num_stages": case.num_stages, "enable_fp_fusion": FP_FUSION}
        compiled = compile(source_of(case), target=GPUTarget("cuda", 90, 32), options=options)
        print(*sorted(set(re.findall(r"(?:wg)?mma[.]\\S*m\\d+n\\d+k\\d+\\S*", compiled.asm["ptx"]))))
"""


def test_a_hopper_multiplies_with_the_same_instruction_as_for_few_queries() -> None:
    """Another one, as Triton takes for 64 rows, may add in another order."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    shown = subprocess.run(
        [sys.executable, "-c", PRINT_PRODUCTS], check=False, env=environment, capture_output=True, text=True
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.split("\n")[:-1] == ["mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"] * 4
