"""Experts stand only in the layers that the config calls sparse."""

from typing import Any

import torch

from sureact.layers.gated_mlp import GatedMlp
from sureact.layers.mixture_of_experts import MixtureOfExperts
from sureact.models.registry import build_model
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config


def test_dense_and_sparse_layers_follow_the_config(make_checkpoint: Any) -> None:
    folder = make_checkpoint(
        "qwen3_moe", head_dim=16, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, mlp_only_layers=[1]
    )
    config = read_model_config(folder)
    weights = load_weights(folder, config, dtype=torch.float32, quantization="none", device=torch.device("cpu"))
    sparse, dense = (block.mlp for block in build_model(config, weights, 16).blocks)
    assert isinstance(sparse, MixtureOfExperts)
    assert len(sparse.experts) == 4
    assert isinstance(dense, GatedMlp)
