"""What Llama's block reads from a checkpoint, and the optional biases it picks up."""

from typing import Any

import pytest
import torch

from sureact.engine import Engine
from sureact.models.llama import Llama
from sureact.models.registry import build_model
from sureact.sampling_params import SamplingParams
from sureact.weights.load_weights import load_weights
from sureact.weights.model_config import read_model_config


def test_blocks_have_no_head_norm_and_no_bias_by_default(make_checkpoint: Any) -> None:
    folder = make_checkpoint("llama")
    config = read_model_config(folder)
    weights = load_weights(folder, config, dtype=torch.float32, quantization="none", device=torch.device("cpu"))
    model = build_model(config, weights, 16)
    assert isinstance(model, Llama)
    for block in model.blocks:
        assert block.attention.head_norm is None
        assert block.attention.qkv.bias is None


def test_biases_of_the_checkpoint_are_honored(make_checkpoint: Any) -> None:
    from transformers import AutoModelForCausalLM

    folder = make_checkpoint("llama", attention_bias=True, mlp_bias=True)
    prompt = [5, 99, 7, 200, 31]
    with Engine(str(folder), quantization="none", dtype="float32", kv_cache_gb=0.01) as engine:
        output = engine.generate(prompt, SamplingParams(max_tokens=1, logprobs=5, ignore_eos=True))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.inference_mode():
        exact = model(input_ids=torch.tensor([prompt])).logits[0, -1].log_softmax(-1)
    assert output.completions[0].logprobs is not None
    for token_id, logprob in output.completions[0].logprobs[0].top:
        assert logprob == pytest.approx(float(exact[token_id]), abs=1e-3)
