"""Repetition is found exactly where it is, and legitimate text is none."""

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.repetition import (
    CHECK_EVERY,
    MAX_PERIOD,
    MIN_REPEATS,
    Repetition,
    find_repetition,
    repetition_now,
)
from sureact.sampling_params import RunawayLimits

MIN_TOKENS = RunawayLimits().repeated_tokens or 0


def by_brute_force(token_ids: list[int], min_tokens: int) -> Repetition | None:
    """The shortest unit that the text ends in, by comparing each token with that a period before."""
    for period in range(1, MAX_PERIOD + 1):
        start = len(token_ids)
        while start > period and token_ids[start - 1] == token_ids[start - 1 - period]:
            start -= 1
        length = len(token_ids) - max(start - period, 0)
        if start < len(token_ids) and length >= max(min_tokens, MIN_REPEATS * period):
            return Repetition(period, len(token_ids) - length)
    return None


@given(
    prefix=st.lists(st.integers(0, 2), max_size=20),
    unit=st.lists(st.integers(0, 2), min_size=1, max_size=12),
    num_repeats=st.integers(0, 12),
    suffix=st.lists(st.integers(0, 2), max_size=3),
    min_tokens=st.integers(1, 40),
)
def test_it_equals_brute_force(
    prefix: list[int], unit: list[int], num_repeats: int, suffix: list[int], min_tokens: int
) -> None:
    token_ids = prefix + unit * num_repeats + suffix
    assert find_repetition(token_ids, min_tokens) == by_brute_force(token_ids, min_tokens)


@given(unit=st.lists(st.integers(0, 9), min_size=1, max_size=MAX_PERIOD), seed=st.integers())
def test_what_repeats_for_good_is_found_soon(unit: list[int], seed: int) -> None:
    token_ids = random.Random(seed).choices(range(100), k=30)
    most = max(MIN_TOKENS, MIN_REPEATS * len(unit)) + CHECK_EVERY
    for index in range(30 + most):
        if repetition_now(token_ids, MIN_TOKENS):
            return
        token_ids.append(unit[index % len(unit)])
    pytest.fail(f"{unit} is not found within {most} tokens")


TABLE = "| name | count |\n|------|-------|\n" + "".join(f"| item {i} | {i * 7} |\n" for i in range(40))
ART = "+" + "-" * 78 + "+\n|" + " " * 78 + "|\n|" + "#" * 78 + "|\n+" + "=" * 78 + "+\n"
BOARD = "".join(f"{8 - row} " + ". " * 8 + "\n" for row in range(8))
BASE64 = base64.b64encode(bytes(random.Random(0).randbytes(600))).decode()
NUMBERS = ", ".join(["10000000000000000000", "0.00000000000000000001", "1e-20"] * 3)
CODE = "".join(f"    row[{i}] = grid[{i}][0]\n" for i in range(30))


@pytest.mark.parametrize(
    "text", [TABLE, ART, BOARD, BASE64, NUMBERS, CODE], ids=["table", "art", "board", "base64", "numbers", "code"]
)
def test_legitimate_text_is_left_alone_even_spelled_character_by_character(text: str) -> None:
    token_ids: list[int] = []
    for byte in text.encode():
        token_ids.append(byte)
        assert repetition_now(token_ids, MIN_TOKENS) is None, text[: len(token_ids)]


@pytest.mark.parametrize("text", ["", "a", "ab" * 20])
def test_short_text_is_no_repetition(text: str) -> None:
    assert find_repetition(list(text.encode()), MIN_TOKENS) is None
