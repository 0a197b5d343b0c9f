"""Which class serves which family."""

import torch

from sureact.models.causal_lm import CausalLM, Weights
from sureact.models.llama import Llama
from sureact.models.qwen2 import Qwen2
from sureact.models.qwen3 import Qwen3
from sureact.models.qwen3_moe import Qwen3Moe
from sureact.weights.model_config import ModelConfig
from sureact_kernels.linear import LinearWeight

FAMILIES: dict[str, type[CausalLM]] = {"llama": Llama, "qwen2": Qwen2, "qwen3": Qwen3, "qwen3_moe": Qwen3Moe}


def build_model(config: ModelConfig, tensors: dict[str, torch.Tensor | LinearWeight], max_model_len: int) -> CausalLM:
    """Build the network of `config.family` over loaded `tensors`; rotary angles reach `max_model_len` positions."""
    return FAMILIES[config.family](config, Weights(tensors), max_model_len)
