"""How much each part measures: on a GPU, and with `--tiny`, where everything runs once within seconds."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = ("probe", "kernels", "decode", "prefill", "constrained", "react", "invariance", "peers")

REAL_MODELS = ("qwen3-8b", "qwen3-0.6b", "qwen3-4b", "qwen3-1.7b")
"""The two with the most targets first, since a part that runs out of time leaves out the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Sizes of what is measured."""

    repeats: int
    max_model_len: int
    """Tokens that graphs are captured for."""
    decode_batches: tuple[int, ...]
    decode_context: int
    decode_steps: int
    eager_steps: int
    prefill_lens: tuple[int, ...]
    constrained_batches: tuple[int, ...]
    react_prompt_len: int
    """System message, tools and question."""
    react_turns: int
    react_thought_len: int
    react_call_len: int
    """Tokens of a call, which a mask constrains."""
    react_observation_len: int
    invariance_rows: tuple[int, ...]
    """Rows in a pass; the first is 1."""
    invariance_prompt_len: int
    """More than a block, so that the cache can be hit."""
    peer_tokens: int
    num_empty_kernels: int


FULL = Settings(
    repeats=20,
    max_model_len=16_384,
    decode_batches=(1, 8, 32),
    decode_context=1024,
    decode_steps=128,
    eager_steps=16,
    prefill_lens=(1024, 8192),
    constrained_batches=(1, 32),
    react_prompt_len=1024,
    react_turns=6,
    react_thought_len=40,
    react_call_len=40,
    react_observation_len=60,
    invariance_rows=(1, 2, 3, 8, 16, 33, 64),
    invariance_prompt_len=300,
    peer_tokens=128,
    num_empty_kernels=2000,
)

TINY = Settings(
    repeats=1,
    max_model_len=512,
    decode_batches=(1, 2),
    decode_context=24,
    decode_steps=3,
    eager_steps=2,
    prefill_lens=(16, 40),
    constrained_batches=(1, 2),
    react_prompt_len=20,
    react_turns=2,
    react_thought_len=3,
    react_call_len=3,
    react_observation_len=5,
    invariance_rows=(1, 2, 3),
    invariance_prompt_len=150,
    peer_tokens=4,
    num_empty_kernels=4,
)


def is_small(model: str) -> bool:
    """Tell whether a model is smaller than 4B, where launches weigh more than bytes."""
    return model in ("qwen3-0.6b", "qwen3-1.7b", "tiny")
