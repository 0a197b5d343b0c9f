"""How our engine is started for a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from sureact.config import Determinism


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """The settings of `EngineConfig` in which rows and tests differ."""

    quantization: Literal["auto", "none", "int8", "int4"] = "int8"
    determinism: Determinism = "strict"
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    max_draft_len: int | None = None
    max_running_requests: int = 1
    kv_cache_gb: float | None = None
