"""Every op is tested twice on a CPU: as built from C++, and as its torch reference."""

import pytest
import torch

from sureact_kernels.cpu import library as module


@pytest.fixture(autouse=True)
def seed() -> None:
    """Let a test draw the same numbers alone and among the others."""
    torch.manual_seed(0)


@pytest.fixture(params=["c++", "torch"], autouse=True)
def ops(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which version is used."""
    if request.param == "torch":
        monkeypatch.setattr(module, "_found", lambda: (None, "the test asks for the reference"))
    elif module.library() is None:
        pytest.skip(f"no C++ ops here: {module.reason_unavailable()}")
    return request.param
