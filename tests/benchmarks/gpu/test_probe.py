import subprocess
from collections.abc import Callable

import pytest
import torch
from benchmarks.gpu import probe
from benchmarks.gpu.probe import card, dependent_launch_support, driver, matrices, node_us, varlen_signature
from benchmarks.harness import Timing
from benchmarks.kernels.case import MODELS
from benchmarks.kernels.timing import Timed


def test_the_driver_is_asked_or_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout="570.1, 1980, 3201, 700.00\n")

    monkeypatch.setattr(subprocess, "run", answer)
    assert driver() == "570.1, 1980, 3201, 700.00"

    def missing(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        raise FileNotFoundError(command[0])

    monkeypatch.setattr(subprocess, "run", missing)
    assert driver() == "unknown: nvidia-smi"


def test_a_node_is_the_difference_of_two_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    assert isinstance(node_us(lambda x: calls.append(len(x)), 4), float)
    assert set(calls) == {1}


def test_a_node_of_no_graph_has_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def called(function: Callable[[], object], *, repeats: int) -> Timed:
        return Timed(Timing((1.0,) * repeats), "eager")

    monkeypatch.setattr(probe, "timed", called)
    with pytest.raises(RuntimeError, match="cannot be captured"):
        node_us(lambda x: None, 4)


def test_software_is_described() -> None:
    assert varlen_signature().startswith(("(query", f"torch {torch.__version__} has none"))
    assert "launch_pdl" in dependent_launch_support() or dependent_launch_support().startswith("no: ")


def test_a_cpu_is_no_card() -> None:
    if not torch.cuda.is_available():
        assert card() == {"card": "none: needs a CUDA device"}
    else:
        assert card()["card"] == torch.cuda.get_device_name()


def test_matrices_are_those_of_the_kernels() -> None:
    assert matrices(MODELS["qwen3-0.6b"])["o"] == (1024, 2048)
    assert matrices(MODELS["qwen3-8b"])["head"] == (151_936, 4096)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_launches_are_timed() -> None:
    from benchmarks.gpu.empty_kernel import launch_early, launch_empty

    assert 0 < node_us(launch_empty, 100) < 100
    assert 0 < node_us(launch_early, 100) < 100
    assert 0 < probe._launch_us(launch_empty, 100) < 1000  # pyright: ignore[reportPrivateUsage]
