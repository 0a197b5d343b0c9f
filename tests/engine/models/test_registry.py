"""Every family that the config reader knows has a class, built from a real checkpoint."""

from typing import Any, get_args

import pytest
import torch

from sureact.models.registry import FAMILIES, build_model
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import Family, read_model_config


def test_every_family_is_served() -> None:
    assert set(FAMILIES) == set(get_args(Family))


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_the_class_follows_the_checkpoint(family: str, make_checkpoint: Any) -> None:
    folder = make_checkpoint(family)
    config = read_model_config(folder)
    tensors = load_weights(folder, config, dtype=torch.float32, quantization="none", device=torch.device("cpu"))
    model = build_model(config, tensors, 16)
    assert type(model) is FAMILIES[family]
    assert len(model.blocks) == config.num_layers
