"""Which tensors of a checkpoint make up each of our parameters, checked by name, shape and dtype.

Our names: `embedding`, `final_norm`, `lm_head`, and per layer `layers.{i}.` with `input_norm`, `qkv`, `qkv_bias`,
`q_norm`, `k_norm`, `o`, `o_bias`, `post_attention_norm`, `gate_up`, `gate_up_bias`, `down`, `down_bias`, or in a layer
with experts `router`, `experts.{e}.gate_up` and `experts.{e}.down`. Biases and q/k norms are there only if the model
has them.
"""

from dataclasses import dataclass
from typing import Literal

from sureact.errors import CheckpointError
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.model_config import ModelConfig

_PREFIXES = ("model.language_model.", "language_model.model.", "model.")
_FLOAT_DTYPES = ("F32", "F16", "BF16")
_MOST_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor that the checkpoint must hold."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParameterSource:
    """What one of our parameters is made of."""

    tensors: tuple[TensorSpec, ...]
    """Joined along their rows, in this order."""
    role: Literal["linear", "router", "plain"] = "plain"
    """A matrix of a linear layer, one that always stays dense, or any other tensor."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the joined tensor."""
        first = self.tensors[0].shape
        return (sum(tensor.shape[0] for tensor in self.tensors), *first[1:])


def map_parameters(config: ModelConfig, checkpoint: Checkpoint) -> dict[str, ParameterSource]:
    """Return the source of every parameter, by our name; a tied `lm_head` has the embedding as its source.

    Raises:
        CheckpointError: tensors are missing, superfluous, or have another shape or dtype than the config implies.
    """
    names = checkpoint.names
    prefix = next((p for p in _PREFIXES if f"{p}embed_tokens.weight" in names), "model.")
    head = next((name for name in ("language_model.lm_head.weight",) if name in names), "lm_head.weight")
    embedding = f"{prefix}embed_tokens.weight"
    if config.tie_word_embeddings and embedding not in names:
        embedding = head  # one matrix with two names; some writers keep the other
    sources = _sources(config, prefix, embedding, head)
    wanted = {tensor.name: tensor for source in sources.values() for tensor in source.tensors}
    _require_names(checkpoint, "lacks", sorted(wanted.keys() - names))
    extra = [name for name in names - wanted.keys() if not _is_ignorable(name, prefix, head, config)]
    _require_names(checkpoint, "has tensors that its config does not explain:", sorted(extra))
    for tensor in wanted.values():
        _require_fit(checkpoint, tensor)
    return sources


def _sources(config: ModelConfig, prefix: str, embedding_name: str, head: str) -> dict[str, ParameterSource]:
    vocab_shape = (config.vocab_size, config.hidden_size)
    embedding = TensorSpec(embedding_name, vocab_shape)
    sources = {"embedding": ParameterSource((embedding,))}
    for i in range(config.num_layers):
        layer = f"{prefix}layers.{i}."
        of_layer = _attention_sources(config, layer) | _norm_sources(config, layer)
        if config.moe is not None and i in config.moe.sparse_layer_indices:
            of_layer |= _moe_sources(config, layer)
        else:
            of_layer |= _mlp_sources(config, f"{layer}mlp.", config.intermediate_size)
        sources |= {f"layers.{i}.{name}": source for name, source in of_layer.items()}
    sources["final_norm"] = ParameterSource((TensorSpec(f"{prefix}norm.weight", (config.hidden_size,)),))
    lm_head = embedding if config.tie_word_embeddings else TensorSpec(head, vocab_shape)
    return sources | {"lm_head": ParameterSource((lm_head,), "linear")}


def _norm_sources(config: ModelConfig, layer: str) -> dict[str, ParameterSource]:
    sizes = {"input_layernorm": config.hidden_size, "post_attention_layernorm": config.hidden_size}
    names = {"input_layernorm": "input_norm", "post_attention_layernorm": "post_attention_norm"}
    if config.qk_norm:
        sizes |= {"self_attn.q_norm": config.head_dim, "self_attn.k_norm": config.head_dim}
        names |= {"self_attn.q_norm": "q_norm", "self_attn.k_norm": "k_norm"}
    return {
        names[theirs]: ParameterSource((TensorSpec(f"{layer}{theirs}.weight", (size,)),))
        for theirs, size in sizes.items()
    }


def _attention_sources(config: ModelConfig, layer: str) -> dict[str, ParameterSource]:
    rows = {"q_proj": config.q_size, "k_proj": config.kv_size, "v_proj": config.kv_size}
    names = {projection: f"{layer}self_attn.{projection}" for projection in rows}
    output = f"{layer}self_attn.o_proj"
    sources = {
        "qkv": _joined({f"{names[p]}.weight": (size, config.hidden_size) for p, size in rows.items()}, "linear"),
        "o": _joined({f"{output}.weight": (config.hidden_size, config.q_size)}, "linear"),
    }
    if config.qkv_bias:
        sources["qkv_bias"] = _joined({f"{names[p]}.bias": (size,) for p, size in rows.items()})
    if config.o_bias:
        sources["o_bias"] = _joined({f"{output}.bias": (config.hidden_size,)})
    return sources


def _mlp_sources(config: ModelConfig, mlp: str, intermediate_size: int) -> dict[str, ParameterSource]:
    hidden_size = config.hidden_size
    gate_up = (f"{mlp}gate_proj", f"{mlp}up_proj")
    sources = {
        "gate_up": _joined({f"{name}.weight": (intermediate_size, hidden_size) for name in gate_up}, "linear"),
        "down": _joined({f"{mlp}down_proj.weight": (hidden_size, intermediate_size)}, "linear"),
    }
    if config.mlp_bias:
        sources["gate_up_bias"] = _joined({f"{name}.bias": (intermediate_size,) for name in gate_up})
        sources["down_bias"] = _joined({f"{mlp}down_proj.bias": (hidden_size,)})
    return sources


def _moe_sources(config: ModelConfig, layer: str) -> dict[str, ParameterSource]:
    assert config.moe is not None
    router = _joined({f"{layer}mlp.gate.weight": (config.moe.num_experts, config.hidden_size)}, "router")
    sources = {"router": router}
    for e in range(config.moe.num_experts):
        of_expert = _mlp_sources(config, f"{layer}mlp.experts.{e}.", config.moe.moe_intermediate_size)
        sources |= {f"experts.{e}.{name}": source for name, source in of_expert.items()}
    return sources


def _joined(
    shapes: dict[str, tuple[int, ...]], role: Literal["linear", "router", "plain"] = "plain"
) -> ParameterSource:
    return ParameterSource(tuple(TensorSpec(name, shape) for name, shape in shapes.items()), role)


def _is_ignorable(name: str, prefix: str, head: str, config: ModelConfig) -> bool:
    if name.endswith("rotary_emb.inv_freq"):
        return True  # a buffer that old checkpoints keep; it follows from the config
    if name == head:
        return config.tie_word_embeddings
    # Beside a nested language model lie the towers of other modalities, which text does not need.
    return prefix != "model." and not name.startswith(prefix)


def _require_names(checkpoint: Checkpoint, problem: str, names: list[str]) -> None:
    if names:
        shown = ", ".join(names[:_MOST_NAMES_SHOWN])
        more = f" and {len(names) - _MOST_NAMES_SHOWN} more" if len(names) > _MOST_NAMES_SHOWN else ""
        raise CheckpointError(
            f"{checkpoint.folder} {problem} {shown}{more}. Do its config and weights belong together?"
        )


def _require_fit(checkpoint: Checkpoint, tensor: TensorSpec) -> None:
    shape, dtype = checkpoint.shape(tensor.name), checkpoint.dtype(tensor.name)
    if shape != tensor.shape:
        raise CheckpointError(
            f"{checkpoint.folder}: {tensor.name} has shape {list(shape)}; its config implies {list(tensor.shape)}."
        )
    if dtype not in _FLOAT_DTYPES:
        raise CheckpointError(
            f"{checkpoint.folder}: {tensor.name} has dtype {dtype}; weights are read in {', '.join(_FLOAT_DTYPES)}."
        )
