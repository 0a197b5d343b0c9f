"""The counts of a conformance run."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sureact.evaluation.conformance.timing import percentiles

if TYPE_CHECKING:
    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.evaluation.conformance.judging import CaseOutcome
    from sureact.evaluation.conformance.timing import CaseTimes


def _doubles() -> array[float]:
    return array("d")


@dataclass(slots=True)
class ConformanceReport:
    """Counts over all cases so far."""

    schemas: int = 0
    passing: int = 0
    """Schemas that compiled and gave every instance its label, or were rightly refused."""
    compile_errors: int = 0
    """Schemas that were refused and should not have been."""
    unsatisfiable: int = 0
    """Schemas without a valid instance that were refused by that name; they pass."""
    guarded_schemas: int = 0
    rejects_valid_schemas: int = 0
    accepts_invalid_schemas: int = 0
    valid_instances: int = 0
    """Of all schemas, also those that did not compile."""
    rejected_valid: int = 0
    """Of the schemas that compiled."""
    invalid_instances: int = 0
    accepted_invalid: int = 0
    late_vetoes: int = 0
    """Invalid instances that only the judge of the finished text refused."""
    guarded_invalid_instances: int = 0
    timed_schemas: int = 0
    compile_ms: array[float] = field(default_factory=_doubles)
    mask_us: array[float] = field(default_factory=_doubles)

    def add(self, case: ConformanceCase, outcome: CaseOutcome) -> None:
        """Count a case."""
        num_valid = sum(instance.is_valid for instance in case.instances)
        reasons = [finding.reason for finding in outcome.findings]
        self.schemas += 1
        self.passing += outcome.is_passed
        self.compile_errors += "compile_error" in reasons
        self.unsatisfiable += outcome.is_unsatisfiable
        self.guarded_schemas += outcome.is_guarded
        self.rejects_valid_schemas += "rejects_valid" in reasons
        self.accepts_invalid_schemas += "accepts_invalid" in reasons
        self.valid_instances += num_valid
        self.rejected_valid += reasons.count("rejects_valid")
        self.invalid_instances += len(case.instances) - num_valid
        self.accepted_invalid += reasons.count("accepts_invalid")
        self.late_vetoes += reasons.count("late_veto")
        self.guarded_invalid_instances += len(case.instances) - num_valid if outcome.is_guarded else 0

    def add_times(self, times: CaseTimes) -> None:
        """Count the times of a case."""
        if times.compile_ms is not None:
            self.timed_schemas += 1
            self.compile_ms.append(times.compile_ms)
            self.mask_us.extend(times.mask_us)

    @property
    def passing_percent(self) -> float:
        """Passing schemas in percent."""
        return 100 * self.passing / self.schemas if self.schemas else 100.0

    def as_dict(self) -> dict[str, object]:
        """Return what `sureact conformance --json` writes."""
        return {
            "schemas": self.schemas,
            "passing": self.passing,
            "compile_errors": self.compile_errors,
            "guarded_schemas": self.guarded_schemas,
            "rejects_valid_schemas": self.rejects_valid_schemas,
            "accepts_invalid_schemas": self.accepts_invalid_schemas,
            "valid_instances": self.valid_instances,
            "rejected_valid": self.rejected_valid,
            "invalid_instances": self.invalid_instances,
            "accepted_invalid": self.accepted_invalid,
            "late_vetoes": self.late_vetoes,
            "compile_ms": percentiles(self.compile_ms),
            "mask_us": percentiles(self.mask_us),
            "passing_percent": self.passing_percent,
            "unsatisfiable": self.unsatisfiable,
            "guarded_invalid_instances": self.guarded_invalid_instances,
            "timed_schemas": self.timed_schemas,
        }
