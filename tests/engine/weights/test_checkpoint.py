import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sureact.errors import CheckpointError
from sureact.weights.checkpoint import Checkpoint, verify_model_folder

SaveTinyModel = Callable[..., Path]


def test_tensors_of_a_single_file_are_read_by_name(tmp_path: Path) -> None:
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    save_file({"a": tensor}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.names == {"a"}
    assert (checkpoint.shape("a"), checkpoint.dtype("a")) == ((2, 3), "BF16")
    assert torch.equal(checkpoint.tensor("a"), tensor)
    with pytest.raises(CheckpointError, match="no tensor 'b'"):
        checkpoint.tensor("b")


def test_a_part_of_a_tensor_is_what_lies_there(tmp_path: Path) -> None:
    matrix, vector = torch.randn(6, 5), torch.randn(6)
    save_file({"matrix": matrix, "vector": vector}, tmp_path / "model.safetensors")
    checkpoint = Checkpoint(tmp_path)
    part = checkpoint.part("matrix", slice(1, 4), slice(2, 5))
    assert torch.equal(part, matrix[1:4, 2:5])
    assert part.is_contiguous()
    assert torch.equal(checkpoint.part("matrix", slice(3, None)), matrix[3:])
    assert torch.equal(checkpoint.part("vector", slice(2, 3)), vector[2:3])


def test_a_single_file_may_have_any_name(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "weights.safetensors")
    assert Checkpoint(tmp_path).names == {"a"}


def test_a_sharded_model_holds_the_tensors_of_the_whole_one(save_tiny_model: SaveTinyModel) -> None:
    whole, sharded = save_tiny_model("qwen2"), save_tiny_model("qwen2", max_shard_size="20KB")
    one, many = Checkpoint(whole), Checkpoint(sharded)
    assert len(many.files) > 2
    assert one.names == many.names
    assert all(torch.equal(one.tensor(name), many.tensor(name)) for name in one.names)


def test_a_missing_shard_is_named(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2", max_shard_size="20KB")
    shard = Checkpoint(folder).files[1]
    shard.unlink()
    with pytest.raises(CheckpointError, match=shard.name):
        Checkpoint(folder)


def test_a_tensor_that_its_shard_does_not_hold_is_named(save_tiny_model: SaveTinyModel) -> None:
    folder = save_tiny_model("qwen2", max_shard_size="20KB")
    path = folder / "model.safetensors.index.json"
    index = json.loads(path.read_text())
    index["weight_map"]["ghost"] = next(iter(index["weight_map"].values()))
    path.write_text(json.dumps(index))
    with pytest.raises(CheckpointError, match="ghost"):
        Checkpoint(folder)


@pytest.mark.parametrize("shard", ["../model.safetensors", "/etc/passwd", 3])
def test_an_index_cannot_lead_out_of_the_folder(shard: object, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": shard}}))
    with pytest.raises(CheckpointError, match="shards lie in the folder itself"):
        Checkpoint(tmp_path)


@pytest.mark.parametrize("kept", [0, 4, 20, -1])
def test_a_truncated_file_is_named(kept: int, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.zeros(100)}, path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match="truncated or damaged") as caught:
        Checkpoint(tmp_path)
    assert str(path) in str(caught.value)


def test_pickled_weights_are_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match="can run any code"):
        Checkpoint(tmp_path)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no safetensors file"):
        Checkpoint(tmp_path)


def test_several_files_without_an_index_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        save_file({name: torch.zeros(1)}, tmp_path / f"{name}.safetensors")
    with pytest.raises(CheckpointError, match="2 safetensors files but no"):
        Checkpoint(tmp_path)


def test_an_index_without_a_weight_map_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no weight_map"):
        Checkpoint(tmp_path)


def _whole_folder(folder: Path) -> Path:
    for name in ("config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    save_file({"a": torch.zeros(100)}, folder / "model.safetensors")
    return folder


def test_a_whole_folder_is_verified(tmp_path: Path) -> None:
    verify_model_folder(_whole_folder(tmp_path))


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors"])
def test_a_folder_with_a_truncated_file_is_not(name: str, tmp_path: Path) -> None:
    path = _whole_folder(tmp_path) / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=name):
        verify_model_folder(tmp_path)
