"""What a checkpoint's config.json says about its architecture, in this project's words.

What our own modules do not serve is refused by name.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.weights.config_json import (
    architectures,
    read_float,
    read_int,
    read_json_object,
    read_token_ids,
    refuse_remote_code,
)
from sureact.weights.rope import RopeConfig, read_rope_config

Family = Literal["qwen2", "qwen3", "qwen3_moe", "llama"]

_ARCHITECTURES: dict[str, str] = {
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "llama": "LlamaForCausalLM",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeConfig:
    """The mixture-of-experts layers of a model."""

    num_experts: int
    """Experts per layer."""
    num_experts_per_token: int
    """Experts that a token visits."""
    moe_intermediate_size: int
    """Width of one expert."""
    norm_topk_prob: bool
    """Whether the weights of the visited experts are scaled to add up to 1."""
    sparse_layer_indices: frozenset[int]
    """Layers that have experts; the others have one dense MLP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """The architecture of a decoder-only model."""

    family: Family
    hidden_size: int
    num_layers: int
    num_q_heads: int
    num_kv_heads: int
    head_dim: int
    """Size of one head; not always `hidden_size / num_q_heads`."""
    intermediate_size: int
    """Width of a dense MLP."""
    vocab_size: int
    """Rows of the embedding and of the head; more than the tokenizer has tokens."""
    rms_norm_eps: float
    rope: RopeConfig
    max_position_embeddings: int
    """Tokens the model can hold."""
    tie_word_embeddings: bool
    """Whether the head is the embedding."""
    qkv_bias: bool
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    """Whether queries and keys are normalized per head before they are rotated."""
    moe: MoeConfig | None
    dtype: str
    """What the checkpoint says its weights are, such as "bfloat16"."""
    eos_token_ids: tuple[int, ...]
    """End-of-sequence ids of config.json and generation_config.json together."""

    @property
    def q_size(self) -> int:
        """Width of all queries of a token."""
        return self.num_q_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        """Width of all keys, or all values, of a token."""
        return self.num_kv_heads * self.head_dim


def read_model_config(folder: Path) -> ModelConfig:
    """Read config.json (and the end-of-sequence ids of generation_config.json) of a model folder.

    Raises:
        UnsupportedModelError: the architecture or one of its settings is not served by our own modules, or the
            checkpoint needs code of its own.
        CheckpointError: a file is missing or damaged, or sizes contradict each other.
    """
    outer = read_json_object(folder / "config.json")
    refuse_remote_code(outer)
    if outer.get("quantization_config"):
        raise UnsupportedModelError(
            f"The checkpoint is quantized with {_quantization_method(outer)}, which our own modules do not read."
        )
    nested = outer.get("text_config")
    config = {**outer, **cast("dict[str, object]", nested)} if isinstance(nested, dict) else outer
    family = _family(config, None if nested else architectures(outer))
    _refuse_unserved_settings(config)
    eos_ids = read_token_ids(config, "eos_token_id") + _generation_eos_ids(folder)
    return _model_config(family, config, tuple(dict.fromkeys(eos_ids)))


def _model_config(family: Family, config: Mapping[str, object], eos_ids: tuple[int, ...]) -> ModelConfig:
    hidden_size = read_int(config, "hidden_size")
    num_q_heads = read_int(config, "num_attention_heads")
    num_kv_heads = read_int(config, "num_key_value_heads", num_q_heads)
    if num_q_heads % num_kv_heads:
        raise CheckpointError(f"config.json: {num_q_heads} query heads are not a multiple of {num_kv_heads} KV heads.")
    attention_bias = config.get("attention_bias") is True
    num_layers = read_int(config, "num_hidden_layers")
    return ModelConfig(
        family=family,
        hidden_size=hidden_size,
        num_layers=num_layers,
        num_q_heads=num_q_heads,
        num_kv_heads=num_kv_heads,
        head_dim=read_int(config, "head_dim", 128 if family == "qwen3" else hidden_size // num_q_heads),
        intermediate_size=read_int(config, "intermediate_size"),
        vocab_size=read_int(config, "vocab_size"),
        # GGUF keeps it in float32: 9.999999974752427e-07 is meant to be 1e-06.
        rms_norm_eps=float(f"{read_float(config, 'rms_norm_eps', 1e-6):.6g}"),
        rope=read_rope_config(config),
        max_position_embeddings=read_int(config, "max_position_embeddings"),
        tie_word_embeddings=config.get("tie_word_embeddings") is True,
        qkv_bias=family == "qwen2" or attention_bias,
        o_bias=family != "qwen2" and attention_bias,
        mlp_bias=family == "llama" and config.get("mlp_bias") is True,
        qk_norm=family in ("qwen3", "qwen3_moe"),
        moe=_moe_config(config, num_layers) if family == "qwen3_moe" else None,
        dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32"),
        eos_token_ids=eos_ids,
    )


def _family(config: Mapping[str, object], names: list[str] | None) -> Family:
    """Return the family; `names` are the listed architectures, None where they name an outer multimodal model."""
    model_type = config.get("model_type")
    if model_type not in get_args(Family):
        raise UnsupportedModelError(
            f"Model type {model_type!r} has no module of ours; there are modules for {', '.join(get_args(Family))}."
        )
    family = cast("Family", model_type)
    if names and _ARCHITECTURES[family] not in names:
        raise UnsupportedModelError(f"Architecture {names[0]} is not served; served is {_ARCHITECTURES[family]}.")
    return family


def _refuse_unserved_settings(config: Mapping[str, object]) -> None:
    activation = config.get("hidden_act", "silu")
    if activation != "silu":
        raise UnsupportedModelError(f"Activation {activation!r} is not served; served is 'silu'.")
    if config.get("use_sliding_window") is True and config.get("sliding_window") is not None:
        raise UnsupportedModelError("Sliding-window attention (`use_sliding_window`: true) is not served.")
    if config.get("dual_chunk_attention_config"):
        raise UnsupportedModelError("Dual-chunk attention (`dual_chunk_attention_config`) is not served.")
    partial_rotary_factor = read_rope_config(config).partial_rotary_factor
    if partial_rotary_factor != 1:
        raise UnsupportedModelError(
            f"Heads that rotate in part (`partial_rotary_factor`: {partial_rotary_factor}) are not served; served is 1."
        )
    layer_types = config.get("layer_types")
    if isinstance(layer_types, list):
        unserved = [kind for kind in cast("list[object]", layer_types) if kind != "full_attention"]
        if unserved:
            raise UnsupportedModelError(f"Layers of type {unserved[0]!r} are not served; served is 'full_attention'.")


def _moe_config(config: Mapping[str, object], num_layers: int) -> MoeConfig:
    # transformers 5 writes num_local_experts where the published checkpoints say num_experts.
    num_experts = read_int(config, "num_experts" if "num_experts" in config else "num_local_experts")
    step = read_int(config, "decoder_sparse_step", 1)
    dense = config.get("mlp_only_layers") or []
    if not isinstance(dense, list):
        raise CheckpointError(f"config.json: mlp_only_layers is {dense!r}; it must be a list of layer indices.")
    return MoeConfig(
        num_experts=num_experts,
        num_experts_per_token=read_int(config, "num_experts_per_tok"),
        moe_intermediate_size=read_int(config, "moe_intermediate_size"),
        norm_topk_prob=config.get("norm_topk_prob") is True,
        sparse_layer_indices=frozenset(i for i in range(num_layers) if (i + 1) % step == 0 and i not in dense),
    )


def _generation_eos_ids(folder: Path) -> tuple[int, ...]:
    path = folder / "generation_config.json"
    return read_token_ids(read_json_object(path), "eos_token_id") if path.is_file() else ()


def _quantization_method(config: Mapping[str, object]) -> str:
    settings = config.get("quantization_config")
    method = cast("dict[str, object]", settings).get("quant_method") if isinstance(settings, dict) else None
    return str(method or "an unnamed method")
