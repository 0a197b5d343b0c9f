"""Kernels are compiled in a process of its own, since in this one they are made for Triton's interpreter."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import triton
import triton.language as tl

from sureact_kernels.triton import aot
from sureact_kernels.triton.aot import AotCase, cases, compile_case

COMPILE_SOME = """
import json, sys
from sureact_kernels.triton.aot import cases, compile_case
for case in cases()[int(sys.argv[2]) :: int(sys.argv[3])]:
    try:
        line = compile_case(case, int(sys.argv[1]))._asdict()
    except Exception as error:
        line = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps({"name": case.name} | line), flush=True)
"""

NUM_PROCESSES = min(len(os.sched_getaffinity(0)), 8)

COMPILE_ONE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from one_kernel import CASES
from sureact_kernels.triton.aot import compile_case
print(json.dumps([compile_case(case, 90)._asdict() for case in CASES]))
"""

ONE_KERNEL = """
import triton
import triton.language as tl
from sureact_kernels.triton.aot import AotCase

@triton.jit
def scaled(x_ptr, out_ptr, size, factor, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + index, mask=index < size, other=0.0)
    tl.store(out_ptr + index, x * factor / tl.sum(x * x), mask=index < size)

SIGNATURE = {"x_ptr": "*fp32", "out_ptr": "*fp32", "size": "i32:16", "factor": "fp32", "BLOCK": "constexpr"}
CASES = [AotCase(f"scaled {block}", scaled, SIGNATURE, {"BLOCK": block}, num_warps=1) for block in (128, 16384)]
"""


@triton.jit
def _doubled(x_ptr: Any, BLOCK: tl.constexpr) -> None:  # noqa: N803  as in kernels
    index = tl.arange(0, BLOCK)
    tl.store(x_ptr + index, 2 * tl.load(x_ptr + index))


def run_without_interpreter(script: str, *arguments: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "error", "-c", script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@cache
def compiled(arch: int) -> list[dict[str, Any]]:
    """Compile all cases, each once, on all cores."""

    def compile_some(first: int) -> list[dict[str, Any]]:
        output = run_without_interpreter(COMPILE_SOME, str(arch), str(first), str(NUM_PROCESSES))
        return [json.loads(line) for line in output.splitlines()]

    with ThreadPoolExecutor(NUM_PROCESSES) as pool:
        return [line for lines in pool.map(compile_some, range(NUM_PROCESSES)) for line in lines]


@pytest.mark.parametrize("arch", [90, pytest.param(80, marks=pytest.mark.slow)])
def test_every_kernel_compiles(arch: int) -> None:
    assert {line["name"] for line in compiled(arch)} == {case.name for case in cases()}
    assert {line["name"]: line["error"] for line in compiled(arch) if "error" in line} == {}


def test_nothing_is_spilled_for_sm_90() -> None:
    spilled = {
        line["name"]: (line["stack_bytes"], line["local_bytes"])
        for line in compiled(90)
        if "error" not in line and (line["stack_bytes"] or line["local_bytes"])
    }
    assert spilled == {}


@pytest.mark.parametrize(("arch", "most"), [(90, 232_448), pytest.param(80, 166_912, marks=pytest.mark.slow)])
def test_shared_memory_fits_a_block(arch: int, most: int) -> None:
    """An H100 or H200 gives a block 227 KiB, an A100 163 KiB."""
    large = {line["name"]: line["shared_bytes"] for line in compiled(arch) if line.get("shared_bytes", 0) > most}
    assert large == {}


def test_every_kernel_has_a_case_and_every_case_a_name_of_its_own() -> None:
    names = [case.name for case in cases()]
    assert len(names) == len(set(names))
    written = {
        (path.stem, kernel)
        for path in Path(aot.__file__).parent.glob("*.py")
        for kernel in re.findall(r"^@triton\.jit.*\ndef (\w+_kernel)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    listed = {(case.kernel.fn.__module__.rpartition(".")[2], case.kernel.fn.__name__) for case in cases()}
    assert listed == written


def test_registers_and_spills_are_read(tmp_path: Path) -> None:
    """16,384 floats that are used twice do not fit into the registers of one warp."""
    (tmp_path / "one_kernel.py").write_text(ONE_KERNEL, encoding="utf-8")
    small, large = json.loads(run_without_interpreter(COMPILE_ONE, str(tmp_path)))
    assert 0 < small["registers"] < 64
    assert small["stack_bytes"] == small["local_bytes"] == small["shared_bytes"] == 0
    assert large["stack_bytes"] > 0
    assert small["seconds"] > 0


def test_a_kernel_of_the_interpreter_is_refused() -> None:
    if os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("kernels are not made for the interpreter here")
    case = AotCase("doubled", _doubled, {"x_ptr": "*fp32", "BLOCK": "constexpr"}, {"BLOCK": 16})
    with pytest.raises(RuntimeError, match="doubled: TRITON_INTERPRET is set"):
        compile_case(case, 90)


@pytest.mark.parametrize(
    ("signature", "constexprs", "message"),
    [
        ({"x_ptr": "*fp32"}, {}, "the signature names"),
        ({"BLOCK": "constexpr", "x_ptr": "*fp32"}, {"BLOCK": 16}, "the signature names"),
        ({"x_ptr": "*fp32", "BLOCK": "constexpr"}, {}, "constexpr are"),
    ],
)
def test_a_case_that_does_not_fit_its_kernel_is_refused(
    signature: dict[str, str], constexprs: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"doubled: {message}"):
        aot.source_of(AotCase("doubled", _doubled, signature, constexprs))
