import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.agent import spinning_tools
from benchmarks.agent.spinning_tools import TINY, Window, cases, main, measure, measure_case, row, table

from sureact.agent.token_limits import TokenLimits
from sureact.engine import Engine
from sureact.isolation.engine_process import EngineProcess


def test_every_case_is_measured_beside_tools_that_sleep(roomy_engine: Engine) -> None:
    rows = measure(roomy_engine, TINY)
    assert [each["case"] for each in rows] == ["sleeping", "spinning", "isolated"]
    assert len({tuple(each["tokens"]) for each in rows}) == 1
    assert rows[0]["fall"] == 0
    assert rows[0]["reached"] is None
    assert all(each["num_cut"] == 0 and each["tokens_per_s"] > 0 for each in rows)


def test_an_engine_in_a_process_of_its_own_gives_the_same_tokens(roomy_engine: Engine) -> None:
    with EngineProcess(str(roomy_engine.folder), quantization="none", dtype="float32", kv_cache_gb=0.05) as engine:
        windows = [measure_case(lm, "spinning", TINY) for lm in (engine, roomy_engine)]
    assert windows[0].num_tokens == windows[1].num_tokens > 0


def test_the_model_sees_one_and_the_same_tool() -> None:
    assert len({(tool.name, tool.desc, str(tool.parameters)) for tool in cases().values()}) == 1
    assert [tool.is_isolated for tool in cases().values()] == [False, False, True]


def test_runs_that_take_too_long_are_cut_and_what_they_wrote_counts(roomy_engine: Engine) -> None:
    limits = TokenLimits(thought=1500, call=96, outputs=1500, runaway=None)
    workload = replace(TINY, num_turns=3, limits=limits, most_s=0.2)
    window = measure_case(roomy_engine, "sleeping", workload)
    assert window.is_cut
    assert 0 < window.num_tokens < 2 * 3 * 1500


def test_the_fall_is_that_of_the_median_pair() -> None:
    beside = [Window(100, 1.0, 0.0), Window(100, 2.0, 0.0), Window(100, 1.0, 0.0)]
    spinning = row("spinning", [Window(90, 1.0, 0.0), Window(25, 1.0, 0.0), Window(80, 1.0, 0.0, True)], beside)
    assert spinning["fall"] == pytest.approx(0.2)
    assert spinning["num_cut"] == 1
    assert spinning["reached"] is False
    shown = table([row("sleeping", beside, beside), spinning]).splitlines()
    assert shown[1].split()[:4] == ["sleeping", "100.0", "0.0", "0.0%"]
    assert "missed" in shown[2]


def test_the_command_prints_rows_and_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_folder: Path
) -> None:
    monkeypatch.setattr(spinning_tools, "measure", lambda engine, workload: [])  # pyright: ignore[reportUnknownLambdaType]
    monkeypatch.setattr(sys, "argv", ["spinning_tools", "--model", str(tiny_folder), "--tiny", "--json"])
    assert main() == 0
    record = json.loads(capsys.readouterr().out)
    assert record["rows"] == []
    assert record["workload"]["num_runs"] == TINY.num_runs
    monkeypatch.setattr(sys, "argv", ["spinning_tools", "--model", "no-such-model"])
    assert main() == 1
