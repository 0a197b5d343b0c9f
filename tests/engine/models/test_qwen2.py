"""The real 0.5B model: transformers' tokens in float32, and nothing that is not in its vocabulary."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.engine import Engine
from sureact.sampling_params import SamplingParams

pytestmark = pytest.mark.model

QUESTIONS = (
    "Write a Python function that reverses a string.",
    "What is the capital of France?",
    "Explain in two sentences what a hash table is.",
    "Schreibe ein Haiku über den Herbst.",
    "用中文解释什么是递归。",
    "List three uses of SQLite.",
    "def fibonacci(n):",
    "Convert 72 degrees Fahrenheit to Celsius, step by step.",
)


@pytest.fixture(scope="module")
def engine(model_folder: Path) -> Iterator[Engine]:
    with Engine(str(model_folder), quantization="none", dtype="float32", kv_cache_gb=0.1) as engine:
        yield engine


def generate(engine: Engine, params: SamplingParams, prompt: list[int]) -> tuple[int, ...]:
    return engine.generate(prompt, params).token_ids


@pytest.fixture(scope="module")
def answers(engine: Engine) -> list[tuple[list[int], list[int]]]:
    """Each question's prompt and 64 greedy tokens after it."""
    prompts = [engine.encode(engine.render_chat([{"role": "user", "content": question}])) for question in QUESTIONS]
    params = SamplingParams(max_tokens=64, ignore_eos=True)
    with ThreadPoolExecutor(len(prompts)) as pool:
        return list(zip(prompts, map(list, pool.map(partial(generate, engine, params), prompts)), strict=True))


@pytest.fixture(scope="module")
def reference(model_folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    model: Any = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    return model


def test_greedy_tokens_are_those_of_transformers(answers: list[tuple[list[int], list[int]]], reference: Any) -> None:
    """Each token is the likeliest one to transformers after those before it, so its own greedy text is the same."""
    for prompt, tokens in answers:
        with torch.inference_mode():
            logits = reference(torch.tensor([prompt + tokens[:-1]])).logits
        assert tokens == logits[0, len(prompt) - 1 :].argmax(dim=-1).tolist()


@pytest.mark.slow
def test_greedy_tokens_are_those_of_generate(answers: list[tuple[list[int], list[int]]], reference: Any) -> None:
    from transformers import GenerationConfig

    settings = GenerationConfig(max_new_tokens=64, do_sample=False, eos_token_id=None, pad_token_id=0)
    for prompt, tokens in answers:
        ids = torch.tensor([prompt])
        output = reference.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)
        assert tokens == output[0, len(prompt) :].tolist()


def test_rows_without_a_token_are_unused_and_never_sampled(engine: Engine) -> None:
    vocabulary = engine.vocabulary
    assert vocabulary.num_logits == 151_936
    assert vocabulary.unused_ids == frozenset(range(151_665, 151_936))
    hot = SamplingParams(max_tokens=25, temperature=100.0, seed=3, ignore_eos=True, n=8)
    sampled = [token_id for output in engine.generate("Hello", hot).completions for token_id in output.token_ids]
    assert len(set(sampled)) > 190
    assert max(sampled) < 151_665


def test_both_end_of_sequence_tokens_end_a_text(engine: Engine) -> None:
    spelled = {engine.encode(text, parse_control_tokens=True)[0] for text in ("<|im_end|>", "<|endoftext|>")}
    assert set(engine.vocabulary.eos_ids) == spelled
    output = engine.chat([{"role": "user", "content": "Say only the word yes."}], SamplingParams(max_tokens=64))
    assert output.finish_reason == "stop"
    assert output.completions[0].stop_reason in spelled
    assert "<|im_end|>" not in output.text
