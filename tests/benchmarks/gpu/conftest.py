import pytest
from benchmarks.gpu.random_model import RandomModel, make_model
from benchmarks.gpu.settings import TINY
from benchmarks.kernels import timing


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy and flush little: figures need not be right here."""
    monkeypatch.setattr(timing, "COPY_BYTES", {"cpu": 1 << 20, "cuda": 1 << 20})
    monkeypatch.setattr("benchmarks.harness._FLUSH_BYTES", 1 << 10)


@pytest.fixture(scope="session")
def tiny() -> RandomModel:
    return make_model("tiny", TINY.max_model_len)
