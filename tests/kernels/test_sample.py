import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact_kernels.errors import KernelInputError
from sureact_kernels.sample import sample

ALL = torch.full((1,), -1, dtype=torch.int32)
INFINITE = [[0.0, math.inf, -math.inf, math.inf], [-math.inf] * 4, [3e38, 3e38, 0.0, -3e38]]
UNIFORM = st.floats(0, 1, exclude_max=True)


def draw(logits: list[float], uniform: float, mask: torch.Tensor = ALL, **settings: float) -> int:
    padded = torch.tensor(logits + [float("-inf")] * (32 - len(logits)))
    return sample(padded, mask, uniform, **{"temperature": 1.0, **settings})  # pyright: ignore[reportArgumentType]


def test_tokens_come_as_often_as_their_probability_says() -> None:
    logits = torch.tensor([0.5, 0.3, 0.2]).log().tolist()
    draws = [draw(logits, (i + 0.5) / 1000) for i in range(1000)]
    assert [draws.count(i) for i in range(3)] == [500, 300, 200]


@given(UNIFORM, st.lists(st.integers(-50, 50).map(lambda i: i / 10), min_size=1, max_size=20), st.integers(1, 5))
def test_top_k_draws_among_the_k_likeliest(uniform: float, logits: list[float], top_k: int) -> None:
    ranked = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    assert draw(logits, uniform, top_k=top_k) in ranked[:top_k]


@given(UNIFORM)
def test_top_p_keeps_the_token_that_crosses_it_and_drops_the_rest(uniform: float) -> None:
    logits = torch.tensor([0.5, 0.3, 0.2]).log().tolist()
    assert draw(logits, uniform, top_p=0.6) in (0, 1)
    assert draw(logits, uniform, top_p=0.4) == 0


@given(UNIFORM)
def test_min_p_drops_what_is_much_less_likely_than_the_best(uniform: float) -> None:
    logits = torch.tensor([0.6, 0.35, 0.05]).log().tolist()
    assert draw(logits, uniform, min_p=0.5) in (0, 1)


@given(UNIFORM)
def test_masked_tokens_never_come(uniform: float) -> None:
    assert draw([9.0, 1.0, 8.0], uniform, torch.tensor([0b110], dtype=torch.int32)) in (1, 2)


def test_a_low_temperature_is_greedy() -> None:
    assert draw([1.0, 1.2, 1.1], 0.999, temperature=1e-4) == 1


@given(UNIFORM)
def test_the_likeliest_token_always_stays(uniform: float) -> None:
    assert draw([0.0, 1.0, 1.0, 0.5], uniform, top_p=0.0) == 1
    assert draw([0.0, 1.0, 1.0, 0.5], uniform, min_p=2.0) in (1, 2)
    assert draw([0.0, 1.0, 1.0, 0.5], uniform, min_p=2.0, top_p=0.0) == 1


@pytest.mark.parametrize("values", INFINITE)
def test_the_largest_share_alike_where_they_are_infinite(values: list[float]) -> None:
    """Or become so by the temperature."""
    logits, mask = torch.tensor(values), torch.tensor([0b1111], dtype=torch.int32)
    largest = [i for i, value in enumerate(values) if value == max(values)]

    def draws(**settings: Any) -> list[int]:
        return [sample(logits, mask, (i + 0.5) / 8, temperature=0.1, **settings) for i in range(8)]

    assert draws() == draws(min_p=0.5) == sorted(largest * (8 // len(largest)))
    assert draws(top_k=2) == sorted(largest[:2] * 4)
    assert draws(top_p=0.5) == sorted(largest[: len(largest) // 2] * (16 // len(largest)))


def test_a_mask_that_allows_nothing_is_refused() -> None:
    with pytest.raises(KernelInputError, match="allows no token"):
        draw([1.0], 0.5, torch.zeros(1, dtype=torch.int32))


def test_bits_beyond_the_last_logit_allow_nothing() -> None:
    everything = torch.full((2,), -1, dtype=torch.int32)
    assert sample(torch.zeros(40), everything, 0.9999, temperature=1.0) == 39
    with pytest.raises(KernelInputError, match="allows no token"):
        sample(torch.zeros(40), torch.tensor([0, 256], dtype=torch.int32), 0.5, temperature=1.0)
