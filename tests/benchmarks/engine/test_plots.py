import sys
from pathlib import Path

import pytest
from benchmarks.engine import plots
from benchmarks.engine.plots import Curve, batch_curve, context_curve, draw_curves, draw_turns

from sureact.engine import Engine
from sureact.evaluation.bench_react import ReactMeasurement
from sureact.evaluation.react_script import Generated, ReactRun, Turn
from sureact.outputs import StepTimings


def run(seconds: float) -> ReactRun:
    timings = StepTimings(prefill_s=seconds / 4, decode_s=seconds / 2, mask_s=seconds / 8)
    return ReactRun(tuple(Turn(seconds, (Generated("a", 1, True, timings),)) for _ in range(3)))


def test_curves_measure_what_the_engine_holds(tiny_engine: Engine) -> None:
    by_batch = batch_curve(tiny_engine, "tiny", 2, sizes=(1, 2))
    assert by_batch.label == "tiny"
    assert min(by_batch.tokens_per_s) > 0
    by_context = context_curve(tiny_engine, "tiny", 2, sizes=(16, 64, 100_000))
    assert list(by_context.sizes) == [16, 64]
    assert len(by_context.tokens_per_s) == 2


def test_pictures_are_written(tiny_engine: Engine, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    curve = Curve("tiny", (1, 2), (10.0, 20.0))
    measured = ReactMeasurement(config=tiny_engine.config, runs=(run(1.0), run(2.0)))
    for path in (draw_curves([curve], "requests", tmp_path / "a.png"), draw_turns(measured, tmp_path / "b.png")):
        assert path.read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(plots, "find_spec", {}.get)
    monkeypatch.setattr(sys, "argv", ["plots"])
    assert plots.main() == 1
    assert "pip install 'sureact[bench]'" in capsys.readouterr().err
