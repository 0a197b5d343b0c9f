"""What Qwen3's blocks read from a checkpoint: norms per head, and experts only where the config says so."""

from typing import Any

import torch

from sureact.layers.gated_mlp import GatedMlp
from sureact.models.registry import build_model
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config


def test_queries_and_keys_are_normalized_per_head(make_checkpoint: Any) -> None:
    folder = make_checkpoint("qwen3", head_dim=32)
    config = read_model_config(folder)
    weights = load_weights(folder, config, dtype=torch.float32, quantization="none", device=torch.device("cpu"))
    for block in build_model(config, weights, 16).blocks:
        assert block.attention.head_norm is not None
        assert block.attention.head_norm.q_weight.shape == (32,)
        assert isinstance(block.mlp, GatedMlp)
