import json
from collections.abc import Callable

import pytest

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
        (("sleep",), "`bench decode` and `bench prefill`"),
        (("prefill", "--num-tokens", "4"), "--num-tokens goes with `bench decode`"),
    ],
)
def test_wrong_usage_is_refused(
    on_tiny: Command, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert on_tiny("bench", *words) == 2
    assert said in capsys.readouterr().err


def test_a_prompt_that_does_not_fit_fails_with_numbers(on_tiny: Command, capsys: pytest.CaptureFixture[str]) -> None:
    assert on_tiny("bench", "prefill", "--prompt-len", "5000") == 1
    assert "5,000 tokens" in capsys.readouterr().err
