from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.config import BLOCK_SIZE
from sureact.execution import input_moments as module
from sureact.execution.input_moments import calibration_ids, input_moments, moments_of
from sureact.kv_cache.storage import KVStorage
from sureact.layers.attention_metadata import AttentionMetadata
from sureact.models.registry import build_model
from sureact.tokens.tokenizer import Tokenizer
from sureact.weights.checkpoint import Checkpoint
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config
from sureact.weights.parameter_names import map_parameters

CheckpointMaker = Callable[..., Path]

MOE = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16}
IDS = [(7 * i * i + 3 * i) % 250 for i in range(200)]


def _moments(folder: Path, token_ids: list[int]) -> dict[str, torch.Tensor]:
    checkpoint, config = Checkpoint(folder), read_model_config(folder)
    return dict(input_moments(checkpoint, config, map_parameters(config, checkpoint), token_ids))


def _final_hidden(folder: Path, token_ids: list[int]) -> torch.Tensor:
    """Run the whole model at once, in bfloat16."""
    config = read_model_config(folder)
    cpu = torch.device("cpu")
    weights = load_weights(folder, config, dtype=torch.bfloat16, quantization="none", device=cpu)
    num_blocks = -(-len(token_ids) // BLOCK_SIZE)
    storage = KVStorage(
        num_layers=config.num_layers,
        num_blocks=num_blocks,
        num_kv_heads=config.num_kv_heads,
        block_size=BLOCK_SIZE,
        head_dim=config.head_dim,
        dtype=torch.bfloat16,
        device=cpu,
    )
    metadata = AttentionMetadata(
        positions=torch.arange(len(token_ids)),
        slot_mapping=torch.arange(len(token_ids)),
        block_tables=torch.arange(num_blocks)[None],
        context_lens=(len(token_ids),),
        query_lens=(len(token_ids),),
        is_invariant=False,
    )
    return build_model(config, weights, 1024).forward(torch.tensor(token_ids), metadata, storage.layers)


@pytest.mark.parametrize(("family", "options"), [("llama", {}), ("qwen2", {}), ("qwen3", {}), ("qwen3_moe", MOE)])
def test_every_matrix_is_seen_and_the_last_as_in_the_whole_model(
    family: str, options: dict[str, Any], make_checkpoint: CheckpointMaker
) -> None:
    folder = make_checkpoint(family, **options)
    found = _moments(folder, IDS)
    checkpoint = Checkpoint(folder)
    sources = map_parameters(read_model_config(folder), checkpoint)
    assert found.keys() >= {name for name, source in sources.items() if source.role == "linear"}
    for name, moments in found.items():
        assert moments.shape == (sources[name].shape[1],) * 2
        assert moments.isfinite().all()
        torch.testing.assert_close(moments, moments.T, rtol=1e-4, atol=1e-4)
    hidden = _final_hidden(folder, IDS)[1:].float()
    torch.testing.assert_close(found["lm_head"], hidden.T @ hidden / len(hidden), rtol=1e-3, atol=1e-3)


def test_a_long_text_is_cut_into_stretches(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PASS_LEN", 150)
    found = _moments(tiny_folder, IDS)
    hidden = torch.cat([_final_hidden(tiny_folder, part)[1:] for part in (IDS[:150], IDS[150:])]).float()
    torch.testing.assert_close(found["lm_head"], hidden.T @ hidden / len(hidden), rtol=1e-3, atol=1e-3)


def test_moments_are_whole_whatever_the_blocks(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _moments(tiny_folder, IDS)
    monkeypatch.setattr(module, "_BLOCK_COLUMNS", 40)
    for name, moments in _moments(tiny_folder, IDS).items():
        torch.testing.assert_close(moments, whole[name], rtol=1e-5, atol=1e-5)


def test_one_run_gives_the_bits_of_another(tiny_folder: Path) -> None:
    first, second = _moments(tiny_folder, IDS), _moments(tiny_folder, IDS)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_precision_of_other_products_is_left_as_it_was(tiny_folder: Path) -> None:
    before = torch.backends.mkldnn.matmul.fp32_precision  # pyright: ignore
    _moments(tiny_folder, IDS)
    assert torch.backends.mkldnn.matmul.fp32_precision == before  # pyright: ignore


def test_int4_is_rounded_for_the_calibration_texts_with_a_word_per_layer(tiny_folder: Path) -> None:
    config = read_model_config(tiny_folder)
    tokenizer = Tokenizer(tiny_folder, num_logits=config.vocab_size)
    said: list[str] = []
    checkpoint = Checkpoint(tiny_folder)
    found = dict(moments_of(config, tokenizer, said.append)(checkpoint, map_parameters(config, checkpoint)))
    assert "lm_head" in found
    assert said == [f"Rounding to int4, once: layer {layer} of 2" for layer in (1, 2)]


def test_without_a_chat_template_other_texts_remain(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = Tokenizer(tiny_folder, num_logits=288)
    with_chats = calibration_ids(tokenizer)
    monkeypatch.setattr(tokenizer, "chat_template", None)
    assert 1000 < len(calibration_ids(tokenizer)) < len(with_chats)


@pytest.mark.model
def test_the_calibration_texts_have_eight_to_sixteen_thousand_tokens(model_folder: Path) -> None:
    tokenizer = Tokenizer(model_folder, num_logits=151_936)
    assert 8_000 < len(calibration_ids(tokenizer)) < 16_000
