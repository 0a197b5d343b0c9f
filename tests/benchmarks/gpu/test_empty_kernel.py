"""Both kernels compile for Hopper; in a process of its own, since in this one kernels are the interpreter's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
import json
from benchmarks.gpu.empty_kernel import early_kernel, empty_kernel
from sureact_kernels.triton.aot import AotCase, compile_case
signature = {"x_ptr": "*fp32", "LIMIT": "constexpr"}
cases = [AotCase("empty", kernel, signature, {"LIMIT": 0}, 1) for kernel in (empty_kernel, early_kernel)]
print(json.dumps([compile_case(case, 90).registers for case in cases]))
"""


def test_they_compile_without_a_gpu() -> None:
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    ended = subprocess.run(
        [sys.executable, "-c", COMPILE],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert all(registers < 32 for registers in json.loads(ended.stdout))
