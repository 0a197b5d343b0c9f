"""Tiny random checkpoints of every family, made by transformers, with a tokenizer of bytes."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sureact.engine import Engine

CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
VOCAB_SIZE = 288
"""256 bytes, five control tokens, and unused rows."""

CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

SIZES: dict[str, Any] = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": None,
    "eos_token_id": None,
    # Wide enough that the logits of a random model are far apart, so that rounding cannot flip a token.
    "initializer_range": 0.3,
}

CheckpointMaker = Callable[..., Path]


def write_tokenizer(folder: Path) -> None:
    """Write a byte-level tokenizer without merges."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(token, special=True, normalized=False) for token in CONTROL_TOKENS])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": "<|im_end|>",
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


@pytest.fixture(scope="session")
def make_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> CheckpointMaker:
    """Return a function that writes a random checkpoint of a family; options go to its transformers config."""

    def make(family: str, seed: int = 0, **options: Any) -> Path:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM

        folder = tmp_path_factory.mktemp(family)
        torch.manual_seed(seed)
        config = AutoConfig.for_model(family, **{**SIZES, **options})
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        for name, parameter in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                parameter.data += 0.1 * torch.randn_like(parameter)
        model.save_pretrained(folder)
        write_tokenizer(folder)
        return folder

    return make


@pytest.fixture(scope="session")
def tiny_folder(make_checkpoint: CheckpointMaker) -> Path:
    """A tiny Qwen2 checkpoint."""
    return make_checkpoint("qwen2")


@pytest.fixture(scope="session")
def tiny_engine(tiny_folder: Path) -> Iterator[Engine]:
    """An engine in float32 over the tiny checkpoint, with a cache of 60 blocks."""
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079) as engine:
        yield engine
