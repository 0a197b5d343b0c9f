"""The parts of a model, put together again, are the model, and no process reads another's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from sureact.distributed.shard import Shard
from sureact.errors import ConfigError
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.load_shard import load_shard, shard_config
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config
from sureact.weights.quantization import quantize_int8
from sureact_kernels.linear import DenseWeight, Int8Weight, LinearWeight

SaveTinyModel = Callable[..., Path]
Tensors = dict[str, torch.Tensor | LinearWeight]
CPU = torch.device("cpu")
BIASES: dict[str, Any] = {"attention_bias": True, "mlp_bias": True}
MOE: dict[str, Any] = {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 8}
FAMILIES: list[tuple[str, dict[str, Any]]] = [
    ("qwen2", {"tie_word_embeddings": True}),
    ("qwen3", {"head_dim": 16}),
    ("llama", BIASES),
    ("qwen3_moe", MOE),
]


def parts_of(folder: Path, quantization: Literal["none", "int8"] = "none") -> list[Tensors]:
    config = read_model_config(folder)
    return [
        load_shard(folder, config, shard, dtype=torch.float32, quantization=quantization, device=CPU)
        for shard in Shard(0, 2).all()
    ]


def values(tensor: torch.Tensor | LinearWeight) -> torch.Tensor:
    if isinstance(tensor, torch.Tensor):
        return tensor
    assert isinstance(tensor, DenseWeight)
    return tensor.weight


def joined(name: str, halves: list[torch.Tensor], folder: Path) -> torch.Tensor:
    """Put both parts of a parameter together."""
    config = read_model_config(folder)
    kind = name.rpartition(".")[2].removesuffix("_bias")
    if kind == "lm_head":
        return torch.cat(halves)
    if kind in ("o", "down") and not name.endswith("_bias"):
        return torch.cat(halves, dim=1)
    if kind not in ("qkv", "gate_up"):
        assert torch.equal(*halves), f"{name} is whole everywhere"
        return halves[0]
    sizes = [config.q_size // 2, config.kv_size // 2, config.kv_size // 2]
    cut = sizes if kind == "qkv" else [len(halves[0]) // 2] * 2
    first, second = (half.split(cut) for half in halves)
    return torch.cat([piece for pair in zip(first, second, strict=True) for piece in pair])


@pytest.mark.parametrize(("family", "settings"), FAMILIES)
def test_both_parts_together_are_the_whole(
    save_tiny_model: SaveTinyModel, family: str, settings: dict[str, Any]
) -> None:
    folder = save_tiny_model(family, **settings)
    whole = load_weights(folder, read_model_config(folder), dtype=torch.float32, quantization="none", device=CPU)
    first, second = parts_of(folder)
    assert first.keys() == second.keys() == whole.keys()
    for name, expected in whole.items():
        assert torch.equal(joined(name, [values(first[name]), values(second[name])], folder), values(expected)), name


def test_matrices_are_read_in_slices_only(save_tiny_model: SaveTinyModel, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save_tiny_model("qwen3", head_dim=16)
    num_read: dict[str, int] = {}
    read = Checkpoint.part

    def counted(self: Checkpoint, name: str, rows: slice, columns: slice = slice(None)) -> torch.Tensor:
        part = read(self, name, rows, columns)
        num_read[name] = part.numel()
        return part

    def refuse(self: Checkpoint, name: str) -> torch.Tensor:
        raise AssertionError(f"{self.folder}: {name} is read whole")

    monkeypatch.setattr(Checkpoint, "part", counted)
    monkeypatch.setattr(Checkpoint, "tensor", refuse)
    parts_of(folder)
    checkpoint = Checkpoint(folder)
    for name, count in num_read.items():
        share = 2 if name.endswith("proj.weight") or name.startswith("lm_head") else 1
        expected = torch.Size(checkpoint.shape(name)).numel() // share
        # The 48 ids of the head are a word and a half.
        assert count == expected if name != "lm_head.weight" else count in (32 * 32, 16 * 32)


def test_a_tied_head_is_a_view_of_the_embedding(save_tiny_model: SaveTinyModel) -> None:
    for part, first_id in zip(parts_of(save_tiny_model("qwen2", tie_word_embeddings=True)), (0, 32), strict=True):
        embedding = values(part["embedding"])
        assert values(part["lm_head"]).data_ptr() == embedding[first_id:].data_ptr()


def test_int8_rounds_each_part_by_itself(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("llama", tie_word_embeddings=True)
    for dense, rounded in zip(parts_of(folder), parts_of(folder, "int8"), strict=True):
        for name in ("layers.0.qkv", "layers.1.down", "lm_head"):
            weight = rounded[name]
            assert isinstance(weight, Int8Weight)
            assert torch.equal(weight.weight, quantize_int8(values(dense[name])).weight)
        assert isinstance(rounded["layers.0.input_norm"], torch.Tensor)


def test_a_part_has_its_share_of_heads_and_columns(save_tiny_model: SaveTinyModel) -> None:
    config = read_model_config(save_tiny_model("qwen3_moe", **MOE))
    part = shard_config(config, Shard(1, 2))
    assert (part.num_q_heads, part.num_kv_heads, part.intermediate_size) == (2, 1, 32)
    assert part.moe is not None
    assert part.moe.moe_intermediate_size == 16
    assert (part.vocab_size, part.hidden_size, part.head_dim) == (48, 32, 8)


@pytest.mark.parametrize(
    ("num_ranks", "settings", "allowed"),
    [(3, {}, "1, 2"), (4, {}, "1, 2"), (2, {"intermediate_size": 63}, "1"), (2, {"vocab_size": 30}, "1")],
)
def test_a_model_that_cannot_be_cut_so_is_refused_with_numbers(
    save_tiny_model: SaveTinyModel, num_ranks: int, settings: dict[str, Any], allowed: str
) -> None:
    config = read_model_config(save_tiny_model("llama", **settings))
    message = (
        rf"tensor_parallel_size is {num_ranks}; it must divide what this model has: 4 query heads, 2 key heads, "
        rf"{config.intermediate_size} columns in its feed-forward block\. Allowed: {allowed}\."
    )
    with pytest.raises(ConfigError, match=message):
        shard_config(config, Shard(0, num_ranks))
