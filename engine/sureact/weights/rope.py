"""Rotary position embedding: its settings as checkpoints spell them, and the frequencies that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, cast, get_args

from sureact.errors import CheckpointError, UnsupportedModelError

if TYPE_CHECKING:
    import torch

RopeType = Literal["default", "linear", "yarn", "llama3"]

_REQUIRED = {
    "default": (),
    "linear": ("factor",),
    "yarn": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RopeConfig:
    """How positions rotate queries and keys."""

    rope_type: RopeType = "default"
    theta: float = 10_000.0
    """Base of the wavelengths."""
    partial_rotary_factor: float = 1.0
    """Share of each head that rotates."""
    factor: float = 1.0
    """How many times longer than trained the context is (linear, yarn, llama3)."""
    original_max_position_embeddings: int = 0
    """Tokens the model was trained for before it was stretched (yarn, llama3)."""
    attention_factor: float | None = None
    """Scales cosines and sines (yarn); None derives it from the factor."""
    mscale: float | None = None
    """With `mscale_all_dim`, another way to spell the attention factor (yarn)."""
    mscale_all_dim: float | None = None
    """See `mscale`."""
    beta_fast: float = 32.0
    """Rotations over the original context from which on a dimension is not stretched (yarn)."""
    beta_slow: float = 1.0
    """Rotations up to which a dimension is stretched in full (yarn)."""
    truncate: bool = True
    """Whether the bounds of the ramp between the two are rounded to whole dimensions (yarn)."""
    low_freq_factor: float = 1.0
    """Sets the wavelength above which a dimension is stretched in full (llama3)."""
    high_freq_factor: float = 1.0
    """Sets the wavelength below which a dimension is not stretched (llama3)."""


def read_rope_config(config: Mapping[str, object], *, default_theta: float = 10_000.0) -> RopeConfig:
    """Read the rope settings of a config.json in either spelling: `rope_parameters`, or `rope_theta`/`rope_scaling`.

    Raises:
        UnsupportedModelError: the rope type is not served.
        CheckpointError: a setting that the type needs is missing or not a number.
    """
    raw = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if not isinstance(raw, Mapping):
        raise CheckpointError(f"config.json: rope settings are {raw!r}; they must be an object.")
    settings = {
        "rope_theta": config.get("rope_theta", default_theta),
        "partial_rotary_factor": config.get("partial_rotary_factor", 1.0),
        "original_max_position_embeddings": config.get("max_position_embeddings", 0),
    } | {str(key): value for key, value in raw.items() if value is not None}
    # A length beside the rope settings outranks the one within them, as in transformers.
    if config.get("original_max_position_embeddings"):
        settings["original_max_position_embeddings"] = config["original_max_position_embeddings"]
    rope_type = settings.get("rope_type") or settings.get("type") or "default"
    if rope_type not in get_args(RopeType):
        raise UnsupportedModelError(
            f"Rope type {rope_type!r} is not served; served are {', '.join(get_args(RopeType))}."
        )
    rope_type = cast("RopeType", rope_type)
    missing = [key for key in _REQUIRED[rope_type] if key not in settings]
    if missing:
        raise CheckpointError(f"config.json: rope type {rope_type!r} needs {', '.join(missing)}.")
    return _rope_config(rope_type, settings)


def rotary_frequencies(rope: RopeConfig, head_dim: int) -> tuple[torch.Tensor, float]:
    """Compute the angle by which each pair of dimensions turns per position.

        inv_freq[i] = 1 / theta ** (2 * i / rotary_dim)

    and what the rope type makes of it; `rotary_dim = head_dim * partial_rotary_factor`.

    Returns:
        inv_freq: `[rotary_dim / 2]`, float32, on the CPU.
        attention_scaling: the number that cosines and sines are multiplied by.

    Source: Su et al. 2021, arXiv:2104.09864; yarn: Peng et al. 2023, arXiv:2309.00071; llama3: Llama 3.1 release.
    """
    import torch

    rotary_dim = int(head_dim * rope.partial_rotary_factor)
    wavelengths = rope.theta ** (torch.arange(0, rotary_dim, 2, dtype=torch.float32) / rotary_dim)
    inv_freq = 1.0 / wavelengths
    match rope.rope_type:
        case "default":
            return inv_freq, 1.0
        case "linear":
            return inv_freq / rope.factor, 1.0
        case "yarn":
            return _yarn(rope, wavelengths, rotary_dim), _yarn_attention_scaling(rope)
        case "llama3":
            return _llama3(rope, inv_freq), 1.0


def _rope_config(rope_type: RopeType, settings: Mapping[str, object]) -> RopeConfig:
    def number(key: str, default: float) -> float:
        value = settings.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CheckpointError(f"config.json: rope setting {key} is {value!r}; it must be a number.")
        return float(value)

    def optional_number(key: str) -> float | None:
        return number(key, 0.0) if key in settings else None

    return RopeConfig(
        rope_type=rope_type,
        theta=number("rope_theta", 0.0),
        partial_rotary_factor=number("partial_rotary_factor", 1.0),
        factor=number("factor", 1.0),
        original_max_position_embeddings=int(number("original_max_position_embeddings", 0.0)),
        attention_factor=optional_number("attention_factor"),
        mscale=optional_number("mscale"),
        mscale_all_dim=optional_number("mscale_all_dim"),
        beta_fast=number("beta_fast", 32.0) or 32.0,
        beta_slow=number("beta_slow", 1.0) or 1.0,
        truncate=settings.get("truncate") is not False,
        low_freq_factor=number("low_freq_factor", 1.0),
        high_freq_factor=number("high_freq_factor", 1.0),
    )


def _yarn(rope: RopeConfig, wavelengths: torch.Tensor, rotary_dim: int) -> torch.Tensor:
    """Stretch slow dimensions, keep fast ones, and blend between."""
    import torch

    def dimension_of(num_rotations: float) -> float:
        turns = rope.original_max_position_embeddings / (num_rotations * 2 * math.pi)
        return rotary_dim * math.log(turns) / (2 * math.log(rope.theta))

    low, high = dimension_of(rope.beta_fast), dimension_of(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, rotary_dim - 1)
    if low == high:
        high += 0.001  # a step instead of a ramp, without dividing by zero
    ramp = ((torch.arange(rotary_dim // 2, dtype=torch.float32) - low) / (high - low)).clamp(0, 1)
    kept = 1 - ramp
    return 1.0 / (rope.factor * wavelengths) * (1 - kept) + 1.0 / wavelengths * kept


def _yarn_attention_scaling(rope: RopeConfig) -> float:
    def mscale(weight: float) -> float:
        return 1.0 if rope.factor <= 1 else 0.1 * weight * math.log(rope.factor) + 1.0

    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return mscale(rope.mscale) / mscale(rope.mscale_all_dim)
    return mscale(1.0)


def _llama3(rope: RopeConfig, inv_freq: torch.Tensor) -> torch.Tensor:
    """Stretch long wavelengths, keep short ones, and blend between."""
    import torch

    original_len = rope.original_max_position_embeddings
    wavelengths = 2 * math.pi / inv_freq
    is_long = wavelengths > original_len / rope.low_freq_factor
    is_short = wavelengths < original_len / rope.high_freq_factor
    kept = (original_len / wavelengths - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    blended = (1 - kept) * inv_freq / rope.factor + kept * inv_freq
    return torch.where(is_short, inv_freq, torch.where(is_long, inv_freq / rope.factor, blended))
