import os
import re
from pathlib import Path

import torch
import triton
import triton.language as tl

from sureact_kernels.triton import interpreter
from sureact_kernels.triton.interpreter import IS_INTERPRETED


@triton.jit
def _tell(out_ptr) -> None:  # pyright: ignore
    tl.store(out_ptr, 1 if IS_INTERPRETED else 2)


def test_kernels_know_who_runs_them() -> None:
    assert IS_INTERPRETED.value == (os.environ.get("TRITON_INTERPRET") == "1")
    if IS_INTERPRETED.value:
        out = torch.zeros(1, dtype=torch.int32)
        _tell[(1,)](out)
        assert out.tolist() == [1]


def test_no_kernel_asks_for_itself() -> None:
    folder = Path(interpreter.__file__).parent
    asking = {path.name for path in folder.glob("*.py") if re.search(r"runtime\.interpret\b", path.read_text("utf-8"))}
    assert asking == {"interpreter.py"}
