"""The cases collected from public bug reports: every engine failed some of them."""

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.errors import ConfigError, ConstraintCompileError, UnsupportedSchemaError

Spells = Callable[[Constraint, str], bool]

CASES_FILE = Path(__file__).parents[4] / "shared" / "data" / "constraint_cases.json"


def constraint_for(case: dict[str, Any]) -> Constraint:
    match case["kind"]:
        case "choice":
            return choice(case["schema"])
        case "regex":
            return regex(case["schema"])
        case _:
            return json_schema(case["schema"], whitespace="any")


def outcome(case: dict[str, Any], spells: Spells) -> str:
    """Return `passed`, `refused`, or what went wrong."""
    may_refuse = case.get("compile_error_ok") or case.get("expect_compile_error")
    try:
        constraint = constraint_for(case)
        spells(constraint, "")  # compiles
        rejected = [text for text in case["valid"] if not spells(constraint, text)]
    except (ConfigError, ConstraintCompileError, UnsupportedSchemaError) as error:
        return "refused" if may_refuse else f"{case['id']}: {error}"
    if case.get("expect_compile_error"):
        return f"{case['id']}: compiled"
    forbidden = case["invalid"] + case.get("invalid_syntaxlevel", []) + case.get("invalid_hard", [])
    accepted = [text for text in forbidden if can_be_written(text) and spells(constraint, text)]
    return f"{case['id']}: rejects {rejected}, accepts {accepted}" if rejected or accepted else "passed"


def can_be_written(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.skipif(not CASES_FILE.exists(), reason=f"{CASES_FILE.name} is not beside this checkout")
def test_every_collected_case_passes_or_is_refused_aloud(spells: Spells, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [outcome(case, spells) for case in json.loads(CASES_FILE.read_text(encoding="utf-8"))]
    tally = Counter(outcomes)
    with capsys.disabled():
        sys.stdout.write(f"\n{len(outcomes)} cases: {tally['passed']} passed, {tally['refused']} refused\n")
    assert tally["passed"] + tally["refused"] == len(outcomes), sorted(set(outcomes) - {"passed", "refused"})


def test_a_text_is_its_own_value_unless_a_constraint_says_otherwise() -> None:
    class Anything(Constraint):
        @property
        def cache_key(self) -> str:
            return "anything"

        def compile(self, vocabulary: object) -> Any:
            raise NotImplementedError

    assert Anything().parse("text") == "text"
