import pytest
import torch
from benchmarks.gpu.random_model import DEPTHS, RandomModel
from benchmarks.gpu.settings import REAL_MODELS
from benchmarks.kernels.case import MODELS


def test_every_model_has_sizes_and_depth() -> None:
    assert set(REAL_MODELS) | {"tiny"} == set(DEPTHS) == set(MODELS)


@pytest.mark.parametrize(
    ("model", "billions"), [("qwen3-0.6b", 0.60), ("qwen3-1.7b", 1.72), ("qwen3-4b", 4.02), ("qwen3-8b", 8.19)]
)
def test_shapes_have_as_many_parameters_as_the_real_models(model: str, billions: float) -> None:
    sizes, depth = MODELS[model], DEPTHS[model]
    of_layer = sizes.hidden_size * (sizes.qkv_size + sizes.num_q_heads * sizes.head_dim + 3 * sizes.intermediate_size)
    heads = 1 if depth.is_tied else 2
    total = depth.num_layers * of_layer + heads * sizes.vocab_size * sizes.hidden_size
    assert total / 1e9 == pytest.approx(billions, abs=0.01)


def test_bytes_of_a_step_are_weights_and_context(tiny: RandomModel) -> None:
    per_token = 2 * 2 * 1 * 32 * 4  # keys and values of two layers, one head of 32 numbers of float32
    assert tiny.kv_bytes_per_token == per_token
    assert tiny.step_bytes(3, 10) - tiny.step_bytes(1, 0) == 30 * per_token
    matrices = 2 * (128 * 64 + 64 * 64 + 256 * 64 + 64 * 128) + 320 * 64
    assert tiny.step_bytes(1, 0) == 4 * matrices


def test_a_new_cache_is_full_of_noise(tiny: RandomModel) -> None:
    for keys, values in tiny.new_cache(2):
        assert keys.shape == values.shape == (2, 128, 1, 32)
        assert torch.isfinite(keys).all()
        assert keys.std() > 0.5
