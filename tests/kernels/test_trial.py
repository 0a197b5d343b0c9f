from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact_kernels import dispatch
from sureact_kernels import trial as module
from sureact_kernels.dispatch import disable
from sureact_kernels.trial import trial

KERNELS = Path(dispatch.__file__).parent
OPS_IN_TRITON = {path.stem for path in (KERNELS / "triton").glob("[!_]*.py") if (KERNELS / path.name).exists()}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def ops() -> str:
    """Run each test once: it is Triton's version that is tried."""
    return "triton"


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Take the CPU for a GPU, with every op on."""
    monkeypatch.setattr(dispatch, "GPU", "cpu")
    monkeypatch.setattr(dispatch, "_disabled", {})
    monkeypatch.setattr(dispatch, "_refused", set[str]())
    cached: Any = dispatch._guarded  # pyright: ignore[reportPrivateUsage]
    cached.cache_clear()
    yield
    cached.cache_clear()


def test_every_op_is_tried_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its Triton version: no reference may stand in."""
    monkeypatch.setenv("SUREACT_KERNELS", "required")
    assert set(module._runs(CPU)) == OPS_IN_TRITON  # pyright: ignore[reportPrivateUsage]
    assert trial(CPU) == {}


def test_ops_that_are_off_or_fail_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> torch.Tensor:
        raise RuntimeError("no such instruction")

    monkeypatch.setattr("sureact_kernels.triton.rms_norm.rms_norm", fails)
    monkeypatch.setattr(module, "embedding", fails)
    disable("sample", "it is slow here")
    assert trial(CPU) == {
        "sample": "it is slow here",
        "rms_norm": "RuntimeError: no such instruction",
        "embedding": "RuntimeError: no such instruction",
    }
