"""The project's own schemas: what their instances are labeled is what jsonschema says, and all of them pass."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from jsonschema.validators import Draft202012Validator, validator_for

from sureact.evaluation.conformance.case_files import opened_cases
from sureact.evaluation.conformance.run import make_runner, run_conformance
from sureact.evaluation.conformance.runner import RunnerSettings
from sureact.evaluation.conformance.schema_engine import SchemaPolicy

FOLDER = Path(__file__).parent / "data" / "schemas"
FILES = sorted(FOLDER.glob("*.json"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_label_is_right(path: Path) -> None:
    case: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    draft: Any = validator_for(case["schema"], default=Draft202012Validator)
    draft.check_schema(case["schema"])
    judge = draft(case["schema"], format_checker=draft.FORMAT_CHECKER)
    assert case["tests"]
    for test in case["tests"]:
        assert judge.is_valid(test["data"]) == test["valid"], test["description"]


@pytest.mark.parametrize(("key_order", "reorder"), [("any", False), ("schema", True)])
def test_every_schema_passes(key_order: Literal["any", "schema"], reorder: bool) -> None:
    missed: list[tuple[str, str, str | None]] = []
    settings = RunnerSettings(policy=SchemaPolicy(key_order=key_order))
    with opened_cases(FOLDER) as files:
        run = run_conformance(
            files,
            make_runner(settings),
            reorder=reorder,
            max_timed=0,
            on_finding=lambda case, finding: missed.append((case.file, finding.reason, finding.instance)),
        )
    assert missed == []
    assert run.report.passing == run.report.schemas == len(FILES)
