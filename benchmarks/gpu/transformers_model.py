"""The same random weights as a transformers model."""

from __future__ import annotations

from typing import Any

import torch
from benchmarks.gpu.random_model import DEPTHS, MAX_POSITIONS, RMS_NORM_EPS, ROPE_THETA, RandomModel
from benchmarks.harness import device

from sureact_kernels.linear import DenseWeight


def transformers_config(made: RandomModel) -> Any:
    """Return the settings of the model in transformers' words."""
    from transformers import Qwen3Config

    sizes, depth = made.sizes, DEPTHS[made.name]
    return Qwen3Config(
        vocab_size=sizes.vocab_size,
        hidden_size=sizes.hidden_size,
        intermediate_size=sizes.intermediate_size,
        num_hidden_layers=depth.num_layers,
        num_attention_heads=sizes.num_q_heads,
        num_key_value_heads=sizes.num_kv_heads,
        head_dim=sizes.head_dim,
        max_position_embeddings=MAX_POSITIONS,
        rms_norm_eps=RMS_NORM_EPS,
        rope_parameters={"rope_type": "default", "rope_theta": ROPE_THETA},
        tie_word_embeddings=depth.is_tied,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        architectures=["Qwen3ForCausalLM"],
        dtype=str(made.dtype).removeprefix("torch."),
    )


def transformers_model(made: RandomModel) -> Any:
    """Build the model on `device()` and copy the weights into it."""
    from transformers import AutoModelForCausalLM

    with torch.device(device()):
        model: Any = AutoModelForCausalLM.from_config(transformers_config(made), dtype=made.dtype).eval()
    parameters: dict[str, torch.Tensor] = dict(model.named_parameters())
    with torch.no_grad():
        for name, tensor in _tensors_by_their_names(made).items():
            if name in parameters:  # a tied head has no parameter of its own
                parameters.pop(name).copy_(tensor)
    assert not parameters, f"no weights for {sorted(parameters)}"
    return model


def _tensors_by_their_names(made: RandomModel) -> dict[str, torch.Tensor]:
    named = {
        "model.embed_tokens.weight": _dense(made, "embedding"),
        "model.norm.weight": _dense(made, "final_norm"),
        "lm_head.weight": _dense(made, "lm_head"),
    }
    kv_size = made.sizes.num_kv_heads * made.sizes.head_dim
    for index in range(DEPTHS[made.name].num_layers):
        ours, theirs = f"layers.{index}", f"model.layers.{index}"
        q, k, v = _dense(made, f"{ours}.qkv").split((made.sizes.qkv_size - 2 * kv_size, kv_size, kv_size))
        gate, up = _dense(made, f"{ours}.gate_up").chunk(2)
        named |= {
            f"{theirs}.input_layernorm.weight": _dense(made, f"{ours}.input_norm"),
            f"{theirs}.post_attention_layernorm.weight": _dense(made, f"{ours}.post_attention_norm"),
            f"{theirs}.self_attn.q_proj.weight": q,
            f"{theirs}.self_attn.k_proj.weight": k,
            f"{theirs}.self_attn.v_proj.weight": v,
            f"{theirs}.self_attn.o_proj.weight": _dense(made, f"{ours}.o"),
            f"{theirs}.self_attn.q_norm.weight": _dense(made, f"{ours}.q_norm"),
            f"{theirs}.self_attn.k_norm.weight": _dense(made, f"{ours}.k_norm"),
            f"{theirs}.mlp.gate_proj.weight": gate,
            f"{theirs}.mlp.up_proj.weight": up,
            f"{theirs}.mlp.down_proj.weight": _dense(made, f"{ours}.down"),
        }
    return named


def _dense(made: RandomModel, name: str) -> torch.Tensor:
    tensor = made.tensors[name]
    if isinstance(tensor, torch.Tensor):
        return tensor
    assert isinstance(tensor, DenseWeight), "random models are dense"
    return tensor.weight
