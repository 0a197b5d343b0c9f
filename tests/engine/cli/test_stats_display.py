from pathlib import Path

import pytest

from sureact.cli.main import main
from sureact.cli.stats_display import stats_rows
from sureact.execution.engine_stats import EngineStats


def test_rows_hold_speed_share_of_the_bandwidth_and_acceptance() -> None:
    stats = EngineStats(
        prefill_tokens=100,
        prefill_s=0.5,
        decode_tokens=30,
        decode_s=1.0,
        num_decode_steps=20,
        weight_bytes_per_token=10**9,
        draft_tokens=10,
        accepted_draft_tokens=4,
        forced_tokens=6,
        cached_tokens=50,
    )
    rows = dict(stats_rows(stats, 40.0))
    assert rows["prefill"] == "100 tokens in 0.50 s (200 tokens/s), 50 more found in the cache"
    assert rows["decode"] == "30 tokens in 1.00 s (30.0 tokens/s), 20 passes"
    assert "20.0 GB/s" in rows["bandwidth"]
    assert "50% of 40.0 GB/s" in rows["bandwidth"]
    assert rows["guesses"] == "4 of 10 guessed tokens accepted (40%), 6 tokens forced"


def test_an_engine_that_did_nothing_has_rows_too() -> None:
    assert all(isinstance(text, str) for _, text in stats_rows(EngineStats(), 40.0))


def _bandwidth(device: str) -> tuple[str, float]:
    assert device == "cpu"
    return "read", 30.0


def test_verbose_shows_them_after_the_text(
    tiny_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sureact.evaluation.bench.memory_bandwidth", _bandwidth)
    words = ["generate", "abc", "--model", str(tiny_folder), "--max-tokens", "4", "--kv-cache-gb", "0.004", "--verbose"]
    assert main(words) == 0
    said = capsys.readouterr()
    assert "passes" in said.err
    assert "passes" not in said.out
