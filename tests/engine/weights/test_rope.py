from typing import Any

import pytest
import torch
from transformers import Qwen3Config
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from sureact.errors import CheckpointError, UnsupportedModelError
from sureact.weights.rope import RopeConfig, read_rope_config, rotary_frequencies

YARN: dict[str, Any] = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
LLAMA3: dict[str, Any] = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


@pytest.mark.parametrize("head_dim", [64, 128])
@pytest.mark.parametrize("theta", [10_000.0, 1_000_000.0])
@pytest.mark.parametrize(
    "scaling",
    [
        {"rope_type": "linear", "factor": 2.0},
        YARN,
        YARN | {"original_max_position_embeddings": 4096, "beta_fast": 16, "beta_slow": 2},
        YARN | {"attention_factor": 1.5},
        YARN | {"mscale": 0.7, "mscale_all_dim": 1.2},
        YARN | {"truncate": False},
        {"rope_type": "yarn", "factor": 4.0},
        LLAMA3,
    ],
    ids=str,
)
def test_frequencies_are_those_of_transformers(head_dim: int, theta: float, scaling: dict[str, Any]) -> None:
    written: dict[str, Any] = {"rope_theta": theta, **scaling}
    theirs = Qwen3Config(head_dim=head_dim, max_position_embeddings=40960, rope_parameters=dict(written))
    expected, expected_scaling = ROPE_INIT_FUNCTIONS[scaling["rope_type"]](theirs, torch.device("cpu"))
    rope = read_rope_config({"rope_parameters": written, "max_position_embeddings": 40960})
    inv_freq, attention_scaling = rotary_frequencies(rope, head_dim)
    assert inv_freq.dtype == torch.float32
    torch.testing.assert_close(inv_freq, expected, rtol=1e-6, atol=0)
    assert attention_scaling == pytest.approx(expected_scaling, rel=1e-12)


def test_default_frequencies_follow_the_formula() -> None:
    inv_freq, attention_scaling = rotary_frequencies(RopeConfig(theta=100.0), 4)
    torch.testing.assert_close(inv_freq, torch.tensor([1.0, 0.1]))
    assert attention_scaling == 1.0


def test_a_part_of_the_head_may_rotate() -> None:
    inv_freq, _ = rotary_frequencies(RopeConfig(partial_rotary_factor=0.25), 64)
    assert inv_freq.shape == (8,)


def test_both_spellings_mean_the_same() -> None:
    modern = read_rope_config({"rope_parameters": {"rope_theta": 5e6, **YARN}, "max_position_embeddings": 131072})
    older = read_rope_config({"rope_theta": 5e6, "rope_scaling": YARN, "max_position_embeddings": 131072})
    oldest_scaling = {("type" if key == "rope_type" else key): value for key, value in YARN.items()}
    oldest = read_rope_config({"rope_theta": 5e6, "rope_scaling": oldest_scaling, "max_position_embeddings": 131072})
    assert modern == older == oldest
    assert read_rope_config({"rope_theta": 1e6, "rope_scaling": None}) == RopeConfig(theta=1e6)
    assert read_rope_config({}) == RopeConfig()


@pytest.mark.parametrize("rope_type", ["dynamic", "longrope", "mrope", "proportional"])
def test_another_type_is_refused_by_name(rope_type: str) -> None:
    with pytest.raises(UnsupportedModelError, match=rope_type):
        read_rope_config({"rope_scaling": {"rope_type": rope_type, "factor": 2.0}})


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"rope_type": "yarn"}, "needs factor"), ({"rope_type": "linear", "factor": "2"}, "factor is '2'")],
)
def test_a_missing_or_malformed_setting_is_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        read_rope_config({"rope_parameters": settings})
