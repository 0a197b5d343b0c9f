"""Our networks against transformers': the same logits, the same greedy tokens."""

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.engine import Engine
from sureact.models.registry import build_model
from sureact.sampling_params import SamplingParams
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2": ("qwen2", {}),
    "qwen2-tied": ("qwen2", {"tie_word_embeddings": True}),
    "qwen2-yarn": (
        "qwen2",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10_000.0,
                "factor": 4.0,
                "original_max_position_embeddings": 256,
            }
        },
    ),
    "qwen3-explicit-head-dim": ("qwen3", {"head_dim": 32}),
    "qwen3-tied": ("qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "qwen3_moe": (
        "qwen3_moe",
        {
            "head_dim": 16,
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 32,
            "norm_topk_prob": True,
            "mlp_only_layers": [0],
        },
    ),
    "llama": ("llama", {"num_key_value_heads": 4}),
    "llama3-rope": (
        "llama",
        {
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500_000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 256,
            },
        },
    ),
}


@pytest.fixture(params=FAMILIES, scope="module")
def folder(request: pytest.FixtureRequest, make_checkpoint: Any) -> Path:
    family, options = FAMILIES[request.param]
    return make_checkpoint(family, **options)


def reference_tokens(folder: Path, prompts: list[list[int]], num_tokens: int) -> list[list[int]]:
    """Greedy tokens of transformers, which never ends early."""
    from transformers import AutoModelForCausalLM, GenerationConfig

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    settings = GenerationConfig(
        max_new_tokens=num_tokens,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        suppress_tokens=list(range(261, 288)),  # rows without a token are never picked
    )
    return [
        model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt)), generation_config=settings)[
            0, len(prompt) :
        ].tolist()
        for prompt in prompts
    ]


def random_prompts(count: int, longest: int) -> list[list[int]]:
    draw = random.Random(0)
    return [[draw.randrange(256) for _ in range(draw.randint(1, longest))] for _ in range(count)]


def test_greedy_tokens_are_those_of_transformers(folder: Path) -> None:
    prompts = random_prompts(32, 40)
    params = SamplingParams(max_tokens=64, ignore_eos=True)
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.02) as engine:
        ours = [list(engine.generate(prompt, params).token_ids) for prompt in prompts]
    assert ours == reference_tokens(folder, prompts, 64)


def test_logprobs_are_those_of_transformers_over_a_long_prompt(folder: Path) -> None:
    from transformers import AutoModelForCausalLM

    prompt = random_prompts(1, 1)[0] + [random.Random(1).randrange(256) for _ in range(700)]
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.02, prefill_chunk_len=200) as engine:
        output = engine.generate(prompt, SamplingParams(max_tokens=1, logprobs=20, ignore_eos=True))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        exact = model(input_ids=torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    assert output.completions[0].logprobs is not None
    for token_id, logprob in output.completions[0].logprobs[0].top:
        assert logprob == pytest.approx(float(exact[token_id]), abs=2e-3)


@pytest.mark.parametrize("quantization", ["none", "int8", "int4"])
def test_needed_logits_have_the_bits_of_all_logits(quantization: Any, make_checkpoint: Any) -> None:
    folder = make_checkpoint("qwen2")
    config = read_model_config(folder)
    weights = load_weights(folder, config, dtype=torch.bfloat16, quantization=quantization, device=torch.device("cpu"))
    model = build_model(config, weights, 16)
    hidden = torch.randn(2, config.hidden_size).to(model.final_norm.weight.dtype)
    needed = torch.zeros(2, -(-config.vocab_size // 32), dtype=torch.int32)
    needed[0, 0], needed[1, 2] = 0b1010, 1
    some, every = model.logits(hidden, needed), model.logits(hidden)
    assert torch.equal(some[0, [1, 3]], every[0, [1, 3]])
    assert some[1, 64] == every[1, 64]
