import pytest
import torch
from benchmarks.kernels import timing
from benchmarks.kernels.timing import copy_gb_per_s, least_us, timed

from sureact_kernels import dispatch
from sureact_kernels.errors import KernelInputError


def test_a_function_is_called_and_timed() -> None:
    calls: list[int] = []
    found = timed(lambda: calls.append(1), repeats=3)
    assert len(found.timing.seconds) == 3
    assert len(calls) >= 3
    assert found.how == ("graph" if torch.cuda.is_available() else "cpu")


def test_a_copy_has_a_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "COPY_BYTES", {"cpu": 1 << 22, "cuda": 1 << 22})
    assert copy_gb_per_s(repeats=3) > 0.1


def test_a_measurement_takes_time_itself() -> None:
    assert 0 < least_us(repeats=3) < 1e6


class _Launchers:
    """A version whose launcher waits for the GPU while torch watches, and one that is given a wrong shape."""

    def draw(self) -> None:
        raise RuntimeError("called a synchronizing CUDA operation")

    def refuse(self) -> None:
        raise KernelInputError("a shape")


@pytest.mark.parametrize("required", [True, False])
def test_a_launcher_that_waits_is_found_out(required: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where SUREACT_KERNELS=required makes an input error of what torch raises."""
    modes: list[object] = []
    monkeypatch.setattr(torch.cuda, "get_sync_debug_mode", lambda: 0)
    monkeypatch.setattr(torch.cuda, "set_sync_debug_mode", modes.append)
    launchers = _Launchers()
    if required:
        monkeypatch.setenv("SUREACT_KERNELS", "required")
        launchers = dispatch._Guarded("sample", launchers, None)  # pyright: ignore[reportPrivateUsage]
    assert timing._waits(launchers.draw)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(KernelInputError, match="a shape"):
        timing._waits(launchers.refuse)  # pyright: ignore[reportPrivateUsage]
    assert modes == ["error", 0] * 2


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_waits_for_the_gpu_is_no_graph() -> None:
    x = torch.ones(4, device="cuda")
    assert timed(lambda: x.sum().item(), repeats=3).how == "eager"
    assert timed(lambda: x.add_(1), repeats=3).how == "graph"
