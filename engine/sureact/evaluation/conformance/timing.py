"""How long an engine takes to compile a case, and to compute the masks along its first valid instance."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from sureact.errors import SureactError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sureact.evaluation.conformance.cases import ConformanceCase
    from sureact.evaluation.conformance.schema_engine import SchemaEngine
    from sureact.evaluation.conformance.vocabularies import CaseVocabulary

MAX_TIMED_TOKENS = 1_000
"""Masks timed along one instance: enough for a percentile, and no long text outweighs all others."""


@dataclass(frozen=True, slots=True)
class CaseTimes:
    """Times of one case; without any where it does not compile."""

    compile_ms: float | None = None
    mask_us: tuple[float, ...] = ()


def time_case(engine: SchemaEngine, case: ConformanceCase, vocabulary: CaseVocabulary) -> CaseTimes:
    """Compile a case, and walk the canonical tokens of its first valid instance as far as they are allowed.

    The engine must not have met the schema before: what it keeps of a schema would shorten the time.
    """
    start = perf_counter()
    try:
        compiled = engine.compile(case)
    except SureactError:
        return CaseTimes()
    compile_ms = (perf_counter() - start) * 1e3
    text = next((instance.text for instance in case.instances if instance.is_valid), None)
    if text is None:
        return CaseTimes(compile_ms)
    walk = compiled.new_walk()
    mask_us: list[float] = []
    try:
        for token_id in vocabulary.encode(text)[:MAX_TIMED_TOKENS]:
            start = perf_counter()
            walk.fill_mask()
            mask_us.append((perf_counter() - start) * 1e6)
            if not walk.accept([token_id]):
                break
    except SureactError:  # a mask without a token: the outcome of the case says so
        pass
    return CaseTimes(compile_ms, tuple(mask_us))


def percentiles(values: Iterable[float]) -> dict[str, float | None]:
    """Return median, 99th percentile (nearest rank) and maximum; None each where there are no values."""
    ordered = sorted(values)
    if not ordered:
        return {"p50": None, "p99": None, "max": None}
    return {
        "p50": ordered[(len(ordered) - 1) // 2],
        "p99": ordered[max(0, -(-99 * len(ordered) // 100) - 1)],
        "max": ordered[-1],
    }
