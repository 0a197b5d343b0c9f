"""Every engine over the same cases: each in a process of its own, under the same limits, taking turns."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sureact.errors import ConfigError
from sureact.evaluation.conformance.isolation import IsolatedRunner
from sureact.evaluation.conformance.report import ConformanceReport
from sureact.evaluation.conformance.run import MAX_TIMED, timed_cases
from sureact.evaluation.conformance.runner import RunnerSettings, require_engine
from sureact.evaluation.conformance.schema_engine import EngineName, SchemaPolicy
from sureact.evaluation.conformance.timing import CaseTimes, percentiles

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sureact.evaluation.conformance.case_files import CaseFiles
    from sureact.evaluation.conformance.cases import ConformanceCase

_OURS, _RAW = "sureact", "llguidance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is compared, and under which limits."""

    engines: tuple[EngineName, ...]
    sample: int | None = None
    key_order: Literal["schema", "any"] = "schema"
    reorder: bool = False
    time_limit_s: float = 10.0
    timing_model: Path | None = None


@dataclass(slots=True)
class _Contestant:
    """An engine with its counts so far."""

    name: EngineName
    runner: IsolatedRunner
    is_timed: Callable[[ConformanceCase], bool]
    report: ConformanceReport = field(default_factory=ConformanceReport)

    def meet(self, case: ConformanceCase) -> CaseTimes:
        """Time a case if it is its turn, judge it, count it, and return the times."""
        times = self.runner.time(case) if self.is_timed(case) else CaseTimes()
        self.report.add_times(times)
        self.report.add(case, self.runner.judge(case))
        return times

    def row(self) -> dict[str, object]:
        """Return the finished counts."""
        counts = self.report.as_dict()
        figures = {
            f"{what}_{name}": value
            for what, values in (
                ("compile", percentiles(self.report.compile_ms)),
                ("mask", percentiles(self.report.mask_us)),
            )
            for name, value in values.items()
        }
        memory = round(self.runner.peak_memory_bytes / 1e6)
        return {"engine": self.name, "reason": None, **counts, **figures, "peak_memory_mb": memory}


def num_compared(files: CaseFiles, settings: Settings) -> int:
    """Return how many of the cases every engine meets."""
    return min(settings.sample or files.num_cases, files.num_cases)


def compare(
    files: CaseFiles, settings: Settings, *, on_case: Callable[[EngineName], None] = lambda engine: None
) -> dict[str, object]:
    """Run the cases on every engine; one that is not installed gets a row of nothing with the reason.

    Args:
        files: the cases.
        settings: what is compared.
        on_case: called when an engine is done with a case.
    """
    num_cases = num_compared(files, settings)
    with ExitStack() as stack:
        contestants: list[_Contestant] = []
        missing: list[dict[str, object]] = []
        for name in settings.engines:
            runner_settings = _runner_settings(name, settings)
            try:
                require_engine(runner_settings)
            except ConfigError as error:
                missing.append({"engine": name, "reason": str(error)})
                continue
            runner = stack.enter_context(closing(IsolatedRunner(runner_settings, time_limit_s=settings.time_limit_s)))
            contestants.append(_Contestant(name, runner, timed_cases(num_cases, MAX_TIMED[name])))
        pairs = _take_turns(contestants, _sampled(files, num_cases, settings.reorder), on_case)
        rows = [contestant.row() for contestant in contestants]
    return {"schemas": num_cases, "engines": rows + missing, "beside_raw": _beside_raw(pairs)}


def _runner_settings(name: EngineName, settings: Settings) -> RunnerSettings:
    policy = SchemaPolicy(key_order=settings.key_order) if name == _OURS else SchemaPolicy()
    return RunnerSettings(engine=name, policy=policy, timing_model=settings.timing_model)


def _sampled(files: CaseFiles, num_cases: int, reorder: bool) -> Iterator[ConformanceCase]:
    index = 0
    for file in files.files:
        for case in file.read(reorder=reorder):
            if index * num_cases // files.num_cases != (index + 1) * num_cases // files.num_cases:
                yield case
            index += 1


def _take_turns(
    contestants: list[_Contestant], cases: Iterator[ConformanceCase], on_case: Callable[[EngineName], None]
) -> list[tuple[CaseTimes, CaseTimes]]:
    """Let every engine meet every case, each time in another order; return the times of ours and raw llguidance."""
    pairs: list[tuple[CaseTimes, CaseTimes]] = []
    for index, case in enumerate(cases):
        turn = index % len(contestants) if contestants else 0
        times: dict[EngineName, CaseTimes] = {}
        for contestant in contestants[turn:] + contestants[:turn]:
            times[contestant.name] = contestant.meet(case)
            on_case(contestant.name)
        ours, raw = times.get(_OURS), times.get(_RAW)
        if ours and raw and ours.compile_ms is not None and raw.compile_ms is not None:
            pairs.append((ours, raw))
    return pairs


def _beside_raw(pairs: list[tuple[CaseTimes, CaseTimes]]) -> dict[str, object] | None:
    """Return our times as ratios to those of raw llguidance, on the schemas that both compile."""
    if not pairs:
        return None
    ours, raw = (percentiles(times.compile_ms or 0.0 for times in side) for side in zip(*pairs, strict=True))
    our_masks, raw_masks = (
        percentiles(time for times in side for time in times.mask_us) for side in zip(*pairs, strict=True)
    )
    return {
        "schemas": len(pairs),
        "compile_p50_ratio": _ratio(ours["p50"], raw["p50"]),
        "compile_p99_ratio": _ratio(ours["p99"], raw["p99"]),
        "mask_p50_difference_us": (our_masks["p50"] or 0.0) - (raw_masks["p50"] or 0.0),
        "mask_p50_us": {"ours": our_masks["p50"], "raw": raw_masks["p50"]},
    }


def _ratio(ours: float | None, raw: float | None) -> Any:
    return ours / raw if ours is not None and raw else None
