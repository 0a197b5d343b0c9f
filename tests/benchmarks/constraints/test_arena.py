from typing import Any

import pytest
from benchmarks.constraints.adversary import STRATEGIES
from benchmarks.constraints.arena import Arena, Opponent

from sureact.constraints.constraint import Constraint
from sureact.constraints.json_schema import JsonSchemaConstraint, json_schema
from sureact.errors import ConstraintError, InternalError

UNIQUE = {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True}


def arena(**settings: int) -> Arena:
    return Arena(**{"max_tokens": 40, "max_rollbacks": 20, "seed": 1, **settings})


def counts(played: Arena) -> dict[str, Any]:
    report = played.report()
    return {name: report[name] for name in ("texts", "valid", "cut", "budget_errors", "no_text_errors", "violations")}


def test_texts_that_finish_and_are_valid_are_counted_as_such() -> None:
    played = arena()
    played.play(Opponent("unique", json_schema(UNIQUE), strategy) for strategy in STRATEGIES * 8)
    assert counts(played) == {**dict.fromkeys(counts(played), 0), "texts": 40, "valid": 40}
    report = played.report()
    assert report["vetoes"] > 0
    assert report["slowest_step_ms"] > 0


def test_texts_that_max_tokens_cuts_are_counted_as_such() -> None:
    played = arena()
    played.play([Opponent("endless", json_schema({"type": "string", "minLength": 1000}), "close")])
    assert counts(played)["cut"] == 1


@pytest.mark.parametrize("error", [ConstraintError("late"), InternalError("invalid"), ZeroDivisionError("bug")])
def test_whatever_the_judge_of_a_finished_text_says_is_a_violation(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Constraint, text: str) -> object:
        raise error

    monkeypatch.setattr(JsonSchemaConstraint, "parse", refuse)
    played = arena()
    played.play([Opponent("refused", json_schema({"const": "a"}), "random")])
    assert counts(played)["violations"] == 1
    assert played.report()["violation_list"] == [["refused", "random", f"{type(error).__name__}: {error}", '"a"']]


def test_refused_constraints_are_noted_and_not_played() -> None:
    played = arena()
    assert played.compiled("nothing", json_schema({"enum": []})) is None
    assert played.compiled("something", json_schema({})) is not None
    assert played.report()["refused"] == {
        "nothing": "Not a valid JSON schema at /enum: the list is empty, so that no value satisfies it."
    }
