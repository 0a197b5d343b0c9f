import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from sureact.engine import Engine
from sureact.errors import CheckpointError
from sureact.sampling_params import SamplingParams
from sureact.weights.load_weights import Quantization, load_weights
from sureact.weights.model_config import read_model_config
from sureact_kernels.dispatch import disabled
from sureact_kernels.linear import (
    DenseWeight,
    Fp8Weight,
    Int4Weight,
    Int8Weight,
    LinearWeight,
    dequantized,
    tensors_of,
)

SaveTinyModel = Callable[..., Path]
MOE: dict[str, Any] = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 8}


def _load(
    folder: Path,
    quantization: Quantization = "none",
    dtype: torch.dtype = torch.float32,
    device: torch.device | None = None,
) -> dict[str, torch.Tensor | LinearWeight]:
    config = read_model_config(folder)
    return load_weights(folder, config, dtype=dtype, quantization=quantization, device=device or torch.device("cpu"))


def _dense(weight: torch.Tensor | LinearWeight) -> torch.Tensor:
    assert isinstance(weight, DenseWeight)
    return weight.weight


def test_joined_projections_hold_the_rows_of_their_parts_in_order(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    source = load_file(folder / "model.safetensors")
    weights = _load(folder)
    attention = "model.layers.1.self_attn."
    parts = [source[f"{attention}{p}_proj.weight"] for p in "qkv"]
    assert torch.equal(_dense(weights["layers.1.qkv"]), torch.cat(parts))
    bias = weights["layers.1.qkv_bias"]
    assert isinstance(bias, torch.Tensor)
    assert torch.equal(bias, torch.cat([source[f"{attention}{p}_proj.bias"] for p in "qkv"]))
    mlp = [source[f"model.layers.1.mlp.{p}_proj.weight"] for p in ("gate", "up")]
    assert torch.equal(_dense(weights["layers.1.gate_up"]), torch.cat(mlp))


def test_q_k_and_v_may_lie_in_different_shards_in_any_order(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    whole = _load(folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    shards = {f"model-{i}.safetensors": sorted(tensors, reverse=True)[i::3] for i in range(3)}
    for file, names in shards.items():
        save_file({name: tensors[name] for name in names}, folder / file)
    weight_map = {name: file for file, names in shards.items() for name in names}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    assert torch.equal(_dense(_load(folder)["layers.0.qkv"]), _dense(whole["layers.0.qkv"]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_everything_dense_has_the_dtype_that_was_asked_for(dtype: torch.dtype, save_tiny_model: SaveTinyModel) -> None:
    weights = _load(save_tiny_model("qwen3", head_dim=16), dtype=dtype)
    tensors = [weight if isinstance(weight, torch.Tensor) else _dense(weight) for weight in weights.values()]
    assert {tensor.dtype for tensor in tensors} == {dtype}


def test_a_tied_dense_head_shares_the_embedding(save_tiny_model: SaveTinyModel) -> None:
    weights = _load(save_tiny_model("qwen3", head_dim=16, tie_word_embeddings=True), dtype=torch.bfloat16)
    embedding = weights["embedding"]
    assert isinstance(embedding, torch.Tensor)
    assert _dense(weights["lm_head"]).data_ptr() == embedding.data_ptr()


@pytest.mark.parametrize("tied", [True, False])
def test_a_quantized_head_is_made_from_the_embedding_or_its_own_weights(
    tied: bool, save_tiny_model: SaveTinyModel
) -> None:
    folder = save_tiny_model("qwen3", head_dim=16, tie_word_embeddings=tied)
    source = load_file(folder / "model.safetensors")["model.embed_tokens.weight" if tied else "lm_head.weight"]
    weights = _load(folder, "int8", torch.bfloat16)
    head, embedding = weights["lm_head"], weights["embedding"]
    assert isinstance(head, Int8Weight)
    assert isinstance(embedding, torch.Tensor)
    values = head.weight.float() * head.scales.float()[:, None]
    torch.testing.assert_close(values, source, rtol=0, atol=float(head.scales.max()))


def test_a_router_and_a_shape_that_int4_does_not_take_stay_dense(save_tiny_model: SaveTinyModel) -> None:
    weights = _load(save_tiny_model("qwen3_moe", vocab_size=40, **MOE), "int4", torch.bfloat16)
    assert isinstance(weights["layers.0.router"], DenseWeight)
    assert isinstance(weights["layers.0.experts.2.down"], Int4Weight)
    assert isinstance(weights["lm_head"], DenseWeight)
    assert _dense(weights["lm_head"]).dtype == torch.bfloat16


@pytest.mark.parametrize("quantization", ["int8", "int4"])
def test_beside_quantized_matrices_norms_and_biases_are_float32_and_the_embedding_is_not(
    quantization: Quantization, save_tiny_model: SaveTinyModel
) -> None:
    weights = _load(save_tiny_model("qwen2"), quantization, torch.bfloat16)
    plain = {name: weight.dtype for name, weight in weights.items() if isinstance(weight, torch.Tensor)}
    assert plain.pop("embedding") == torch.bfloat16
    assert set(plain.values()) == {torch.float32}


@pytest.mark.parametrize("quantization", ["none", "int8", "int4"])
def test_the_names_do_not_depend_on_the_quantization(
    quantization: Quantization, save_tiny_model: SaveTinyModel
) -> None:
    folder = save_tiny_model("qwen2", tie_word_embeddings=True)
    assert _load(folder, quantization, torch.bfloat16).keys() == _load(folder).keys()


@pytest.mark.parametrize("quantization", ["none", "int8", "int4"])
def test_on_another_device_nothing_is_packed_and_activations_have_the_dtype_of_the_rest(
    quantization: Quantization, save_tiny_model: SaveTinyModel
) -> None:
    meta = torch.device("meta")
    weights = _load(save_tiny_model("qwen2", tie_word_embeddings=True), quantization, torch.bfloat16, meta)
    plain = [weight for weight in weights.values() if isinstance(weight, torch.Tensor)]
    matrices = [weight for weight in weights.values() if not isinstance(weight, torch.Tensor)]
    assert {tensor.dtype for tensor in plain} == {torch.bfloat16}
    kinds = {"none": DenseWeight, "int8": Int8Weight, "int4": Int4Weight}
    assert {type(matrix) for matrix in matrices} == {kinds[quantization]}
    assert not any(getattr(matrix, "packed", None) for matrix in matrices)
    scales = {matrix.scales.dtype for matrix in matrices if isinstance(matrix, Int8Weight)}
    assert scales == ({torch.bfloat16} if quantization == "int8" else set())
    tensors = plain + [tensor for matrix in matrices for tensor in tensors_of(matrix)]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


@pytest.mark.parametrize("tied", [True, False])
def test_fp8_matrices_are_made_from_the_weights(tied: bool, save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen3_moe", vocab_size=40, tie_word_embeddings=tied, **MOE)
    weights, dense = _load(folder, "fp8", torch.bfloat16), _load(folder)
    assert weights.keys() == dense.keys()
    assert isinstance(weights["layers.0.router"], DenseWeight)
    for name in ("layers.0.qkv", "layers.1.experts.2.down", "lm_head"):
        matrix, exact = weights[name], _dense(dense[name])
        assert isinstance(matrix, Fp8Weight)
        torch.testing.assert_close(dequantized(matrix), exact, rtol=2.0**-4, atol=float(matrix.scales.max()) / 512)


def test_a_weight_that_is_not_finite_is_not_rounded_to_fp8(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.layers.1.mlp.down_proj.weight"][3, 5] = torch.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.1\.down hold NaN"):
        _load(folder, "fp8", torch.bfloat16)


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the CPU the matrices of a GPU, which its references multiply with."""

    def takes_packed(device: torch.device) -> bool:
        return False

    def as_asked(asked: Quantization, device: torch.device) -> Quantization:
        return asked

    monkeypatch.setattr("sureact.weights.load_weights.takes_packed", takes_packed)
    monkeypatch.setattr("sureact.execution.loaded_model.resolve_quantization", as_asked)


PROMPTS = ["The quick brown fox", "Ab", "one, two, " * 20 + "three", "x" * 140]


def generated(folder: Path, quantization: Any, prompts: list[str], max_tokens: int) -> list[list[int]]:
    """Generate after all prompts at once, read in pieces, and alone, read whole, and hold that nothing differs."""
    params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
    found: list[list[list[int]]] = []
    for is_together, chunk_len in ((True, 64), (False, 512)):
        with Engine(
            str(folder), quantization=quantization, kv_cache_gb=0.01, prefill_chunk_len=chunk_len, prefix_cache=False
        ) as engine:
            outputs = engine.generate(prompts, params) if is_together else [engine.generate(p, params) for p in prompts]
        found.append([list(output.token_ids) for output in outputs])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("quantization", ["int8", "int4", "fp8"])
def test_with_the_matrices_of_a_gpu_a_request_has_the_tokens_that_it_gets_alone(
    quantization: Quantization, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = None if quantization == "fp8" else generated(tiny_folder, quantization, PROMPTS, 8)
    as_on_a_gpu(monkeypatch)
    unpacked = generated(tiny_folder, quantization, PROMPTS, 8)
    # The same numbers, beside activations in bfloat16 for float32.
    assert packed is None or unpacked == packed


@pytest.mark.parametrize("quantization", ["int8", "int4", "fp8"])
def test_tritons_products_take_the_matrices_of_a_gpu(
    quantization: Quantization, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_on_a_gpu(monkeypatch)
    in_torch = generated(tiny_folder, quantization, ["Ab", "x"], 3)
    monkeypatch.setattr("sureact_kernels.dispatch.GPU", "cpu")
    assert generated(tiny_folder, quantization, ["Ab", "x"], 3) == in_torch
    assert disabled() == {}
