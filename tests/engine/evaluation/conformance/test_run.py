from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.conformance.case_files import opened_cases
from sureact.evaluation.conformance.cases import ConformanceCase
from sureact.evaluation.conformance.isolation import IsolatedRunner
from sureact.evaluation.conformance.judging import Finding
from sureact.evaluation.conformance.run import make_runner, run_conformance, timed_cases
from sureact.evaluation.conformance.runner import LocalRunner, RunnerSettings

Writer = Callable[..., Path]

FILE = {
    "schema": {"properties": {"a": {"type": "integer"}, "b": {}}, "additionalProperties": False},
    "tests": [{"data": {"b": 1, "a": 1}, "valid": True}, {"data": {"a": "x"}, "valid": False}],
}


def case_of(schema: object) -> ConformanceCase:
    return ConformanceCase(file="", name="", schema=schema, instances=())


def test_every_case_is_counted_and_every_finding_told(write: Writer) -> None:
    write("a.json", FILE)
    write("b.json", [{"description": "none", "schema": False, "tests": [{"data": 1, "valid": False}]}])
    told: list[tuple[str, str]] = []
    num_cases = 0

    def on_finding(case: ConformanceCase, finding: Finding) -> None:
        told.append((case.file, finding.reason))

    def on_case() -> None:
        nonlocal num_cases
        num_cases += 1

    with opened_cases(write("c.json", FILE)) as files:
        run = run_conformance(files, make_runner(RunnerSettings()), on_finding=on_finding, on_case=on_case)
        report = run.report
        assert (num_cases, report.schemas, report.passing, report.unsatisfiable) == (3, 3, 1, 1)
        assert told == [("a.json", "rejects_valid"), ("c.json", "rejects_valid")]
        assert (report.valid_instances, report.invalid_instances) == (2, 3)
        # The schema of c.json was met in a.json, and that of b.json does not compile.
        assert report.timed_schemas == 1
        assert run.timing_vocabulary == "bytes"
        assert run.peak_memory_bytes > 0
        assert run_conformance(files, make_runner(RunnerSettings()), reorder=True).report.passing == 3


def test_timed_cases_are_spread_evenly() -> None:
    is_timed = timed_cases(10, 3)
    assert [is_timed(case_of(index)) for index in range(10)].count(True) == 3
    is_timed = timed_cases(4, 1_000)
    assert [is_timed(case_of(schema)) for schema in (1, 2, 1, 3)] == [True, True, False, True]
    is_timed = timed_cases(4, 0)
    assert not any(is_timed(case_of(index)) for index in range(4))


@pytest.mark.skipif(find_spec("xgrammar") is not None, reason="xgrammar is installed")
def test_a_peer_that_is_missing_is_refused_before_anything_runs() -> None:
    with pytest.raises(ConfigError, match="xgrammar"):
        make_runner(RunnerSettings(engine="xgrammar"))


def test_engines_that_may_take_a_process_down_get_their_own() -> None:
    assert isinstance(make_runner(RunnerSettings(engine="llguidance")), LocalRunner)
    assert isinstance(make_runner(RunnerSettings(engine="outlines")), IsolatedRunner)
