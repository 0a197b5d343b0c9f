import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest
import torch
from safetensors.torch import load_file, save_file

from sureact.errors import CheckpointError
from sureact.weights import quantized_cache
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.model_config import read_model_config
from sureact.weights.parameter_names import ParameterSource, map_parameters
from sureact.weights.quantized_cache import InputMoments, QuantizedWeight, quantized_weights
from sureact_kernels.cpu.library import library
from sureact_kernels.int8_product import has_exact_product
from sureact_kernels.linear import Int4Weight, Int8Weight, tensors_of

SaveTinyModel = Callable[..., Path]


def _quantized(
    folder: Path, quantization: Literal["int8", "int4"] = "int8", input_moments: InputMoments | None = None
) -> dict[str, QuantizedWeight]:
    checkpoint = Checkpoint(folder)
    sources = map_parameters(read_model_config(folder), checkpoint)
    return quantized_weights(checkpoint, sources, quantization, input_moments)


def _some_moments(checkpoint: Checkpoint, sources: Mapping[str, ParameterSource]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield moments of two matrices of a tiny model; the first input counts most."""
    for name in ("layers.0.qkv", "lm_head"):
        yield name, torch.diag(torch.tensor([100.0] + [1.0] * (sources[name].shape[1] - 1)))


def _unexpected_moments(
    checkpoint: Checkpoint, sources: Mapping[str, ParameterSource]
) -> Iterator[tuple[str, torch.Tensor]]:
    pytest.fail("ran the model anew")


def _nibbles(weights: dict[str, QuantizedWeight], name: str) -> torch.Tensor:
    weight = weights[name]
    assert isinstance(weight, Int4Weight)
    assert weight.packed is not None
    return weight.nibbles


def _fail(weight: torch.Tensor) -> Int8Weight:
    pytest.fail(f"quantized {weight.shape} anew")


@pytest.mark.parametrize(("quantization", "kind"), [("int8", Int8Weight), ("int4", Int4Weight)])
def test_linear_matrices_are_quantized_and_nothing_else(
    quantization: Literal["int8", "int4"], kind: type, save_tiny_model: SaveTinyModel
) -> None:
    quantized = _quantized(save_tiny_model("qwen2", num_hidden_layers=1), quantization)
    assert set(quantized) == {"layers.0.qkv", "layers.0.o", "layers.0.gate_up", "layers.0.down", "lm_head"}
    assert all(isinstance(weight, kind) for weight in quantized.values())


@pytest.mark.parametrize("quantization", ["int8", "int4"])
@pytest.mark.parametrize("is_first_start", [True, False])
def test_what_is_not_for_a_cpu_comes_from_the_same_file_and_is_not_packed(
    quantization: Literal["int8", "int4"], is_first_start: bool, save_tiny_model: SaveTinyModel
) -> None:
    folder = save_tiny_model("qwen2")
    checkpoint = Checkpoint(folder)
    sources = map_parameters(read_model_config(folder), checkpoint)
    before = {} if is_first_start else _quantized(folder, quantization)
    found = quantized_weights(checkpoint, sources, quantization, is_packed=False)
    packed = before or _quantized(folder, quantization)
    assert found.keys() == packed.keys()
    for name, weight in found.items():
        assert weight.packed is None
        values, scales = tensors_of(weight)
        assert scales.dtype == torch.bfloat16
        assert torch.equal(values, tensors_of(packed[name])[0])
        assert torch.equal(scales.float(), tensors_of(packed[name])[1].float())


def test_the_second_start_reads_the_file(save_tiny_model: SaveTinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_tiny_model("qwen2")
    first = _quantized(folder)
    assert (folder / "quantized" / "int8-v3.safetensors").is_file()
    assert len(os.listdir(folder / "quantized")) == 1
    monkeypatch.setattr(quantized_cache, "quantize_int8", _fail)
    second = _quantized(folder)
    assert first.keys() == second.keys()
    one, two = first["lm_head"], second["lm_head"]
    assert isinstance(one, Int8Weight)
    assert isinstance(two, Int8Weight)
    assert torch.equal(one.weight, two.weight)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_the_first_tensor_of_the_file_lies_on_a_boundary(save_tiny_model: SaveTinyModel, num_layers: int) -> None:
    folder = save_tiny_model("qwen2", num_hidden_layers=num_layers)
    _quantized(folder)
    header = (folder / "quantized" / "int8-v3.safetensors").read_bytes()[:8]
    assert (8 + int.from_bytes(header, "little")) % 64 == 0


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_matrices_begin_where_vectorized_products_may_read(save_tiny_model: SaveTinyModel, num_layers: int) -> None:
    """The length of the file's header decides where its tensors begin, so several files are read."""
    for weight in _quantized(save_tiny_model("qwen2", num_hidden_layers=num_layers)).values():
        assert isinstance(weight, Int8Weight)
        assert weight.weight.data_ptr() % 64 == 0


def test_int8_matrices_are_packed_with_float32_scales_where_the_cpu_has_the_product(
    save_tiny_model: SaveTinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny_model("qwen2")
    head = _quantized(folder)["lm_head"]
    assert isinstance(head, Int8Weight)
    assert (
        (head.packed is not None)
        == (head.scales.dtype == torch.float32)
        == (has_exact_product() or library() is not None)
    )
    monkeypatch.setattr(quantized_cache, "pack_int8", dict[str, None]().get)
    head = _quantized(folder)["lm_head"]
    assert isinstance(head, Int8Weight)
    assert head.packed is None
    assert head.scales.dtype == torch.bfloat16


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux's account of mapped pages")
def test_packing_leaves_no_page_of_the_file_in_memory(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2", vocab_size=100_000)  # many times what the kernel maps around a page
    _quantized(folder)
    weights = _quantized(folder)  # the first call wrote the file
    file = re.escape("quantized/int8")
    resident = re.findall(rf"{file}.*\n(?:(?!Rss).*\n)*Rss: +(\d+) kB", Path("/proc/self/smaps").read_text())
    size = sum(weight.num_bytes for weight in weights.values())
    assert 0 < sum(map(int, resident)) * 1024 < size / 4


def test_int4_is_rounded_for_the_inputs_that_are_known(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    nearest, fitted = _quantized(folder, "int4"), _quantized(folder, "int4", _some_moments)
    assert fitted.keys() == nearest.keys()
    assert not torch.equal(_nibbles(fitted, "lm_head"), _nibbles(nearest, "lm_head"))
    assert torch.equal(_nibbles(fitted, "layers.1.down"), _nibbles(nearest, "layers.1.down"))


def test_the_two_roundings_have_a_file_each(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    first = _quantized(folder, "int4", _some_moments)
    _quantized(folder, "int4")
    again = _quantized(folder, "int4", _unexpected_moments)
    assert torch.equal(_nibbles(again, "lm_head"), _nibbles(first, "lm_head"))
    assert sorted(os.listdir(folder / "quantized")) == ["int4-nearest-v4.safetensors", "int4-v4.safetensors"]


def test_files_of_other_layouts_make_room(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    (folder / "quantized").mkdir()
    for name in ("int8-v1.safetensors", "int8-v2.safetensors", "int4-v2.safetensors", "int8-notes.txt"):
        (folder / "quantized" / name).write_text("old")
    _quantized(folder)
    left = sorted(os.listdir(folder / "quantized"))
    assert left == ["int4-v2.safetensors", "int8-notes.txt", "int8-v3.safetensors"]


def test_a_model_that_cannot_run_the_text_is_rounded_to_nearest(
    save_tiny_model: SaveTinyModel, caplog: pytest.LogCaptureFixture
) -> None:
    def failing(checkpoint: Checkpoint, sources: Mapping[str, ParameterSource]) -> Iterator[tuple[str, torch.Tensor]]:
        yield "lm_head", torch.full((32, 32), torch.nan)
        raise RuntimeError("no such shape")

    folder = save_tiny_model("qwen2")
    with caplog.at_level(logging.WARNING):
        found = _quantized(folder, "int4", failing)
    assert "no such shape" in caplog.text
    nearest = _quantized(folder, "int4")
    assert all(torch.equal(_nibbles(found, name), _nibbles(nearest, name)) for name in nearest)


def test_an_interrupted_rounding_leaves_nothing_behind(save_tiny_model: SaveTinyModel) -> None:
    def interrupted(
        checkpoint: Checkpoint, sources: Mapping[str, ParameterSource]
    ) -> Iterator[tuple[str, torch.Tensor]]:
        yield from _some_moments(checkpoint, sources)
        raise KeyboardInterrupt

    folder = save_tiny_model("qwen2")
    with pytest.raises(KeyboardInterrupt):
        _quantized(folder, "int4", interrupted)
    assert not (folder / "quantized").exists()


def test_changed_weights_are_quantized_anew(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    before = _quantized(folder)["lm_head"]
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = torch.full_like(tensors["lm_head.weight"], 2.0)
    save_file(tensors, folder / "model.safetensors")
    os.utime(folder / "model.safetensors", ns=(1, 1))
    after = _quantized(folder)["lm_head"]
    assert isinstance(before, Int8Weight)
    assert isinstance(after, Int8Weight)
    assert not torch.equal(before.scales, after.scales)


def test_another_kind_of_cpu_reads_the_same_file(
    save_tiny_model: SaveTinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_tiny_model("qwen2")
    _quantized(folder)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "OTHER")
    monkeypatch.setattr(quantized_cache, "quantize_int8", _fail)
    _quantized(folder)


def test_a_damaged_file_is_replaced(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    _quantized(folder)
    path = folder / "quantized" / "int8-v3.safetensors"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-10])
    _quantized(folder)
    assert path.stat().st_size == size


def test_a_folder_that_cannot_be_written_costs_a_notice_only(
    save_tiny_model: SaveTinyModel, caplog: pytest.LogCaptureFixture
) -> None:
    folder = save_tiny_model("qwen2")
    (folder / "quantized").write_text("in the way, as a read-only folder would be, for root too")
    with caplog.at_level(logging.WARNING):
        quantized = _quantized(folder)
    assert "could not be kept" in caplog.text
    assert "lm_head" in quantized


def test_an_interrupted_write_leaves_nothing_behind(
    save_tiny_model: SaveTinyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(tensors: dict[str, torch.Tensor], path: Path, metadata: dict[str, str]) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    folder = save_tiny_model("qwen2")
    monkeypatch.setattr("safetensors.torch.save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        _quantized(folder)
    assert os.listdir(folder / "quantized") == []


def test_weights_that_are_not_numbers_are_refused(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"][3, 4] = torch.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match="lm_head hold NaN"):
        _quantized(folder)
    assert not (folder / "quantized").exists()
