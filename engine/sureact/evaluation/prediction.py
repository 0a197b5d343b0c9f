"""What a model will take and how fast it will be on this machine, told without loading or fetching it."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from sureact.catalog.model_catalog import CATALOG, CatalogEntry, find_entry
from sureact.config import Dtype, Quantization
from sureact.errors import ConfigError, ModelNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from sureact.weights.model_config import MoeConfig

PROGRAM_BYTES = 400 * 10**6
"""What Python, torch, the tokenizer and the buffers of a pass take beside weights and cache."""

REACHED_SHARE: dict[Quantization, float] = {"none": 0.25, "int8": 0.55, "int4": 0.47}
"""Share of the memory's bandwidth that decoding reaches with the ops in C++, by form of the matrices: of the 0.5B,
measured on two cores that read 72 GB/s. Slower memory is used to a larger share."""

REACHED_SHARE_IN_TORCH: dict[Quantization, float] = {"none": 0.25, "int8": 0.33, "int4": 0.29}
"""The same where the ops run in torch."""

PREDICTED_CONTEXT_LEN = 1000
"""Tokens of context that the predicted speed reads the keys and values of."""

_BITS_PER_WEIGHT: dict[Quantization, int] = {"none": 16, "int8": 8, "int4": 5, "fp8": 8}
_COPIED_BYTES, _COPIES = 1 << 28, 4
_KV_BYTES = 2
"""Of a number in the cache, which is bfloat16."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSizes:
    """What memory and speed depend on, known without the weights themselves."""

    name: str
    is_on_disk: bool
    matrix_parameters: int
    """Weights of all matrices, the head among them."""
    visited_parameters: int
    """Those of them that one token is multiplied with: of a mixture of experts only some."""
    other_parameters: int
    """Weights that stay in bfloat16: the embedding, norms and biases; 0 of the embedding where the head is tied and
    the matrices are not quantized."""
    is_head_tied: bool
    kv_bytes_per_token: int
    context_len: int
    slow_reason: str | None = None
    """Why the model runs in transformers, and so unquantized; None for our own modules."""

    def weight_bytes(self, quantization: Quantization) -> int:
        """Bytes that the weights take once loaded."""
        others = 0 if self.is_head_tied and quantization == "none" else self.other_parameters
        return self.matrix_parameters * _BITS_PER_WEIGHT[quantization] // 8 + 2 * others

    def bytes_per_token(self, quantization: Quantization) -> int:
        """Bytes that one decoded token reads: the matrices it visits, and keys and values of its context."""
        context_bytes = PREDICTED_CONTEXT_LEN * self.kv_bytes_per_token
        return self.visited_parameters * _BITS_PER_WEIGHT[quantization] // 8 + context_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """What this machine was measured to deliver, in 10^9 bytes per second."""

    memory: float
    """Of the device that computes."""
    host_to_device: float | None = None
    """From the machine's memory to a GPU; None on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What one form of a model will take, and how fast it will be."""

    quantization: Quantization
    dtype: Dtype
    weight_bytes: int
    kv_bytes_per_1000_tokens: int
    kv_bytes_per_1000_tokens_in_float8: int | None
    """The same with `kv_cache_dtype="float8_e4m3"`; None where the model does not offer it."""
    total_bytes: int
    """Weights, keys and values of one context of full length, and the program itself."""
    free_bytes: int
    """Of the device's memory, now."""
    fits: bool
    bytes_per_token: int
    offloaded_bytes_per_token: int
    """Weights that do not fit on the GPU and are copied to it for each token; 0 where all fit, and on a CPU."""
    tokens_per_s: float


def sizes_of(name_or_path: str) -> ModelSizes:
    """Find the sizes of a model: from its files if it is on this disk, else from the catalogue.

    Raises:
        ModelNotFoundError: neither knows it; the message lists the catalogue.
        ConfigError: it is a GGUF file that was not converted yet.
        SureactError: its files are damaged, or nothing can run it.
    """
    from sureact.catalog.resolve import model_folder, resolve_model
    from sureact.catalog.store import ModelStore

    store = ModelStore()
    try:
        location = resolve_model(name_or_path, store)
    except ModelNotFoundError as error:
        entry = find_entry(name_or_path)
        if entry is None:
            names = ", ".join(entry.name for entry in CATALOG)
            raise ModelNotFoundError(
                f"No model {name_or_path!r} on this disk or in the catalogue, which has {names}. A model of the hub "
                "has to be on this disk: only its files tell its sizes."
            ) from error
        return _sizes_of_entry(entry)
    return _sizes_of_folder(location.name, model_folder(location, store, convert=_refuse_conversion))


def reached_share(quantization: Quantization) -> float:
    """Return the share of the memory's bandwidth that decoding reaches on this machine."""
    from sureact_kernels.cpu.library import library

    return (REACHED_SHARE_IN_TORCH if library() is None else REACHED_SHARE)[quantization]


def predict(
    sizes: ModelSizes, quantization: Quantization, *, bandwidth: Bandwidth, free_bytes: int, is_gpu: bool
) -> Prediction:
    """Predict memory and decoding speed of one form of a model.

    On a CPU a token takes its bytes over the share of the bandwidth that decoding reaches. On a GPU, weights beyond the
    free memory stay in the machine's memory, and accelerate copies them to the GPU for every token.
    """
    weight_bytes = sizes.weight_bytes(quantization)
    beside_weights = sizes.context_len * sizes.kv_bytes_per_token + PROGRAM_BYTES
    total_bytes = weight_bytes + beside_weights
    missing_bytes = max(0, total_bytes - free_bytes)
    offloaded_bytes = min(missing_bytes, sizes.visited_parameters * 2) if is_gpu else 0
    bytes_per_token = sizes.bytes_per_token(quantization)
    seconds = (bytes_per_token - offloaded_bytes) / (bandwidth.memory * 1e9 * reached_share(quantization))
    if offloaded_bytes:
        assert bandwidth.host_to_device is not None, "a GPU has a bus"
        seconds += offloaded_bytes / (bandwidth.host_to_device * 1e9)
    return Prediction(
        quantization=quantization,
        dtype="bfloat16",
        weight_bytes=weight_bytes,
        kv_bytes_per_1000_tokens=1000 * sizes.kv_bytes_per_token,
        kv_bytes_per_1000_tokens_in_float8=None if sizes.slow_reason else 1000 * sizes.kv_bytes_per_token // _KV_BYTES,
        total_bytes=total_bytes,
        free_bytes=free_bytes,
        fits=not missing_bytes,
        bytes_per_token=bytes_per_token,
        offloaded_bytes_per_token=offloaded_bytes,
        tokens_per_s=1 / seconds,
    )


def predictions(sizes: ModelSizes) -> tuple[Bandwidth, list[Prediction]]:
    """Measure this machine and predict every form that it can run, the default first."""
    import torch

    from sureact.evaluation.bench import memory_bandwidth
    from sureact.execution.memory import free_bytes
    from sureact.execution.settings import default_num_threads, resolve_device

    device = resolve_device("auto")
    torch.set_num_threads(default_num_threads())
    is_gpu = device.type == "cuda"
    # Taken before the measurement, whose tensor is a gigabyte.
    free = free_bytes(device)
    bandwidth = Bandwidth(
        memory=memory_bandwidth(str(device))[1],
        host_to_device=_host_to_device_bandwidth(device) if is_gpu else None,
    )
    forms: tuple[Quantization, ...] = ("none",) if is_gpu or sizes.slow_reason else ("int8", "int4", "none")
    return bandwidth, [predict(sizes, form, bandwidth=bandwidth, free_bytes=free, is_gpu=is_gpu) for form in forms]


def _sizes_of_entry(entry: CatalogEntry) -> ModelSizes:
    embedding = entry.num_embedding_parameters
    matrices = entry.num_parameters - (0 if entry.is_head_tied else embedding)
    return ModelSizes(
        name=entry.name,
        is_on_disk=False,
        matrix_parameters=matrices,
        visited_parameters=matrices,
        other_parameters=embedding,
        is_head_tied=entry.is_head_tied,
        kv_bytes_per_token=_kv_bytes_per_token(entry.num_layers, entry.num_kv_heads, entry.head_dim),
        context_len=entry.context_len,
    )


def _sizes_of_folder(name: str, folder: Path) -> ModelSizes:
    from sureact.weights.device_placement import native_support

    slow_reason = native_support(folder)
    return _native_sizes(name, folder) if slow_reason is None else _foreign_sizes(name, folder, slow_reason)


def _native_sizes(name: str, folder: Path) -> ModelSizes:
    from sureact.weights.checkpoint import Checkpoint
    from sureact.weights.model_config import read_model_config
    from sureact.weights.parameter_names import map_parameters

    config = read_model_config(folder)
    dense = experts = others = 0
    for parameter, source in map_parameters(config, Checkpoint(folder)).items():
        num_weights = math.prod(source.shape)
        if source.role != "linear":
            others += num_weights
        elif ".experts." in parameter:
            experts += num_weights
        else:
            dense += num_weights
    return ModelSizes(
        name=name,
        is_on_disk=True,
        matrix_parameters=dense + experts,
        visited_parameters=dense + _visited(experts, config.moe),
        other_parameters=others,
        is_head_tied=config.tie_word_embeddings,
        kv_bytes_per_token=_kv_bytes_per_token(config.num_layers, config.num_kv_heads, config.head_dim),
        context_len=config.max_position_embeddings,
    )


def _visited(expert_parameters: int, moe: MoeConfig | None) -> int:
    return expert_parameters * moe.num_experts_per_token // moe.num_experts if moe else 0


def _foreign_sizes(name: str, folder: Path, slow_reason: str) -> ModelSizes:
    from sureact.execution.transformers_runner import foreign_kv_shape
    from sureact.weights.checkpoint import Checkpoint

    checkpoint = Checkpoint(folder)
    num_weights = sum(math.prod(checkpoint.shape(tensor)) for tensor in checkpoint.names)
    shape = foreign_kv_shape(folder, None)
    return ModelSizes(
        name=name,
        is_on_disk=True,
        matrix_parameters=num_weights,
        visited_parameters=num_weights,
        other_parameters=0,
        is_head_tied=False,
        kv_bytes_per_token=_kv_bytes_per_token(shape.num_layers, shape.num_kv_heads, shape.head_dim),
        context_len=shape.max_position_embeddings,
        slow_reason=slow_reason,
    )


def _kv_bytes_per_token(num_layers: int, num_kv_heads: int, head_dim: int) -> int:
    return 2 * num_layers * num_kv_heads * head_dim * _KV_BYTES


def _refuse_conversion(gguf_path: Path, destination_folder: Path, progress: Callable[[str], None]) -> NoReturn:
    raise ConfigError(
        f"{gguf_path} was not converted yet, which its first start does; `sureact generate --model {gguf_path}` is one."
    )


def _host_to_device_bandwidth(device: torch.device) -> float:
    """Measure copies of ordinary memory to a GPU, which is what accelerate makes, in 10^9 bytes per second."""
    import torch

    source = torch.ones(_COPIED_BYTES, dtype=torch.uint8)

    def copy() -> None:
        source.to(device)
        torch.cuda.synchronize(device)

    copy()
    start = time.perf_counter()
    for _ in range(_COPIES):
        copy()
    return _COPIES * source.nbytes / (time.perf_counter() - start) / 1e9
