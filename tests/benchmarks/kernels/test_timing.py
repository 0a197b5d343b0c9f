import pytest
import torch
from benchmarks.kernels import timing
from benchmarks.kernels.timing import copy_gb_per_s, least_us, timed


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


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_what_waits_for_the_gpu_is_no_graph() -> None:
    x = torch.ones(4, device="cuda")
    assert timed(lambda: x.sum().item(), repeats=3).how == "eager"
    assert timed(lambda: x.add_(1), repeats=3).how == "graph"
