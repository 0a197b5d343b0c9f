"""Which version of an op is used."""

import os
import subprocess
import sys

import pytest
import torch

from sureact_kernels.cpu import library as module
from sureact_kernels.errors import KernelInputError
from sureact_kernels.rms_norm import rms_norm

needs_ops = pytest.mark.skipif(module.library() is None, reason=f"no C++ ops here: {module.reason_unavailable()}")


@pytest.fixture(autouse=True)
def ops() -> None:
    """These run once, not for each version of the ops."""


def test_what_the_ops_read_is_told_apart() -> None:
    x = torch.ones(4, 4)
    assert module.are_float32(x, x)
    assert not module.are_float32(x, x.bfloat16())
    assert module.is_plain_cache(x.bfloat16())
    assert not module.is_plain_cache(x)
    assert not module.is_plain_cache(x.bfloat16().T[:2])


@needs_ops
def test_who_observes_is_told_of_every_call_meanwhile() -> None:
    seen: list[str] = []
    x = torch.ones(1, 16)
    with module.observed(lambda op, arguments, seconds: seen.append(f"{op} {len(arguments)} {seconds > 0}")):
        module.call("rms_norm", x, x, 1e-6, torch.empty_like(x), 1, 16)
    module.call("rms_norm", x, x, 1e-6, torch.empty_like(x), 1, 16)
    assert seen == ["rms_norm 6 True"]


@needs_ops
def test_without_ops_the_reference_computes() -> None:
    """In a process of its own, as a user would run it."""
    program = (
        "import torch; from sureact_kernels.cpu.library import library, reason_unavailable;"
        "from sureact_kernels.rms_norm import rms_norm; assert library() is None; print(reason_unavailable());"
        "print(rms_norm(torch.ones(1, 16), torch.ones(16), 1e-6)[0, 0])"
    )
    environment = os.environ | {"SUREACT_KERNELS": "reference"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("SUREACT_KERNELS is 'reference'.\ntensor(1.")


@needs_ops
@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_the_number_of_threads_changes_nothing(num_threads: int) -> None:
    x, weight = torch.randn(300, 1024), torch.randn(1024)
    before = torch.get_num_threads()
    whole = rms_norm(x, weight, 1e-6)
    try:
        torch.set_num_threads(num_threads)
        assert torch.equal(rms_norm(x, weight, 1e-6), whole)
    finally:
        torch.set_num_threads(before)


@needs_ops
def test_no_memory_left_is_an_error_and_nothing_is_written() -> None:
    """More rows than memory can hold are claimed: each op asks for its memory before it reads or writes anything."""
    x, out, count = torch.ones(1, 64), torch.full((1, 64), 7.0), 1 << 48
    indices = torch.zeros(2, dtype=torch.int64)
    calls: dict[str, tuple[module.Argument, ...]] = {
        "int8_product": (x, count, x, x, x, None, out, 64, 64),
        "int4_product": (x, count, x, None, out, 64, 64),
        "paged_attention": (x, x, x, indices, indices, indices, 1.0, out, 1, 1, count, 1, 1, 64),
    }
    for op, arguments in calls.items():
        with pytest.raises(MemoryError, match=f"The CPU op {op} found no memory left"):
            module.call(op, *arguments)
    assert torch.equal(out, torch.full((1, 64), 7.0))


def test_ops_that_cannot_be_used_are_refused_where_they_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_found", lambda: (None, "there is no C++ compiler; install g++."))
    assert module.library() is None
    monkeypatch.setenv("SUREACT_KERNELS", "required")
    with pytest.raises(KernelInputError, match=r"'required'.*install g\+\+\..*unset"):
        rms_norm(torch.ones(1, 16), torch.ones(16), 1e-6)
    assert module.reason_unavailable() == "there is no C++ compiler; install g++."


@needs_ops
def test_what_no_op_takes_is_computed_by_torch_though_ops_are_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "required")
    x = torch.ones(1, 16).bfloat16()
    assert rms_norm(x, x[0], 1e-6).shape == (1, 16)
