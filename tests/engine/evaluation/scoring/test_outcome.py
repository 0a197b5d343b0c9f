"""Outcomes are summed up, and keyed by everything that could change them."""

from types import SimpleNamespace
from typing import Any, cast

from sureact.evaluation.scoring.outcome import CaseKey, Outcome, Score


def test_outcomes_are_summed_up() -> None:
    outcomes = [
        Outcome(is_right=True, is_valid=True, num_tokens=3, seconds=0.5),
        Outcome(is_right=False, is_valid=True, num_tokens=4, seconds=0.25),
        Outcome(is_right=False, is_valid=False),
    ]
    assert Score.of(outcomes).as_dict() == {
        "n": 3,
        "correct": 1,
        "accuracy": 0.333333,
        "valid": 2,
        "tokens": 7,
        "seconds": 0.75,
    }
    assert Score.of([]).accuracy == 0


def test_a_key_names_the_peer_or_sureact() -> None:
    contender = SimpleNamespace(lm=SimpleNamespace(name="m"), quantization="int8", prompt_format="f", peer=None)
    assert CaseKey.of(cast("Any", contender), "c", "p") == CaseKey("m", "int8", "f", "sureact", "c", "p")
    contender.peer = "outlines"
    assert CaseKey.of(cast("Any", contender), "c", "p").peer == "outlines"
