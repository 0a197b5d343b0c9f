"""The launchers are called directly here, so that it does not matter which version `dispatch` would pick."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from triton.runtime import KernelInterface


@pytest.fixture(autouse=True)
def ops() -> str:
    """Run each test once, not once per version of the CPU."""
    return "triton"


class NoKernel:
    """Launches nothing."""

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., None]:
        def launch(*args: Any, **kwargs: Any) -> None:
            """Take what the kernel takes."""

        return launch


@pytest.fixture
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType], None]:
    """Take the kernels out of a module, so that its launchers run on "meta" tensors.

    These have shapes but no values: what would wait for a GPU, and so cannot be captured in a CUDA graph, raises.
    """

    def take_out(module: ModuleType) -> None:
        kernels = [name for name, value in vars(module).items() if isinstance(value, KernelInterface)]
        assert kernels
        for name in kernels:
            monkeypatch.setattr(module, name, NoKernel())

    return take_out
