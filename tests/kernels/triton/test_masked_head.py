import json
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from sureact.weights.quantization import quantize_int4, quantize_int8
from sureact_kernels.errors import KernelInputError
from sureact_kernels.linear import DenseWeight, Fp8Weight, LinearWeight
from sureact_kernels.testing import AWKWARD_SIZES, assert_close
from sureact_kernels.triton import masked_head as module
from sureact_kernels.triton.linear import linear
from sureact_kernels.triton.masked_head import masked_head, takes
from sureact_kernels.triton.product_shapes import product_shape

DTYPES = (torch.bfloat16, torch.float16, torch.float32)

TENSOR_CORE_INSTRUCTIONS = """
import json, re, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import compile
from sureact_kernels.triton.aot import cases, source_of
found = {}
for case in cases():
    if case.name.startswith(("masked_head bfloat16 [151936", "linear bfloat16 [151936")) and "many" not in case.name:
        options = {"num_warps": case.num_warps, "num_stages": case.num_stages}
        ptx = compile(source_of(case), target=GPUTarget("cuda", int(sys.argv[1]), 32), options=options).asm["ptx"]
        found[case.name] = sorted(set(re.findall(r"mma[a-z_]*\\.sync\\.aligned\\.m\\w+", ptx)))
print(json.dumps(found))
"""


def random_case(num_rows: int, num_logits: int, hidden_size: int, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    """An input, a matrix, and a mask of which about half the words are 0."""
    generator = torch.Generator().manual_seed(num_logits + hidden_size)
    x = torch.randn(num_rows, hidden_size, generator=generator).to(dtype)
    matrix = (torch.randn(num_logits, hidden_size, generator=generator) / hidden_size**0.5).to(dtype)
    words = torch.randint(0, 2, (num_rows, -(-num_logits // 32)), generator=generator, dtype=torch.int32)
    return x, matrix, words * (1 << torch.randint(0, 31, words.shape, generator=generator)).int()


def spread(bitmask: torch.Tensor, num_logits: int) -> torch.Tensor:
    """Whether the word of each logit is not 0."""
    return (bitmask != 0).repeat_interleave(32, 1)[:, :num_logits]


def weight_of(form: str, matrix: torch.Tensor) -> LinearWeight:
    if form == "int8":
        return quantize_int8(matrix.float())
    if form == "int4":
        return quantize_int4(matrix.float())
    if form == "fp8":
        return Fp8Weight((matrix.float() * 100).to(torch.float8_e4m3fn), torch.full((len(matrix),), 0.01))
    return DenseWeight(matrix)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", AWKWARD_SIZES)
def test_computes_the_words_that_are_not_zero(size: int, dtype: torch.dtype) -> None:
    x, matrix, bitmask = random_case(3, 123, size, dtype)
    logits = masked_head(x, DenseWeight(matrix), bitmask)
    needed = spread(bitmask, 123)
    assert logits.dtype is torch.float32
    assert logits[~needed].eq(-torch.inf).all()
    assert_close(logits[needed], (x.double() @ matrix.double().T)[needed], dtype)


@pytest.mark.parametrize("form", ["dense", "int8", "int4", "fp8"])
@pytest.mark.parametrize(("num_rows", "num_logits", "hidden_size"), [(1, 160, 64), (5, 1000, 320), (70, 123, 576)])
def test_a_logit_has_the_bits_of_linear(form: str, num_rows: int, num_logits: int, hidden_size: int) -> None:
    """In one split and in several, in rows of one program and of more, by the small-M and the large-M product."""
    x, matrix, bitmask = random_case(num_rows, num_logits, hidden_size, torch.bfloat16)
    weight = weight_of(form, matrix)
    whole = linear(x, weight).float()
    logits, needed = masked_head(x, weight, bitmask), spread(bitmask, num_logits)
    assert torch.equal(logits[needed], whole[needed])
    assert logits[~needed].eq(-torch.inf).all()
    assert torch.equal(masked_head(x, weight, torch.full_like(bitmask, -1)), whole)


def test_a_large_head_is_not_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of every model: with rows enough to fill the chip."""
    x, matrix, bitmask = random_case(3, 96, 600, torch.float32)
    split = linear(x, DenseWeight(matrix)).float()
    unsplit = product_shape(96, 600, 32)._replace(split_size=1 << 30)
    for name in ("masked_head", "small_m_product"):
        monkeypatch.setattr(f"sureact_kernels.triton.{name}.product_shape", lambda *_: unsplit)  # pyright: ignore
    whole, needed = linear(x, DenseWeight(matrix)).float(), spread(bitmask, 96)
    assert not torch.equal(whole, split)
    assert torch.equal(masked_head(x, DenseWeight(matrix), bitmask)[needed], whole[needed])


def test_a_row_has_the_same_bits_in_any_company() -> None:
    x, matrix, bitmask = random_case(37, 100, 200, torch.bfloat16)
    together = masked_head(x, DenseWeight(matrix), bitmask)
    for num_rows in (1, 2, 7, 16, 17, 32):
        some = slice(37 - num_rows, 37)
        assert torch.equal(masked_head(x[some], DenseWeight(matrix), bitmask[some]), together[some])


def test_a_word_that_nobody_needs_is_not_read() -> None:
    """Its rows could be anything; neither they nor the last, shorter word touch others."""
    x, matrix, _ = random_case(2, 70, 64, torch.bfloat16)
    for words, read in (([-1, 0, 0], slice(0, 32)), ([0, -1, 0], slice(32, 64)), ([0, 0, -1], slice(64, 70))):
        damaged = torch.full_like(matrix, torch.nan)
        damaged[read] = matrix[read]
        bitmask = torch.tensor([words] * 2, dtype=torch.int32)
        logits = masked_head(x, DenseWeight(damaged), bitmask)
        assert torch.equal(logits[:, read], linear(x, DenseWeight(matrix)).float()[:, read])
        assert torch.isneginf(logits).sum() == 2 * (70 - (read.stop - read.start))


def test_strided_input_gives_the_same() -> None:
    x, matrix, bitmask = random_case(3, 70, 64, torch.bfloat16)
    wanted = masked_head(x, DenseWeight(matrix), bitmask)
    wide_x, wide_matrix = torch.full((3, 200), torch.nan).bfloat16(), torch.full((70, 99), torch.nan).bfloat16()
    wide_x[:, :64], wide_matrix[:, :64] = x, matrix
    got = masked_head(wide_x[:, :64], DenseWeight(wide_matrix[:, :64]), bitmask.T.contiguous().T)
    assert torch.equal(got, wanted)
    assert torch.equal(masked_head(x.T.contiguous().T, DenseWeight(matrix), bitmask), wanted)


def test_it_can_be_captured(without_kernels: Callable[[ModuleType], None]) -> None:
    without_kernels(module)
    x, matrix, bitmask = (tensor.to("meta") for tensor in random_case(3, 70, 64, torch.bfloat16))
    assert masked_head(x, DenseWeight(matrix), bitmask).shape == (3, 70)


def test_an_empty_batch_gives_no_logits() -> None:
    x, matrix, bitmask = random_case(0, 70, 64, torch.bfloat16)
    assert masked_head(x, DenseWeight(matrix), bitmask).shape == (0, 70)


def test_a_mask_of_another_width_is_refused_with_both_shapes() -> None:
    x, matrix, bitmask = random_case(2, 70, 64, torch.bfloat16)
    with pytest.raises(KernelInputError, match=r"\[2, 2\].*\[2, 3\]"):
        masked_head(x, DenseWeight(matrix), bitmask[:, :2])


def test_takes_what_linear_takes() -> None:
    x, matrix, _ = random_case(1, 70, 64, torch.bfloat16)
    assert takes(x, matrix)
    assert takes(x.float(), matrix.float())
    assert not takes(x.float(), matrix)
    assert not takes(x[:, :63], matrix)
    assert takes(x, matrix.to(torch.int8), torch.ones(70))


@pytest.mark.parametrize("arch", [80, 90])
def test_the_tensor_cores_do_what_they_do_for_linear(arch: int) -> None:
    """Another instruction may round sums in another way, so that a masked logit had bits of its own."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_DEFAULT_FP_FUSION"] = "1"
    command = [sys.executable, "-W", "error", "-c", TENSOR_CORE_INSTRUCTIONS, str(arch)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len({name.split()[0] for name in found}) == 2
    assert len(found) >= 4
    (instructions,) = {tuple(instructions) for instructions in found.values()}
    assert len(instructions) == 1
