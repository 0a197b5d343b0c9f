from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sureact.errors import CheckpointError
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.model_config import read_model_config
from sureact.weights.parameter_names import map_parameters

SaveTinyModel = Callable[..., Path]
MOE: dict[str, Any] = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 8}


def _map(folder: Path) -> dict[str, tuple[int, ...]]:
    return {name: s.shape for name, s in map_parameters(read_model_config(folder), Checkpoint(folder)).items()}


def _rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def _layer(shapes: dict[str, tuple[int, ...]], i: int) -> dict[str, tuple[int, ...]]:
    prefix = f"layers.{i}."
    return {name.removeprefix(prefix): shape for name, shape in shapes.items() if name.startswith(prefix)}


def test_projections_of_qwen2_are_joined_by_rows(save_tiny_model: SaveTinyModel) -> None:
    shapes = _map(save_tiny_model("qwen2"))
    assert _layer(shapes, 1) == {
        "input_norm": (32,),
        "qkv": (64, 32),
        "qkv_bias": (64,),
        "o": (32, 32),
        "post_attention_norm": (32,),
        "gate_up": (128, 32),
        "down": (32, 64),
    }
    assert {name: shape for name, shape in shapes.items() if "layers" not in name} == {
        "embedding": (48, 32),
        "final_norm": (32,),
        "lm_head": (48, 32),
    }


def test_qwen3_has_norms_on_q_and_k_and_its_own_head_dim(save_tiny_model: SaveTinyModel) -> None:
    layer = _layer(_map(save_tiny_model("qwen3", head_dim=16)), 0)
    assert (layer["qkv"], layer["o"], layer["q_norm"], layer["k_norm"]) == ((128, 32), (32, 64), (16,), (16,))


def test_llama_may_have_every_bias(save_tiny_model: SaveTinyModel) -> None:
    layer = _layer(_map(save_tiny_model("llama", attention_bias=True, mlp_bias=True)), 0)
    assert {name: shape for name, shape in layer.items() if name.endswith("bias")} == {
        "qkv_bias": (64,),
        "o_bias": (32,),
        "gate_up_bias": (128,),
        "down_bias": (32,),
    }


def test_qwen3_moe_has_a_router_and_experts_in_its_sparse_layers(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen3_moe", mlp_only_layers=[0], **MOE)
    sources = map_parameters(read_model_config(folder), Checkpoint(folder))
    assert sources["layers.0.gate_up"].shape == (128, 32)
    assert sources["layers.1.router"].shape == (3, 32)
    assert sources["layers.1.router"].role == "router"
    assert sources["layers.1.experts.2.gate_up"].shape == (32, 32)
    assert sources["layers.1.experts.2.down"].shape == (32, 16)
    assert "layers.1.gate_up" not in sources


def test_a_tied_head_is_made_of_the_embedding(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen3", head_dim=16, tie_word_embeddings=True)
    sources = map_parameters(read_model_config(folder), Checkpoint(folder))
    assert sources["lm_head"].tensors == sources["embedding"].tensors


def test_a_tied_matrix_may_lie_under_the_name_of_the_head(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("llama", tie_word_embeddings=True)
    expected = _map(folder)
    _rewrite(folder, lambda tensors: tensors.update({"lm_head.weight": tensors.pop("model.embed_tokens.weight")}))
    assert _map(folder) == expected


def test_the_prefix_of_a_nested_language_model_is_understood(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    plain = _map(folder)

    def nest(tensors: dict[str, torch.Tensor]) -> None:
        for name in [name for name in tensors if name.startswith("model.")]:
            tensors[name.replace("model.", "model.language_model.", 1)] = tensors.pop(name)
        tensors["model.visual.patch_embed.weight"] = torch.zeros(1)

    _rewrite(folder, nest)
    assert _map(folder) == plain


def test_what_is_missing_is_named(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    _rewrite(folder, lambda tensors: tensors.pop("model.layers.1.self_attn.k_proj.bias"))
    with pytest.raises(CheckpointError, match=r"lacks model\.layers\.1\.self_attn\.k_proj\.bias"):
        _map(folder)


def test_an_untied_head_that_is_missing_is_named(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2", tie_word_embeddings=False)
    _rewrite(folder, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(CheckpointError, match=r"lacks lm_head\.weight"):
        _map(folder)


def test_what_is_too_much_is_named(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    _rewrite(folder, lambda tensors: tensors.update({f"model.extra.{i}": torch.zeros(1) for i in range(7)}))
    with pytest.raises(CheckpointError, match=r"does not explain: model\.extra\.0, .* and 2 more"):
        _map(folder)


def test_rotary_buffers_and_a_redundant_tied_head_are_ignored(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2", tie_word_embeddings=True)
    plain = _map(folder)
    extra = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.zeros(4), "lm_head.weight": torch.zeros(48, 32)}
    _rewrite(folder, lambda tensors: tensors.update(extra))
    assert _map(folder) == plain


@pytest.mark.parametrize(
    ("tensor", "message"),
    [(torch.zeros(33), r"norm\.weight has shape \[33\]; .* \[32\]"), (torch.zeros(32, dtype=torch.int8), "dtype I8")],
)
def test_another_shape_or_dtype_is_refused(tensor: torch.Tensor, message: str, save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    _rewrite(folder, lambda tensors: tensors.update({"model.norm.weight": tensor}))
    with pytest.raises(CheckpointError, match=message):
        _map(folder)
