"""A whole conformance run: every case of the files, timed where it is its turn, judged, counted."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sureact.evaluation.conformance.isolation import IsolatedRunner
from sureact.evaluation.conformance.report import ConformanceReport
from sureact.evaluation.conformance.runner import CaseRunner, LocalRunner, RunnerSettings, require_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sureact.evaluation.conformance.case_files import CaseFiles
    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.evaluation.conformance.judging import Finding

MAX_TIMED = {"sureact": 1_000, "llguidance": 1_000, "xgrammar": 1_000, "outlines": 50}
"""Schemas that are timed, evenly spread; outlines takes seconds for each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceRun:
    """The finished counts, and what they were measured with."""

    report: ConformanceReport
    peak_memory_bytes: int
    timing_vocabulary: Literal["model", "bytes"]


def run_conformance(
    files: CaseFiles,
    runner: CaseRunner,
    *,
    reorder: bool = False,
    max_timed: int | None = None,
    on_finding: Callable[[ConformanceCase, Finding], None] = lambda case, finding: None,
    on_case: Callable[[], None] = lambda: None,
) -> ConformanceRun:
    """Run every case once.

    Args:
        files: the cases.
        runner: from `make_runner`, new: what it has met before would shorten its times.
        reorder: whether the keys of instances are first put into the order of their schema.
        max_timed: schemas to time, evenly spread; None for `MAX_TIMED`.
        on_finding: called with each thing that an engine should not have done.
        on_case: called when a case is done.

    Raises:
        ConfigError: a file has changed and is damaged.
    """
    settings = runner.settings
    report = ConformanceReport()
    is_timed = timed_cases(files.num_cases, MAX_TIMED[settings.engine] if max_timed is None else max_timed)
    for case in _all_cases(files, settings, reorder):
        # Before it is judged: an engine may keep what it learns of a schema.
        if is_timed(case):
            report.add_times(runner.time(case))
        outcome = runner.judge(case)
        report.add(case, outcome)
        for finding in outcome.findings:
            on_finding(case, finding)
        on_case()
    return ConformanceRun(
        report=report,
        peak_memory_bytes=runner.peak_memory_bytes,
        timing_vocabulary="model" if settings.timing_model else "bytes",
    )


def make_runner(settings: RunnerSettings) -> CaseRunner:
    """Return what runs the engine: here, or in a process of its own where it may take it down.

    Raises:
        ConfigError: the engine is not installed.
    """
    require_engine(settings)
    return IsolatedRunner(settings) if settings.engine in ("xgrammar", "outlines") else LocalRunner(settings)


def timed_cases(num_cases: int, max_timed: int) -> Callable[[ConformanceCase], bool]:
    """Return a function that says of one case after another whether it is to be timed.

    They are evenly spread, and none has the schema of an earlier case, of which an engine may have kept something.
    """
    seen: set[int] = set()
    num_asked = 0

    def is_timed(case: ConformanceCase) -> bool:
        nonlocal num_asked
        is_its_turn = num_asked * max_timed // num_cases != (num_asked + 1) * max_timed // num_cases
        num_asked += 1
        schema = hash(json.dumps(case.schema))
        is_new = schema not in seen
        seen.add(schema)
        return is_new and (is_its_turn or max_timed >= num_cases)

    return is_timed


def _all_cases(files: CaseFiles, settings: RunnerSettings, reorder: bool) -> Iterator[ConformanceCase]:
    for file in files.files:
        yield from file.read(reorder=reorder, resources=settings.policy.resources)
