from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.judging import CaseOutcome, Finding
from sureact.evaluation.conformance.report import ConformanceReport
from sureact.evaluation.conformance.timing import CaseTimes

CASE = ConformanceCase(
    file="", name="", schema={}, instances=(Instance("1", True), Instance("2", False), Instance("3", False))
)
REQUIRED_KEYS = [
    "schemas",
    "passing",
    "compile_errors",
    "guarded_schemas",
    "rejects_valid_schemas",
    "accepts_invalid_schemas",
    "valid_instances",
    "rejected_valid",
    "invalid_instances",
    "accepted_invalid",
    "late_vetoes",
    "compile_ms",
    "mask_us",
]


def test_each_finding_counts_once_and_its_schema_once() -> None:
    report = ConformanceReport()
    wrong = (
        Finding("rejects_valid", "1", ""),
        Finding("accepts_invalid", "2", ""),
        Finding("accepts_invalid", "3", ""),
    )
    late = (Finding("late_veto", "2", ""),)
    report.add(CASE, CaseOutcome(is_compiled=True, is_passed=False, findings=wrong))
    report.add(CASE, CaseOutcome(is_compiled=True, is_passed=True, is_guarded=True, findings=late))
    report.add(CASE, CaseOutcome(is_compiled=False, is_passed=False, findings=(Finding("compile_error", None, ""),)))
    report.add(CASE, CaseOutcome(is_compiled=False, is_passed=True, is_unsatisfiable=True))
    report.add_times(CaseTimes(1.0, (2.0, 4.0)))
    report.add_times(CaseTimes())
    assert report.as_dict() == {
        "schemas": 4,
        "passing": 2,
        "compile_errors": 1,
        "guarded_schemas": 1,
        "rejects_valid_schemas": 1,
        "accepts_invalid_schemas": 1,
        "valid_instances": 4,
        "rejected_valid": 1,
        "invalid_instances": 8,
        "accepted_invalid": 2,
        "late_vetoes": 1,
        "compile_ms": {"p50": 1.0, "p99": 1.0, "max": 1.0},
        "mask_us": {"p50": 2.0, "p99": 4.0, "max": 4.0},
        "passing_percent": 50.0,
        "unsatisfiable": 1,
        "guarded_invalid_instances": 2,
        "timed_schemas": 1,
    }


def test_the_promised_keys_come_first_and_in_order() -> None:
    assert list(ConformanceReport().as_dict())[: len(REQUIRED_KEYS)] == REQUIRED_KEYS


def test_nothing_at_all_passes() -> None:
    assert ConformanceReport().passing_percent == 100
