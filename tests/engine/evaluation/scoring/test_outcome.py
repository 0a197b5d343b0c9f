"""Outcomes are summed up, and keyed by everything that could change them."""

from types import SimpleNamespace
from typing import Any

from sureact import __version__
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
    own: Any = SimpleNamespace(
        lm=SimpleNamespace(name="m"), quantization="int8", prompt_format="f", peer=None, package="", engine="e1"
    )
    version = f"sureact {__version__}, evaluation 3"
    assert CaseKey.of(own, "c", "p", 3) == CaseKey("m", "int8", "f", "sureact", "c", "p", version, "e1")
    peer: Any = SimpleNamespace(**vars(own) | {"peer": "outlines", "package": "outlines_core 0.2"})
    assert CaseKey.of(peer, "c", "p", 3)[3:] == ("outlines", "c", "p", f"{version}, outlines_core 0.2", "e1")
