"""Tiny random models of each family, written by transformers as a published checkpoint is."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SaveTinyModel = Callable[..., Path]

_SIZES: dict[str, Any] = {
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "eos_token_id": 7,
}


@pytest.fixture
def save_tiny_model(tmp_path: Path) -> SaveTinyModel:
    """Return a function `(family, max_shard_size="1GB", **config) -> folder` that saves a random float32 model."""

    def save(family: str, *, max_shard_size: str = "1GB", **settings: Any) -> Path:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        torch.manual_seed(0)
        config = AutoConfig.for_model(family, **{**_SIZES, **settings})
        folder = tmp_path / f"{family}-{len(list(tmp_path.iterdir()))}"
        model = AutoModelForCausalLM.from_config(config)
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.1)
        model.save_pretrained(folder, max_shard_size=max_shard_size)
        return folder

    return save


@pytest.fixture
def edit_config() -> Callable[..., None]:
    """Return a function `(folder, **settings)` that changes settings of a config.json; None removes one."""

    def edit(folder: Path, **settings: Any) -> None:
        path = folder / "config.json"
        config = json.loads(path.read_text()) | settings
        path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))

    return edit
