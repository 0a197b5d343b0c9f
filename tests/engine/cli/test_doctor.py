import json
import shutil
from pathlib import Path

import pytest
import torch

from sureact.catalog.store import ModelStore
from sureact.cli.doctor import speed_notes
from sureact.cli.main import main


def install(name: str, source: Path, store_folder: Path) -> None:
    copy = store_folder / "copy"
    shutil.copytree(source, copy)
    ModelStore().install(name, copy)


def test_the_report_tells_machine_store_and_models(
    tiny_folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("tiny", tiny_folder, store_folder)
    assert main(["doctor"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert f"torch         {torch.__version__}" in said.out
    assert str(store_folder) in said.out
    assert "tiny: int8, bfloat16" in said.out
    assert "context 1,024 tokens" in said.out


def test_json_holds_the_same(tiny_folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    install("tiny", tiny_folder, store_folder)
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"versions", "hardware", "device", "threads", "store", "models", "speed"}
    (model,) = report["models"]
    assert (model["name"], model["quantization"], model["max_model_len"]) == ("tiny", "int8", 1024)
    assert model["kv_cache_bytes"] > 0


def test_an_empty_store_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("No models on this disk.\n")


def test_a_damaged_model_spoils_its_own_entry_only(
    tiny_folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("good", tiny_folder, store_folder)
    install("bad", tiny_folder, store_folder)
    (store_folder / "models" / "bad" / "config.json").write_text("{")
    assert main(["doctor", "--json"]) == 0
    models = {model["name"]: model for model in json.loads(capsys.readouterr().out)["models"]}
    assert "config.json" in models["bad"]["error"]
    assert models["good"]["quantization"] == "int8"


def test_a_model_without_a_module_of_ours_falls_back_and_says_why(
    tiny_folder: Path, store_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("foreign", tiny_folder, store_folder)
    path = store_folder / "models" / "foreign" / "config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text()) | {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]})
    )
    assert main(["doctor"]) == 0
    assert "foreign: runs in transformers, slowly: Model type 'gpt2'" in capsys.readouterr().out


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spare the tests the measurement of the bandwidth, which takes a gigabyte."""
    monkeypatch.setattr("sureact.evaluation.bench.memory_bandwidth", lambda device: ("read", 20.0))  # pyright: ignore


@pytest.mark.usefixtures("measured")
def test_a_model_of_the_catalogue_is_predicted_before_it_is_fetched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "qwen2.5-coder-0.5b-instruct"]) == 0
    said = capsys.readouterr().out
    assert "`sureact pull qwen2.5-coder-0.5b-instruct`" in said
    assert "12.3 MB per 1,000 tokens" in said
    assert [line.split()[0] for line in said.splitlines() if line.startswith(("int", "none"))] == [
        "int8",
        "int4",
        "none",
    ]


@pytest.mark.usefixtures("measured")
def test_a_prediction_can_be_read_by_machines(tiny_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", str(tiny_folder), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report.keys() == {"model", "bandwidth_gb_per_s", "forms"}
    assert report["model"]["is_on_disk"] is True
    assert report["bandwidth_gb_per_s"] == {"memory": 20.0, "host_to_device": None}
    assert [form["quantization"] for form in report["forms"]] == ["int8", "int4", "none"]
    assert all(form["fits"] and form["tokens_per_s"] > 0 for form in report["forms"])


def test_a_name_that_nothing_knows_lists_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "qwen9"]) == 1
    assert "qwen2.5-coder-1.5b-instruct" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("features", "said"),
    [
        ([], ["no AVX-512", "no bfloat16 instructions"]),
        (["avx2", "avx512f", "avx512_vnni"], ["no bfloat16 instructions"]),
        (["avx2", "avx512f", "avx512_bf16"], []),
    ],
)
def test_what_falls_back_is_told_with_its_reason(features: list[str], said: list[str]) -> None:
    notes = speed_notes(torch.device("cpu"), {"cpu_features": features, "gpus": []})
    falls_back = [note for note in notes if note.startswith("Falls back")]
    assert len(falls_back) == len(said)
    assert all(reason in note for reason, note in zip(said, falls_back, strict=True))


def test_ops_that_cannot_be_built_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureact_kernels.cpu.library._found", lambda: (None, "there is no C++ compiler; install g++."))
    notes = speed_notes(torch.device("cpu"), {"cpu_features": ["avx512f", "avx512_bf16"], "gpus": ["a GPU"]})
    assert notes[-1].startswith("Falls back: the ops run in torch")
    assert notes[-1].endswith("install g++.")


def test_a_gpu_has_no_int8_products() -> None:
    notes = speed_notes(torch.device("cuda"), {"cpu_features": [], "gpus": ["a GPU"]})
    assert any("int8" in note for note in notes)
