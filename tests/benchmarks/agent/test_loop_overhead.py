import json
import sys
import time
from pathlib import Path

import pytest
from benchmarks.agent import loop_overhead
from benchmarks.agent.loop_overhead import CASES, TimedModel, main, measure_run, row, script_of, table

from sureact.sampling_params import SamplingParams


@pytest.mark.parametrize("name", CASES)
def test_every_case_takes_its_turns(name: str, tmp_path: Path) -> None:
    assert measure_run(CASES[name], tmp_path) > 0
    assert (tmp_path / "trace.jsonl").exists() == CASES[name].is_traced


def test_the_time_of_the_model_is_counted_and_not_that_of_its_reader() -> None:
    lm = TimedModel(["One two three"])
    session = lm.session()
    session.append("Count:")
    session.truncate(3)
    before = lm.seconds
    text = ""
    for delta in session.stream(SamplingParams()):
        text += delta.text
        time.sleep(0.1)
    assert text == "One two three"
    assert 0 < before < lm.seconds < before + 0.1


def test_a_case_is_summed_up_by_its_median() -> None:
    fast, slow = row("plain", [0.2, 0.4, 9.0]), row("long", [3.0])
    assert (fast["ms"], fast["least_ms"], fast["largest_ms"], fast["reached"]) == (0.4, 0.2, 9.0, True)
    assert slow["reached"] is False
    shown = table([fast, slow]).splitlines()
    assert shown[1].split()[:3] == ["plain", "8", "0.40"]
    assert "missed: 2 ms" in shown[2]


def test_the_script_calls_in_every_turn_and_then_ends() -> None:
    script = script_of(CASES["chat"])
    assert sum("look_up" in text for text in script) == CASES["chat"].num_turns - 1
    assert "finish" in script[-2]


def test_the_command_prints_rows(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(loop_overhead, "CASES", {"plain": CASES["plain"]})
    monkeypatch.setattr(sys, "argv", ["loop_overhead", "--repeats", "1", "--json"])
    assert main() == 0
    (measured,) = json.loads(capsys.readouterr().out)["rows"]
    assert (measured["case"], measured["num_turns"]) == ("plain", 8)
