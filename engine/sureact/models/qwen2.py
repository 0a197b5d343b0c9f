"""Qwen1.5, Qwen2, Qwen2.5, their Coder models and QwQ."""

from sureact.models.llama import Llama


class Qwen2(Llama):
    """Llama's block with biases on queries, keys and values, which `Weights.linear` picks up by name."""
