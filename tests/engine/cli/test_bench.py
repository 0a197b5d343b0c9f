import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.cli.main import main
from sureact.evaluation import bench

Command = Callable[..., int]


@pytest.fixture(autouse=True)
def known_bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(device: str) -> tuple[str, float]:
        return "read", 10.0

    monkeypatch.setattr(bench, "memory_bandwidth", measured)


def test_decode_is_shown_beside_the_limit(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("bench", "decode", "--num-tokens", "4", "--repeats", "2", "--prompt-len", "8") == 0
    said = capsys.readouterr()
    lines = [line.split("  ")[0] for line in said.out.splitlines()]
    assert "decode of 4 tokens" in lines
    assert "bytes read per token" in lines
    assert "bandwidth limit" in lines
    assert "10.0 GB/s (measured)" in said.out
    assert "Measuring decode" in said.err


def test_prefill_as_json_holds_every_run_and_the_machine(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("bench", "prefill", "--repeats", "3", "--prompt-len", "64", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["what"] == "prefill"
    assert result["num_tokens"] == 64
    assert len(result["seconds"]) == len(result["tokens_per_s"]) == 3
    assert result["limit_tokens_per_s"] > 0
    assert result["versions"]["torch"]
    assert result["hardware"]["memory_bytes"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sleep",), "`bench decode`, `bench prefill`, `bench constrained`, `bench react`, `bench throughput`"),
        (("prefill", "--num-tokens", "4"), "--num-tokens goes with `bench decode`, `bench constrained`, not"),
        (("react", "--calls", "4"), "--calls goes with `bench constrained`, not with `bench react`"),
        (("constrained", "--schemas", "/nowhere"), "/nowhere does not exist"),
    ],
)
def test_wrong_usage_is_refused(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert on_tiny("bench", *words) == 2
    assert said in capsys.readouterr().err


def test_tool_calls_are_counted_and_their_parts_shown(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("bench", "constrained", "--calls", "2", "--num-tokens", "6", "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["what"] == "constrained"
    assert [call["num_tokens"] for call in result["calls"]] == [5, 5]
    assert result["tokens_per_s"] > 0
    assert result["refused"] == []
    assert on_tiny("bench", "constrained", "--calls", "2", "--num-tokens", "6") == 0
    shown = capsys.readouterr().out
    assert "2, 0 of them complete and valid, 0 refused" in shown
    for part in ("mask time", "forced tokens", "draft acceptance", "schema compile"):
        assert part in shown


def test_an_agents_run_is_shown_turn_by_turn(roomy_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--quantization", "none", "--dtype", "float32", "--kv-cache-gb", "0.05", "--model", str(roomy_folder)]
    assert main(["bench", "react", "--repeats", "1", "--num-turns", "1", "--num-threads", "1", *words]) == 0
    lines = [line.split("  ")[0] for line in capsys.readouterr().out.splitlines()]
    assert lines[3:5] == ["turn 1", "answer"]


def test_throughput_counts_both_kinds_of_tokens(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--num-requests", "3", "--input-len", "4", "--output-len", "2")
    assert on_tiny("bench", "throughput", *words, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["prompt_tokens"] == 3 * 4
    assert result["output_tokens"] == 3 * 2
    assert on_tiny("bench", "throughput", *words) == 0
    assert "6 tokens generated" in capsys.readouterr().out


def test_a_prompt_that_does_not_fit_fails_with_numbers(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("bench", "prefill", "--prompt-len", "5000") == 1
    assert "5,000 tokens" in capsys.readouterr().err
