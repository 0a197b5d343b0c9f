import importlib
from pathlib import Path

import pytest
from benchmarks.quality import reference


def test_every_form_is_held_against_float32(
    tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    main = importlib.import_module("benchmarks.quality.__main__")
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    monkeypatch.setattr(reference, "_generate", lambda model, ids, num_tokens: [[7] * num_tokens for _ in ids])  # pyright: ignore
    rows = main.measure(str(tiny_folder), num_prompts=2, num_tokens=4)
    assert [row["form"] for row in rows] == ["float32", "bfloat16", "int8", "int4"]
    assert rows[0] == {
        "form": "float32",
        "positions": 8,
        "agreement_percent": 100.0,
        "perplexity": rows[0]["perplexity"],
        "perplexity_change_percent": 0.0,
    }
    assert "Scoring int4" in capsys.readouterr().err
