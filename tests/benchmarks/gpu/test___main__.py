import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.gpu import prefill
from benchmarks.gpu.__main__ import main
from benchmarks.gpu.report import PartReport
from benchmarks.gpu.settings import PARTS, Settings

ROOT = Path(__file__).parents[3]

ON_A_BARE_MACHINE = """
import sys
for name in ("llguidance", "outlines", "outlines_core", "matplotlib", "accelerate", "gguf", "jsonschema", "psutil",
             "pydantic", "referencing", "rich"):
    sys.modules[name] = None  # importing it fails
from benchmarks.gpu import __main__ as module
from benchmarks.gpu import invariance, kernels, peers
from benchmarks import harness
from benchmarks.kernels import timing
timing.COPY_BYTES["cpu"] = harness._FLUSH_BYTES = 1 << 20
for part in sys.argv[1:]:
    sys.argv = ["gpu", "--part", part, "--tiny"]
    assert module.main() == 0, part
"""


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["gpu", *arguments])
    return main()


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.slow if part == "invariance" else ()) for part in PARTS]
)
def test_every_part_runs_and_leaves_its_file(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "--part", part, "--tiny", "--json", "--out", str(tmp_path)) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["part"] == part
    assert report["weights"] == "random, of the models' shapes"
    assert report["failures"] == []
    assert report["cut"] == []
    for row in report["rows"]:
        assert {"part", "model", "batch", "context", "value", "unit", "limit", "target", "reached"} <= row.keys()
        assert (row["value"] is None) == (row["note"].endswith(("needs a CUDA device", "is not installed")))
        assert row["unit"] == "elements" or row["value"] is None or row["value"] > 0
    assert any(row["model"] == "tiny" for row in report["rows"])
    written = json.loads((tmp_path / f"{part}.json").read_text())
    assert written["rows"] == report["rows"]


def test_nothing_of_a_bare_machine_is_missing(tmp_path: Path) -> None:
    """With neither grammar engines nor matplotlib, as where only torch, triton and transformers are installed."""
    parts = ("probe", "decode", "prefill", "constrained", "react")
    command = [sys.executable, "-c", ON_A_BARE_MACHINE, *parts]
    path = ":".join(map(str, (ROOT, ROOT / "engine", ROOT / "kernels")))
    ended = subprocess.run(
        command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert "masks of a grammar: not measured: llguidance is not installed" in ended.stdout
    assert "No plots: matplotlib is not installed." in ended.stderr
    assert {path.name for path in (tmp_path / "gpu-report").iterdir()} == {f"{part}.json" for part in parts}


def test_parts_run_in_processes_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(monkeypatch, "--part", "prefill", "react", "--tiny", "--out", str(tmp_path), "--models", "tiny") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if "weights random" in line] == ["prefill", "react"]
    assert any(line.startswith("tiny        whole run") for line in lines)


def test_a_part_that_fails_leaves_the_others_theirs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One dies, one hangs, one raises."""

    def child(command: list[str], *, cwd: Path, timeout: float, check: bool) -> subprocess.CompletedProcess[str]:
        assert (cwd, check) == (ROOT, False)
        part, path = command[command.index("--part") + 1], tmp_path / f"{command[command.index('--part') + 1]}.json"
        if part == "probe":
            return subprocess.CompletedProcess(command, -11)
        report = PartReport(part, seconds=0, path=path)
        report.add("tiny", "graph", 5.0, "tokens/s")
        if part == "react":
            report.fail("tiny", "ValueError: no")
        report.save()
        if part == "decode":
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, int(part == "react"))

    monkeypatch.setattr(subprocess, "run", child)
    parts = ("probe", "decode", "react", "prefill")
    assert run(monkeypatch, "--part", *parts, "--tiny", "--json", "--seconds", "7", "--out", str(tmp_path)) == 1
    reports: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [report["failures"] for report in reports] == [
        [{"case": "probe", "error": "its process ended with status -11"}],
        [{"case": "decode", "error": "its process was ended after 82 s; what it had found is kept"}],
        [{"case": "tiny", "error": "ValueError: no"}],
        [],
    ]
    assert [len(report["rows"]) for report in reports] == [0, 1, 1, 1]
    assert json.loads((tmp_path / "probe.json").read_text())["failures"] == reports[0]["failures"]


def test_an_error_in_a_part_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def measure(report: PartReport, models: Sequence[str], settings: Settings) -> None:
        raise RuntimeError("no kernel image")

    monkeypatch.setattr(prefill, "measure", measure)
    assert run(monkeypatch, "--part", "prefill", "--tiny", "--out", str(tmp_path)) == 1
    assert "Error: prefill: RuntimeError: no kernel image" in capsys.readouterr().out
    assert json.loads((tmp_path / "prefill.json").read_text())["failures"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_what_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--part", "probe") == 1
    assert "with --tiny everything runs" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [("--part", "speed"), ("--models", "gpt"), ("--seconds", "0")])
def test_wrong_usage_is_said(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        run(monkeypatch, *arguments)
    assert left.value.code == 2
    assert arguments[0] in capsys.readouterr().err
