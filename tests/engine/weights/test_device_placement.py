from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.weights.device_placement import load_transformers_model, native_support

SaveTinyModel = Callable[..., Path]
EditConfig = Callable[..., None]


def test_our_families_are_served_by_our_own_modules(save_tiny_model: SaveTinyModel) -> None:
    assert native_support(save_tiny_model("qwen2")) is None


def test_another_architecture_is_told_with_the_reason(save_tiny_model: SaveTinyModel) -> None:
    reason = native_support(save_tiny_model("mistral"))
    assert reason is not None
    assert "'mistral'" in reason


def test_a_quantized_checkpoint_is_told_with_the_method(
    save_tiny_model: SaveTinyModel, edit_config: EditConfig
) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, quantization_config={"quant_method": "gptq"})
    reason = native_support(folder)
    assert reason is not None
    assert "gptq" in reason


def test_remote_code_is_refused_on_every_way(save_tiny_model: SaveTinyModel, edit_config: EditConfig) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, architectures=["QWenLMHeadModel"])
    with pytest.raises(UnsupportedModelError, match="QWenLMHeadModel"):
        native_support(folder)
    with pytest.raises(UnsupportedModelError, match="QWenLMHeadModel"):
        load_transformers_model(folder, dtype=torch.float32, device_map="cpu")


def test_an_architecture_of_transformers_is_loaded_in_the_dtype_asked_for(save_tiny_model: SaveTinyModel) -> None:
    model = load_transformers_model(save_tiny_model("mistral"), dtype=torch.bfloat16, device_map="auto")
    assert type(model).__name__ == "MistralForCausalLM"
    assert model.dtype == torch.bfloat16
    assert not model.training


def test_an_architecture_that_transformers_does_not_know_is_refused_by_name(
    save_tiny_model: SaveTinyModel, edit_config: EditConfig
) -> None:
    folder = save_tiny_model("qwen2")
    edit_config(folder, model_type="foo", architectures=["FooForCausalLM"])
    with pytest.raises(UnsupportedModelError, match="FooForCausalLM"):
        load_transformers_model(folder, dtype=torch.float32, device_map="cpu")


def test_damaged_weights_are_told_from_an_unknown_architecture(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("mistral")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="cannot read the weights"):
        load_transformers_model(folder, dtype=torch.float32, device_map="cpu")
