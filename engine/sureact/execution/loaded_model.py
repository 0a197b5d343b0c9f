"""From an `EngineConfig` to a model in memory: finds the files, resolves every `auto`, sizes the cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from sureact.catalog.resolve import model_folder, resolve_model
from sureact.catalog.store import ModelStore
from sureact.config import BLOCK_SIZE, Determinism, Dtype, EngineConfig, Quantization, ResolvedConfig
from sureact.errors import ConfigError, UnsupportedModelError
from sureact.execution.cpu_runtime import hand_over_interpreter_quickly, keep_freed_buffers
from sureact.execution.decode_graphs import MOST_ROWS
from sureact.execution.graphed_runner import GraphedRunner, decodes_by_graphs, with_graphs
from sureact.execution.input_moments import moments_of
from sureact.execution.load_shard_model import start_sharded
from sureact.execution.memory import GIGABYTE, CacheSize, KVShape, cache_size, free_bytes, weight_bytes
from sureact.execution.model_runner import ModelRunner, PagedModelRunner
from sureact.execution.settings import (
    default_num_threads,
    device_notices,
    dtype_name,
    kv_cache_dtype_name,
    resolve_device,
    resolve_dtype,
    resolve_kv_cache_dtype,
    resolve_quantization,
)
from sureact.execution.transformers_runner import TransformersRunner, foreign_kv_shape
from sureact.kv_cache.paged_cache import PagedCache
from sureact.kv_cache.storage import KVStorage
from sureact.models.registry import build_model
from sureact.tokens.tokenizer import Tokenizer
from sureact.weights.config_json import read_float, read_json_object
from sureact.weights.device_placement import load_transformers_model, native_support
from sureact.weights.gguf_conversion import convert_gguf
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config
from sureact_kernels.cpu.library import is_built, library
from sureact_kernels.errors import KernelInputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from transformers import PreTrainedModel

    from sureact.weights.model_config import ModelConfig
    from sureact_kernels.linear import LinearWeight

OFFLOAD_SHARE = 0.7
"""Share of the free memory that the slow path's weights may take; the rest of them stays on disk."""

DEFAULT_DRAFT_LEN = 3
"""Tokens that the CPU products compute at nearly the price of one."""

PREFILL_CHUNK_LENS: dict[Determinism, int] = {"strict": 256, "fast": 1024}
"""On a CPU, measured: strict products do not gain from more rows."""

GPU_PREFILL_CHUNK_LEN = 2048
"""Rows enough that a pass is bound by arithmetic and not by its launches; not measured yet."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to run."""

    config: ResolvedConfig
    folder: Path
    """Holds the files of the model."""
    tokenizer: Tokenizer
    runner: ModelRunner
    cache: PagedCache
    repetition_penalty: float
    """The checkpoint's own, 1 if it has none."""


def load_model(config: EngineConfig, progress: Callable[[str], None] | None = None) -> LoadedModel:
    """Load what `config` asks for.

    Args:
        config: settings.
        progress: told of slow steps, such as the one conversion of a GGUF file.

    Raises:
        SureactError: see `Engine`.
    """
    store = ModelStore()
    location = resolve_model(config.model, store)
    folder = model_folder(location, store, convert=convert_gguf, progress=progress)
    device = resolve_device(config.device)
    num_threads = config.num_threads or default_num_threads()
    torch.set_num_threads(num_threads)
    if device.type == "cpu":
        _prepare_cpu_ops(progress)
    reason = native_support(folder) or _too_large(folder, config, device)
    if reason is None:
        parts = _load_native(folder, config, device, progress)
    else:
        parts = _load_foreign(folder, config, device, reason)
    if device.type == "cpu":
        keep_freed_buffers()
        hand_over_interpreter_quickly()
    penalty = _repetition_penalty(folder)
    notices = parts.notices
    if parts.has_paged_cache:
        notices += device_notices(device, config.determinism, parts.cache_size.dtype)
    if penalty != 1:
        notices += (f"The checkpoint asks for repetition_penalty={penalty}; it applies unless a request sets its own.",)
    resolved = ResolvedConfig(
        model_name=location.name,
        architecture=parts.architecture,
        quantization=parts.quantization,
        dtype=parts.dtype,
        kv_cache_dtype=kv_cache_dtype_name(parts.cache_size.dtype),
        device=str(device),
        determinism=config.determinism,
        max_model_len=parts.cache_size.max_model_len,
        num_kv_blocks=parts.cache_size.num_blocks,
        kv_cache_bytes=parts.cache_size.num_bytes,
        max_running_requests=config.max_running_requests,
        prefill_chunk_len=config.prefill_chunk_len or _prefill_chunk_len(config.determinism, device),
        num_threads=num_threads,
        max_rollbacks=config.max_rollbacks,
        max_draft_len=_max_draft_len(config, parts),
        prefix_cache=config.prefix_cache and parts.has_paged_cache,
        tensor_parallel_size=config.tensor_parallel_size,
        cuda_graphs=isinstance(parts.runner, GraphedRunner),
        weight_bytes_per_token=parts.runner.weight_bytes_per_token,
        notices=notices,
    )
    cache = PagedCache(parts.cache_size.num_blocks, BLOCK_SIZE, has_prefix_cache=resolved.prefix_cache)
    return LoadedModel(resolved, folder, parts.tokenizer, parts.runner, cache, penalty)


def _prefill_chunk_len(determinism: Determinism, device: torch.device) -> int:
    return PREFILL_CHUNK_LENS[determinism] if device.type == "cpu" else GPU_PREFILL_CHUNK_LEN


def _prepare_cpu_ops(progress: Callable[[str], None] | None) -> None:
    try:
        if progress is not None and not is_built():
            progress("Building the CPU ops (once)")
        library()
    except KernelInputError as error:
        raise ConfigError(str(error)) from error


def _too_large(folder: Path, config: EngineConfig, device: torch.device) -> str | None:
    """Say why the weights do not fit on the device, None if they do."""
    quantization = resolve_quantization(config.quantization, device)
    needed = weight_bytes(folder, quantization, resolve_dtype(config.dtype, quantization))
    if device.type == "cuda":
        needed //= config.tensor_parallel_size
    free = free_bytes(device)
    if needed <= free:
        return None
    return (
        f"Its weights need about {needed / GIGABYTE:.1f} GB as {quantization}; {free / GIGABYTE:.1f} GB are free on "
        f"{device}."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What depends on whether the model is ours or transformers'."""

    architecture: str
    quantization: Quantization
    dtype: Dtype
    tokenizer: Tokenizer
    runner: ModelRunner
    cache_size: CacheSize
    has_paged_cache: bool = True
    """Whether blocks hold the keys and values; otherwise nothing can be shared, nor taken back cheaply."""
    notices: tuple[str, ...] = ()


def _max_draft_len(config: EngineConfig, parts: _Parts) -> int:
    if not parts.has_paged_cache:
        return 0
    return DEFAULT_DRAFT_LEN if config.max_draft_len is None else config.max_draft_len


def _max_rows(config: EngineConfig) -> int:
    """Return how many rows a step of decoding has at most, drafts included, as far as they are recorded."""
    draft_len = DEFAULT_DRAFT_LEN if config.max_draft_len is None else config.max_draft_len
    return min(MOST_ROWS, config.max_running_requests * (1 + draft_len))


def _load_native(
    folder: Path, config: EngineConfig, device: torch.device, progress: Callable[[str], None] | None
) -> _Parts:
    model_config = read_model_config(folder)
    quantization = resolve_quantization(config.quantization, device)
    dtype = resolve_dtype(config.dtype, quantization)
    tokenizer = Tokenizer(folder, num_logits=model_config.vocab_size)
    notices = _rope_notices(model_config)
    if config.tensor_parallel_size > 1:
        runner, size = start_sharded(folder, config, device, config.num_threads or default_num_threads())
    else:
        moments = moments_of(model_config, tokenizer, progress)
        tensors = load_weights(
            folder, model_config, dtype=dtype, quantization=quantization, device=device, input_moments=moments
        )
        runner, size, more = _paged_runner(model_config, tensors, config, dtype, device, progress)
        notices += more
    return _Parts(
        architecture=model_config.family,
        quantization=quantization,
        dtype=dtype_name(dtype),
        tokenizer=tokenizer,
        runner=runner,
        cache_size=size,
        notices=notices,
    )


def _rope_notices(model_config: ModelConfig) -> tuple[str, ...]:
    """Tell what is done to positions beyond those of the training: where that is ignored, long texts fall apart."""
    rope = model_config.rope
    if rope.rope_type == "default":
        return ()
    return (f"Positions are scaled by {rope.rope_type} with factor {rope.factor:g}, as the checkpoint asks for.",)


def _paged_runner(
    model_config: ModelConfig,
    tensors: dict[str, torch.Tensor | LinearWeight],
    config: EngineConfig,
    dtype: torch.dtype,
    device: torch.device,
    progress: Callable[[str], None] | None,
) -> tuple[PagedModelRunner, CacheSize, tuple[str, ...]]:
    """Build the network and its cache; on a GPU record its decode steps. The last returned are notices."""
    shape = KVShape(
        num_layers=model_config.num_layers,
        num_kv_heads=model_config.num_kv_heads,
        head_dim=model_config.head_dim,
        max_position_embeddings=model_config.max_position_embeddings,
    )
    size = cache_size(config, resolve_kv_cache_dtype(config.kv_cache_dtype, dtype), device, shape)
    model = build_model(model_config, tensors, size.max_model_len)
    uses_graphs = config.cuda_graphs and decodes_by_graphs(device)
    storage = KVStorage(
        num_layers=model_config.num_layers,
        # Padding of recorded steps writes somewhere, too.
        num_blocks=size.num_blocks + uses_graphs,
        num_kv_heads=model_config.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=model_config.head_dim,
        dtype=size.dtype,
        device=device,
    )
    runner = PagedModelRunner(model, storage, block_size=BLOCK_SIZE, is_strict=config.determinism == "strict")
    if not uses_graphs:
        return runner, size, ()
    runner, notice = with_graphs(runner, dummy_block=size.num_blocks, max_rows=_max_rows(config), progress=progress)
    return runner, size, (notice,) if notice else ()


def _load_foreign(folder: Path, config: EngineConfig, device: torch.device, reason: str) -> _Parts:
    if config.tensor_parallel_size > 1:
        raise ConfigError(
            f"tensor_parallel_size is {config.tensor_parallel_size}, which our own models offer; this one runs in "
            f"transformers: {reason} Use tensor_parallel_size=1."
        )
    if config.quantization not in ("auto", "none"):
        raise ConfigError(
            f"quantization is {config.quantization!r}, which our own models offer; this one runs in transformers: "
            f"{reason} Use quantization='none'."
        )
    dtype = resolve_dtype(config.dtype, "none")
    shape = foreign_kv_shape(folder, config.max_model_len)
    max_memory: dict[int | str, int] | None = (
        {"cpu": int(free_bytes(device) * OFFLOAD_SHARE)} if device.type == "cpu" else None
    )
    model = load_transformers_model(folder, dtype=dtype, device_map="auto", max_memory=max_memory)
    return _Parts(
        architecture=type(model).__name__,
        quantization="none",
        dtype=dtype_name(dtype),
        tokenizer=Tokenizer(folder, num_logits=_num_logits(model)),
        runner=TransformersRunner(model),
        cache_size=cache_size(config, dtype, device, shape),
        has_paged_cache=False,
        notices=(f"Slow path: the model runs in transformers, one request at a time. {reason}",),
    )


def _repetition_penalty(folder: Path) -> float:
    path = folder / "generation_config.json"
    if not path.is_file():
        return 1.0
    settings = {key: value for key, value in read_json_object(path).items() if value is not None}
    return read_float(settings, "repetition_penalty", 1.0)


def _num_logits(model: PreTrainedModel) -> int:
    head = model.get_output_embeddings()
    if head is None:
        raise UnsupportedModelError(f"{type(model).__name__} has no language-model head; sureact needs a causal model.")
    return head.weight.shape[0]
