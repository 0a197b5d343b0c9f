import pytest

from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.isolation import IsolatedRunner
from sureact.evaluation.conformance.runner import RunnerSettings

EASY = ConformanceCase(file="", name="", schema={"type": "boolean"}, instances=(Instance("true", True),))
LONG = {"type": "string", "minLength": 100_000, "maxLength": 100_000}
HARD = ConformanceCase(file="", name="", schema=LONG, instances=(Instance('"a"', False),))


def test_a_schema_that_takes_too_long_is_refused_and_the_next_one_runs() -> None:
    runner = IsolatedRunner(RunnerSettings(engine="outlines"), time_limit_s=1.5)
    assert runner.judge(EASY).is_passed
    assert runner.peak_memory_bytes > 0
    [finding] = runner.judge(HARD).findings
    assert (finding.reason, finding.detail) == ("compile_error", "Takes longer than 1.5 seconds.")
    assert runner.judge(EASY).is_passed
    assert runner.time(HARD).compile_ms == pytest.approx(1_500)
    runner.close()


def test_a_schema_that_takes_too_much_memory_is_refused() -> None:
    runner = IsolatedRunner(RunnerSettings(engine="outlines"), time_limit_s=60, memory_limit_bytes=200_000_000)
    [finding] = runner.judge(HARD).findings
    assert finding.reason == "compile_error"
    assert "process died" in finding.detail or "Memory" in finding.detail
    runner.close()
