"""The tensors of a model folder by name: safetensors in one file or many, memory-mapped. Never pickle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from sureact.errors import CheckpointError
from sureact.weights.config_json import read_json_object

if TYPE_CHECKING:
    import torch
    from safetensors import safe_open

_INDEX_NAME = "model.safetensors.index.json"
_PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class Checkpoint:
    """The tensors of a model folder.

    Opening reads the headers only. A tensor is a view of the mapped file: its pages are read when they are used, and
    dropped by the system when memory is short.

    Args:
        folder: holds `model.safetensors`, or shards and `model.safetensors.index.json`, or one other safetensors file.

    Raises:
        CheckpointError: no safetensors file is there, a shard is missing, or a file is truncated or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file_of_tensor: dict[str, safe_open] = {}
        self.files: tuple[Path, ...] = _weight_files(folder)
        """The files that hold the tensors."""
        for path in self.files:
            file = _open(path)
            self._file_of_tensor |= dict.fromkeys(file.keys(), file)
        self._require_indexed_tensors()

    @property
    def names(self) -> frozenset[str]:
        """Names of all tensors, as the checkpoint spells them."""
        return frozenset(self._file_of_tensor)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor without reading it."""
        return tuple(self._file_of_tensor[name].get_slice(name).get_shape())

    def dtype(self, name: str) -> str:
        """Return the dtype of a tensor as safetensors spells it, such as "BF16"."""
        return str(self._file_of_tensor[name].get_slice(name).get_dtype())

    def tensor(self, name: str) -> torch.Tensor:
        """Return a tensor as it lies in the file, in the file's dtype, memory-mapped.

        Raises:
            CheckpointError: there is no tensor of that name.
        """
        if name not in self._file_of_tensor:
            raise CheckpointError(f"{self.folder} has no tensor {name!r}.")
        return self._file_of_tensor[name].get_tensor(name)

    def part(self, name: str, rows: slice, columns: slice = slice(None)) -> torch.Tensor:
        """Return some rows and columns of a tensor that is there, or some elements of a vector, contiguous.

        Whole rows are memory-mapped as by `tensor`; other parts are copied, and nothing else is.
        """
        found = self._file_of_tensor[name].get_slice(name)
        return (found[rows] if len(found.get_shape()) == 1 else found[rows, columns]).contiguous()

    def _require_indexed_tensors(self) -> None:
        index = self.folder / _INDEX_NAME
        if len(self.files) > 1 and index.is_file():
            missing = sorted(_read_weight_map(index).keys() - self._file_of_tensor.keys())
            if missing:
                raise CheckpointError(f"{index} lists {missing[0]!r}, which its shard does not hold.")


def verify_model_folder(folder: Path) -> None:
    """Check that the files of a model are whole: JSON that parses, and in every shard the bytes that its header lists.

    Raises:
        CheckpointError: a file is missing, truncated or damaged.
    """
    read_json_object(folder / "config.json")
    if (folder / "tokenizer.json").is_file():
        read_json_object(folder / "tokenizer.json")
    Checkpoint(folder)


def _weight_files(folder: Path) -> tuple[Path, ...]:
    single, index = folder / "model.safetensors", folder / _INDEX_NAME
    if single.is_file():
        return (single,)
    if index.is_file():
        shards = sorted({folder / shard for shard in _read_weight_map(index).values()})
        missing = [shard.name for shard in shards if not shard.is_file()]
        if missing:
            raise CheckpointError(
                f"{folder} lacks the shard {', '.join(missing)} that its index lists; fetch it again."
            )
        return tuple(shards)
    others = sorted(folder.glob("*.safetensors"))
    if len(others) == 1:
        return (others[0],)
    if others:
        raise CheckpointError(f"{folder} has {len(others)} safetensors files but no {_INDEX_NAME}; fetch it again.")
    pickled = sorted(path.name for path in folder.glob("*") if path.suffix in _PICKLE_SUFFIXES)
    if pickled:
        raise CheckpointError(
            f"{folder} has only pickled weights ({pickled[0]}), and loading pickle can run any code. Convert them to "
            "safetensors, or take a release that has them."
        )
    raise CheckpointError(f"{folder} has no safetensors file.")


def _read_weight_map(index: Path) -> dict[str, str]:
    raw = read_json_object(index).get("weight_map")
    weight_map = cast("dict[str, object]", raw) if isinstance(raw, dict) else {}
    if not weight_map:
        raise CheckpointError(f"{index} has no weight_map; fetch it again.")
    for shard in weight_map.values():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise CheckpointError(f"{index} names the shard {shard!r}; shards lie in the folder itself.")
    return cast("dict[str, str]", weight_map)


def _open(path: Path) -> safe_open:
    from safetensors import SafetensorError, safe_open

    try:
        return safe_open(path, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} is truncated or damaged ({error}); fetch it again.") from error
