from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from sureact.catalog.model_catalog import CATALOG, CatalogEntry
from sureact.config import Quantization
from sureact.engine import Engine
from sureact.errors import ConfigError, ModelNotFoundError
from sureact.evaluation import prediction
from sureact.evaluation.prediction import PROGRAM_BYTES, Bandwidth, ModelSizes, predict, predictions, sizes_of

CheckpointMaker = Callable[..., Path]

SIZES = ModelSizes(
    name="a",
    is_on_disk=False,
    matrix_parameters=10**9,
    visited_parameters=10**9,
    other_parameters=10**8,
    is_head_tied=False,
    kv_bytes_per_token=10_000,
    context_len=32_000,
)
PLENTY = 10**12


@pytest.mark.parametrize("has_ops", [True, False])
def test_a_token_takes_its_bytes_over_the_share_of_the_bandwidth(
    monkeypatch: pytest.MonkeyPatch, has_ops: bool
) -> None:
    shares = prediction.REACHED_SHARE if has_ops else prediction.REACHED_SHARE_IN_TORCH
    monkeypatch.setattr("sureact_kernels.cpu.library._found", lambda: (shares if has_ops else None, None))
    monkeypatch.setitem(shares, "int8", 0.5)
    found = predict(SIZES, "int8", bandwidth=Bandwidth(memory=20), free_bytes=PLENTY, is_gpu=False)
    assert found.bytes_per_token == 10**9 + 1000 * 10_000
    assert found.tokens_per_s == pytest.approx(20e9 * 0.5 / 1.01e9)
    assert found.offloaded_bytes_per_token == 0


def test_memory_is_weights_one_context_and_the_program() -> None:
    found = predict(SIZES, "int8", bandwidth=Bandwidth(memory=20), free_bytes=PLENTY, is_gpu=False)
    assert found.weight_bytes == 10**9 + 2 * 10**8
    assert found.kv_bytes_per_1000_tokens == 10**7
    assert found.kv_bytes_per_1000_tokens_in_float8 == 5 * 10**6
    assert found.total_bytes == found.weight_bytes + 32_000 * 10_000 + PROGRAM_BYTES
    assert found.fits


@pytest.mark.parametrize(("form", "num_bytes"), [("none", 2 * 10**9), ("int8", 10**9), ("int4", 625_000_000)])
def test_forms_differ_in_the_bits_of_their_matrices(form: Quantization, num_bytes: int) -> None:
    assert SIZES.weight_bytes(form) == num_bytes + 2 * 10**8


def test_a_tied_head_is_counted_once_unless_it_is_quantized() -> None:
    tied = replace(SIZES, is_head_tied=True)
    assert tied.weight_bytes("none") == 2 * 10**9
    assert tied.weight_bytes("int8") == 10**9 + 2 * 10**8


def test_what_a_gpu_does_not_hold_crosses_the_bus_for_every_token() -> None:
    bandwidth = Bandwidth(memory=1000, host_to_device=10)
    fitting = predict(SIZES, "none", bandwidth=bandwidth, free_bytes=PLENTY, is_gpu=True)
    short = predict(SIZES, "none", bandwidth=bandwidth, free_bytes=fitting.total_bytes - 10**9, is_gpu=True)
    assert (fitting.fits, short.fits) == (True, False)
    assert short.offloaded_bytes_per_token == 10**9
    assert short.tokens_per_s < 10 < fitting.tokens_per_s


def test_a_gpu_that_is_full_gets_every_matrix_over_the_bus_and_no_more() -> None:
    found = predict(SIZES, "none", bandwidth=Bandwidth(memory=1000, host_to_device=10), free_bytes=0, is_gpu=True)
    assert found.offloaded_bytes_per_token == 2 * 10**9


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_the_catalogue_is_enough(entry: CatalogEntry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUREACT_HOME", str(tmp_path))
    sizes = sizes_of(entry.name.upper())
    assert (sizes.name, sizes.is_on_disk, sizes.context_len) == (entry.name, False, entry.context_len)
    assert sizes.weight_bytes("none") == entry.converted_bytes
    assert sizes.weight_bytes("int4") < sizes.weight_bytes("int8") < sizes.weight_bytes("none")


@pytest.mark.model
def test_catalogue_and_files_agree(model_folder: Path) -> None:
    entry = next(entry for entry in CATALOG if entry.name == model_folder.name)
    on_disk = sizes_of(str(model_folder))
    from_catalogue = prediction._sizes_of_entry(entry)  # pyright: ignore[reportPrivateUsage]
    assert on_disk.is_on_disk
    assert on_disk.kv_bytes_per_token == from_catalogue.kv_bytes_per_token
    # The catalogue counts norms and biases among the matrices.
    assert on_disk.matrix_parameters == pytest.approx(from_catalogue.matrix_parameters, rel=1e-3)


def test_files_tell_what_an_engine_then_takes(tiny_folder: Path) -> None:
    sizes = sizes_of(str(tiny_folder))
    with Engine(str(tiny_folder), quantization="none", kv_cache_gb=0.01) as engine:
        config = engine.config
    assert 2 * sizes.visited_parameters == config.weight_bytes_per_token
    assert sizes.kv_bytes_per_token == config.kv_cache_bytes // (config.num_kv_blocks * 128)
    with Engine(str(tiny_folder), kv_cache_dtype="float8_e4m3", kv_cache_gb=0.01) as engine:
        config = engine.config
    assert sizes.kv_bytes_per_token == 2 * config.kv_cache_bytes // (config.num_kv_blocks * 128)
    assert sizes.context_len == 1024


def test_a_token_visits_only_some_experts(make_checkpoint: CheckpointMaker) -> None:
    options = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}
    sizes = sizes_of(str(make_checkpoint("qwen3_moe", **options)))
    assert sizes.matrix_parameters - sizes.visited_parameters == 2 * 2 * 3 * 32 * 64  # layers, unvisited, matrices


def test_an_unknown_name_lists_the_catalogue() -> None:
    with pytest.raises(ModelNotFoundError, match=r"'qwen9'.*smollm2-135m-instruct"):
        sizes_of("qwen9")


def test_a_gguf_file_has_to_be_converted_first(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    with pytest.raises(ConfigError, match="not converted yet"):
        sizes_of(str(path))


def test_a_foreign_model_is_predicted_unquantized_with_the_reason(make_checkpoint: CheckpointMaker) -> None:
    folder = make_checkpoint("gpt2", n_embd=32, n_head=2, n_layer=2, vocab_size=300)
    sizes = sizes_of(str(folder))
    assert sizes.slow_reason is not None
    assert "gpt2" in sizes.slow_reason
    assert sizes.context_len == 1024


def test_every_form_is_predicted_with_what_this_machine_was_measured_to_deliver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sureact.evaluation.bench.memory_bandwidth", lambda device: ("read", 20.0))  # pyright: ignore
    monkeypatch.setattr("sureact.execution.settings.resolve_device", lambda name: torch.device("cpu"))  # pyright: ignore
    bandwidth, found = predictions(SIZES)
    assert bandwidth == Bandwidth(memory=20.0)
    assert [form.quantization for form in found] == ["int8", "int4", "none"]
    _, slow = predictions(replace(SIZES, slow_reason="of another family"))
    assert [form.quantization for form in slow] == ["none"]
    assert slow[0].kv_bytes_per_1000_tokens_in_float8 is None
