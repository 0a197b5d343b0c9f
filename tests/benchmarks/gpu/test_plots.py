from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu import plots
from benchmarks.gpu.plots import MOST_BARS, Bar, bars_by_unit, draw, reason_without_plots
from benchmarks.gpu.report import PartReport


def report(part: str = "decode") -> dict[str, Any]:
    found = PartReport(part, seconds=60)
    found.add("tiny", "graph 1", 50.0, "tokens/s", batch=1, context=24, limit=100.0, target=70.0)
    found.add("tiny", "graph 2", 25.0, "tokens/s", limit=100.0)
    found.add("tiny", "ratio", 1.5, "ratio")
    found.add("tiny", "vllm", None, "tokens/s")
    return found.as_json()


def test_bars_are_grouped_by_unit() -> None:
    assert bars_by_unit(report()) == {
        "tokens/s": [
            Bar("tiny graph 1, batch 1, context 24", 50.0, 100.0, 70.0),
            Bar("tiny graph 2", 25.0, 100.0, None),
        ],
        "ratio": [Bar("tiny ratio", 1.5, None, None)],
    }


def test_ops_alone_are_drawn_by_their_median_share() -> None:
    found = PartReport("kernels", seconds=60)
    for us in (1.0, 2.0, 4.0):
        found.add("tiny", f"linear {us}", us, "us", limit=1.0)
    assert list(bars_by_unit(found.as_json()).values()) == [[Bar("tiny linear", 0.5, 1.0, None)]]


def test_there_are_no_more_bars_than_one_can_read() -> None:
    found = PartReport("decode", seconds=60)
    for index in range(2 * MOST_BARS):
        found.add("tiny", str(index), 1.0, "us")
    assert len(bars_by_unit(found.as_json())["us"]) == MOST_BARS


def test_a_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = draw(report(), tmp_path / "new" / "decode.png")
    assert path is not None
    assert path.read_bytes().startswith(b"\x89PNG")


def test_nothing_is_drawn_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert draw(PartReport("decode", seconds=60).as_json(), tmp_path / "a.png") is None
    monkeypatch.setattr(plots, "find_spec", {}.get)
    assert reason_without_plots() == "No plots: matplotlib is not installed."
