"""Settings of the engine: what the user asks for, and what it resolves to on this machine."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from sureact.errors import ConfigError
from sureact.option_values import require_bool, require_whole

Quantization = Literal["none", "int8", "int4", "fp8"]
Dtype = Literal["float32", "bfloat16", "float16"]
KVCacheDtype = Literal["float32", "bfloat16", "float16", "float8_e4m3"]
Determinism = Literal["strict", "fast"]

BLOCK_SIZE = 128
"""Tokens per KV block, and the length of one partial sum of attention."""

MAX_RUNNING_REQUESTS = 1024
"""Requests that one step can hold at most."""

MAX_DRAFT_LEN = 32
"""Tokens that one step can guess at most, for all requests together."""

MAX_TENSOR_PARALLEL_SIZE = 64
"""Processes of one model at most, all on one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What the user asks for. Every `auto` or None is resolved once, when the engine starts.

    Raises:
        ConfigError: a value is not allowed.
    """

    model: str
    """Catalogue name, folder of safetensors, `.gguf` file, or hub id that is on this disk."""
    quantization: Literal["auto", "none", "int8", "int4", "fp8"] = "auto"
    """Form of the weight matrices: `none` keeps the dtype; `fp8` (e4m3 and a scale per row) is for GPUs only; `auto` is
    int8 on a CPU and none on a GPU."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Dtype of the KV cache and of matrices that are not quantized, and of activations beside them; `auto` is bfloat16.
    On a CPU, activations of int8 and int4 models are float32."""
    kv_cache_dtype: Literal["auto", "float8_e4m3"] = "auto"
    """Dtype of cached keys and values; `auto` is `dtype`. `float8_e4m3` takes half of bfloat16 and has 4 bits of
    precision for its 8; on a CPU attention then runs in torch, which is slow."""
    device: str = "auto"
    """`cpu`, `cuda`, `cuda:1`, ...; `auto` is the first GPU if there is one."""
    determinism: Determinism = "strict"
    """`strict`: tokens do not depend on what else runs, on chunks or on cache hits. `fast`: products of prompts with
    matrices that are not quantized may sum in another order, so a cached and a recomputed prompt may differ in the last
    bits; int8 and int4 products have one order, as fast as any."""
    max_model_len: int | None = None
    """Longest context in tokens; None takes the model's own, as far as the KV cache holds it."""
    kv_cache_gb: float | None = None
    """Memory for keys and values, in 10^9 bytes; None takes a quarter of the free memory on a CPU and nine tenths of
    what the weights leave on a GPU, at most what 16 contexts of full length need."""
    max_running_requests: int = 16
    """Requests that decode together; more wait."""
    prefill_chunk_len: int | None = None
    """Most prompt tokens computed in one step, a quarter of it while others decode; None takes 2,048 on a
    GPU; on a CPU 256 in strict determinism, whose products do not gain from more, and 1,024 in fast, whose may."""
    num_threads: int | None = None
    """CPU threads; None takes `OMP_NUM_THREADS` if that is set, else one per physical core."""
    max_rollbacks: int = 256
    """Tokens that one constrained request may take back where its text cannot go on; then it fails."""
    max_draft_len: int | None = None
    """Most tokens per request and step that are guessed from its own text and verified by the model; 0 turns guesses
    and the skipping of forced text off, 32 is the most. No value changes what is generated. None takes 3."""
    prefix_cache: bool = True
    """Whether prompts that begin alike share the keys and values of their beginning."""
    tensor_parallel_size: int = 1
    """Processes that hold one part of the model each, on a GPU of its own (on a CPU they share it, which is for tests);
    `kv_cache_gb` is then per process. It must divide the model's query heads, key heads and feed-forward columns."""
    cuda_graphs: bool = True
    """Whether steps of decoding are recorded when the engine starts and replayed as CUDA graphs, on a GPU. No value
    changes what is generated."""

    def __post_init__(self) -> None:
        """Validate what can be judged without looking at the machine."""
        _require_choice("quantization", self.quantization, ("auto", *get_args(Quantization)))
        _require_choice("dtype", self.dtype, ("auto", *get_args(Dtype)))
        _require_choice("kv_cache_dtype", self.kv_cache_dtype, ("auto", "float8_e4m3"))
        _require_choice("determinism", self.determinism, get_args(Determinism))
        for name in ("max_model_len", "prefill_chunk_len", "num_threads"):
            if getattr(self, name) is not None:
                require_whole(name, getattr(self, name))
        if self.max_draft_len is not None:
            require_whole("max_draft_len", self.max_draft_len, least=0, most=MAX_DRAFT_LEN)
        require_whole("max_running_requests", self.max_running_requests, least=1, most=MAX_RUNNING_REQUESTS)
        require_whole("max_rollbacks", self.max_rollbacks, least=0)
        require_whole("tensor_parallel_size", self.tensor_parallel_size, least=1, most=MAX_TENSOR_PARALLEL_SIZE)
        if self.kv_cache_gb is not None:
            _require_size("kv_cache_gb", self.kv_cache_gb)
        for name in ("prefix_cache", "cuda_graphs"):
            require_bool(name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedConfig:
    """What runs: every setting of `EngineConfig` with its value on this machine."""

    model_name: str
    architecture: str
    quantization: Quantization
    dtype: Dtype
    kv_cache_dtype: KVCacheDtype
    device: str
    determinism: Determinism
    max_model_len: int
    num_kv_blocks: int
    kv_cache_bytes: int
    max_running_requests: int
    prefill_chunk_len: int
    num_threads: int
    max_rollbacks: int
    max_draft_len: int
    prefix_cache: bool
    tensor_parallel_size: int
    cuda_graphs: bool
    weight_bytes_per_token: int
    """Bytes of weight matrices that one decoded token reads."""
    notices: tuple[str, ...] = ()
    """What was not done as asked or is slower than it could be, and why."""


def _require_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; it must be one of {', '.join(allowed)}.")


def _require_size(name: str, value: object) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ConfigError(f"{name} is {value!r}; it must be a number above 0 and finite.")
