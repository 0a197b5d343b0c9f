"""The slow path gives the tokens of transformers, with sessions, cuts, stops and constraints as everywhere."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from sureact.constraints.choice import choice
from sureact.engine import Engine
from sureact.sampling_params import SamplingParams

PARAMS = SamplingParams(max_tokens=16, ignore_eos=True)


@pytest.fixture(scope="module")
def folder(make_checkpoint: Any) -> Path:
    """An architecture that we do not have, with a sliding window in half of its layers."""
    return make_checkpoint("gemma2", head_dim=16, sliding_window=32, pad_token_id=0)


@pytest.fixture(scope="module")
def engine(folder: Path) -> Iterator[Engine]:
    with Engine(str(folder), dtype="float32", kv_cache_gb=0.01) as engine:
        yield engine


def reference(folder: Path, prompt: list[int]) -> list[int]:
    from transformers import AutoModelForCausalLM, GenerationConfig

    model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    settings = GenerationConfig(
        max_new_tokens=16, do_sample=False, eos_token_id=None, pad_token_id=0, suppress_tokens=list(range(261, 288))
    )
    ids = torch.tensor([prompt])
    return model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings)[
        0, len(prompt) :
    ].tolist()


def test_the_engine_says_that_it_is_slow_and_why(engine: Engine) -> None:
    assert engine.config.architecture == "Gemma2ForCausalLM"
    assert "gemma2" in engine.config.notices[0]


@pytest.mark.parametrize("length", [3, 50, 600])  # the last is longer than a chunk
def test_tokens_are_those_of_transformers(engine: Engine, folder: Path, length: int) -> None:
    prompt = [(7 * i) % 251 for i in range(length)]
    assert list(engine.generate(prompt, PARAMS).token_ids) == reference(folder, prompt)


def test_a_cut_session_goes_on_as_a_fresh_one(engine: Engine) -> None:
    prompt = [(7 * i) % 251 for i in range(50)]
    expected = engine.generate(prompt[:45], PARAMS).token_ids
    with engine.session() as session:
        session.append(prompt)
        session.generate(PARAMS)
        session.truncate(45)
        assert session.generate(PARAMS).token_ids == expected


def test_a_fork_goes_on_as_its_original(engine: Engine) -> None:
    with engine.session() as session:
        session.append("a" * 200)
        session.generate(PARAMS)
        with session.fork() as fork:
            assert fork.generate(PARAMS).token_ids == session.generate(PARAMS).token_ids


def test_constraints_hold(engine: Engine) -> None:
    output = engine.generate("pick:", SamplingParams(max_tokens=20), choice(["yes", "no"], delimiter="\n"))
    assert output.text in ("yes\n", "no\n")


def test_the_state_of_a_hybrid_model_is_never_taken_for_another_context(make_checkpoint: Any) -> None:
    folder = make_checkpoint(
        "qwen3_next",
        head_dim=16,
        num_experts=0,
        layer_types=["linear_attention", "full_attention"],
        linear_num_value_heads=2,
        linear_num_key_heads=2,
        linear_key_head_dim=8,
        linear_value_head_dim=8,
    )
    prompt = [(7 * i) % 251 for i in range(300)]
    with Engine(str(folder), dtype="float32", kv_cache_gb=0.01) as engine:
        expected = reference(folder, prompt)
        assert list(engine.generate(prompt, PARAMS).token_ids) == expected
        with engine.session() as session:
            session.append([*prompt, 5, 6, 7])
            session.generate(PARAMS)
            session.truncate(len(prompt))
            assert list(session.generate(PARAMS).token_ids) == expected
        assert list(engine.generate(prompt, PARAMS).token_ids) == expected
