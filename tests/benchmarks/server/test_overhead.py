import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmarks.server import overhead
from benchmarks.server.clients import Clients
from benchmarks.server.overhead import TINY, Way, Window, first_token_row, main, measure, table, throughput_row

from sureact.engine import Engine


def test_every_way_generates_as_many_tokens(tiny_engine: Engine) -> None:
    measured = measure(tiny_engine, TINY, is_profiled=True)
    assert [row["clients"] for row in measured["throughput"]] == [1, 2]
    for row in measured["throughput"]:
        expected = [row["clients"] * TINY.num_tokens] * TINY.repeats
        assert row["tokens"] == {"engine": expected, "whole": expected, "streamed": expected}
        assert row["fall"]["engine"] == 0
        assert row["first_ms"] > 0
    assert len(measured["first_token"]["all_added_ms"]) == TINY.num_first_tokens
    assert "server_thread.py" in measured["profile"] or "base_events.py" in measured["profile"]


def test_a_fall_is_that_of_the_median_pair() -> None:
    windows: dict[Way, list[Window]] = {
        "engine": [Window(100, 1.0), Window(100, 2.0), Window(100, 1.0)],
        "whole": [Window(99, 1.0), Window(49, 1.0), Window(98, 1.0)],
        "streamed": [Window(90, 1.0, (4.0,)), Window(25, 1.0, (6.0,)), Window(80, 1.0, (5.0,))],
    }
    row = throughput_row(1, windows, [0.1, 0.2, 0.3])
    assert row["fall"]["whole"] == pytest.approx(0.02)
    assert row["fall"]["streamed"] == pytest.approx(0.2)
    assert (row["first_ms"], row["server_thread"], row["reached"]) == (5.0, 0.2, False)
    assert throughput_row(3, windows, [0.1])["reached"] is None
    first = first_token_row([10.0, 20.0, 30.0], [11.0, 29.0, 32.0])
    assert (first["added_ms"], first["reached"]) == (2.0, True)
    shown = table([row], first).splitlines()
    assert "missed: 3%" in shown[1]
    assert "2.00 ms more" in shown[2]


def test_a_client_that_cannot_connect_is_told(unused_port: int) -> None:
    with pytest.raises(RuntimeError, match="could not connect"):
        Clients(unused_port, 1)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_the_command_prints_rows_and_settings(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tiny_folder: Path
) -> None:
    measured: dict[str, Any] = {"throughput": [], "first_token": {}}
    monkeypatch.setattr(overhead, "measure", lambda engine, workload, is_profiled: measured)  # pyright: ignore[reportUnknownLambdaType]
    options = ["overhead", "--model", str(tiny_folder), "--quantization", "none", "--tiny", "--json"]
    monkeypatch.setattr(sys, "argv", options)
    assert main() == 0
    record = json.loads(capsys.readouterr().out)
    assert record["throughput"] == []
    assert record["workload"]["num_tokens"] == TINY.num_tokens
    monkeypatch.setattr(sys, "argv", ["overhead", "--model", "no-such-model"])
    assert main() == 1
