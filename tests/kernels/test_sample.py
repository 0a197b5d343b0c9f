import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact_kernels.errors import KernelInputError
from sureact_kernels.sample import sample

ALL = torch.full((1,), -1, dtype=torch.int32)
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


def test_an_empty_mask_is_refused() -> None:
    with pytest.raises(KernelInputError, match="allows no token"):
        draw([1.0], 0.5, torch.zeros(1, dtype=torch.int32))
