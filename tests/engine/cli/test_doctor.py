import json
import shutil
from pathlib import Path

import pytest
import torch
import triton

from sureact.catalog.store import ModelStore
from sureact.cli.doctor import speed_notes
from sureact.cli.main import main
from sureact_kernels.trial import trial


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


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a trial of all ops on a GPU finds; empty unless a test says more."""
    found: dict[str, str] = {}
    monkeypatch.setattr("sureact_kernels.trial.trial", lambda device: found)  # pyright: ignore
    monkeypatch.setattr("sureact_kernels.dispatch.reason_without_triton", lambda: None)
    return found


def notes_on_a_gpu() -> list[str]:
    return speed_notes(torch.device("cuda"), {"cpu_features": [], "gpus": ["a GPU"]})


@pytest.mark.usefixtures("trials")
def test_ops_that_run_on_a_gpu_are_told_in_one_line() -> None:
    assert notes_on_a_gpu() == [
        "The model runs on the GPU in bfloat16 or float16.",
        f"All ops run in Triton {triton.__version__} (SUREACT_KERNELS=reference turns them off).",
    ]


def test_ops_that_are_off_on_a_gpu_are_told_with_the_reason(trials: dict[str, str]) -> None:
    trials |= {"sample": "RuntimeError: no such instruction", "linear": "OutOfResources: shared memory"}
    assert notes_on_a_gpu()[1:] == [
        f"All other ops run in Triton {triton.__version__} (SUREACT_KERNELS=reference turns them off).",
        "Falls back: linear does not run in Triton: OutOfResources: shared memory",
        "Falls back: sample does not run in Triton: RuntimeError: no such instruction",
    ]


@pytest.mark.usefixtures("trials")
def test_a_gpu_without_triton_is_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureact_kernels.dispatch.reason_without_triton", lambda: "Triton cannot be imported: no.")
    assert notes_on_a_gpu()[1:] == ["Falls back: the ops run in torch: Triton cannot be imported: no."]


def test_a_gpu_without_memory_leaves_the_report_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(device: torch.device) -> dict[str, str]:
        raise torch.OutOfMemoryError(f"{device} is full")

    monkeypatch.setattr("sureact_kernels.dispatch.reason_without_triton", lambda: None)
    monkeypatch.setattr("sureact_kernels.trial.trial", fails)
    assert notes_on_a_gpu()[1:] == ["The ops could not be tried on the GPU: cuda is full"]


def test_the_ops_are_tried_on_the_device_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here in Triton's interpreter; the note is the same."""
    monkeypatch.setattr("sureact_kernels.dispatch.GPU", "cpu")
    monkeypatch.setattr("sureact_kernels.dispatch._disabled", {"sample": "it is wrong here."})
    monkeypatch.setattr("sureact_kernels.trial.trial", lambda device, run=trial: run(torch.device("cpu")))  # pyright: ignore
    assert notes_on_a_gpu()[2:] == ["Falls back: sample does not run in Triton: it is wrong here."]


def test_required_ops_that_cannot_be_built_leave_the_report_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SUREACT_KERNELS", "required")
    monkeypatch.setattr("sureact_kernels.cpu.library._found", lambda: (None, "there is no C++ compiler; install g++."))
    assert main(["doctor"]) == 0
    assert "install g++." in capsys.readouterr().out
