"""A suite is a list of cases; running it gives an outcome per case, each kept on disk as soon as it is there."""

from __future__ import annotations

import hashlib
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from sureact.errors import SureactError
from sureact.evaluation.scoring.outcome import CaseKey, Outcome

if TYPE_CHECKING:
    from sureact.evaluation.scoring.contender import Contender
    from sureact.evaluation.scoring.outcome_file import OutcomeFile

_T = TypeVar("_T")


class Case(ABC):
    """A question with a right answer."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Name of the case, once in its suite."""

    @property
    @abstractmethod
    def category(self) -> str:
        """Category of the suite."""

    @property
    @abstractmethod
    def version(self) -> int:
        """Version of the suite: outcomes of another one are not those that a run would give today."""

    @abstractmethod
    def prompt(self, contender: Contender) -> str:
        """Return what a contender is asked, whole: its outcome is kept for this text only."""

    @abstractmethod
    def run(self, contender: Contender) -> Outcome:
        """Ask a contender and judge it; `seconds` is set by the caller.

        Raises:
            SureactError: the contender could not answer; that is wrong, and not valid.
        """


@dataclass(frozen=True, slots=True)
class CaseDone:
    """Progress: a case has its outcome."""

    case: Case
    outcome: Outcome
    is_kept: bool
    """Whether it is of an earlier run."""


def case_keys(cases: Sequence[Case], contender: Contender) -> list[CaseKey]:
    """Return what a contender's outcomes of the cases are kept by."""
    return [CaseKey.of(contender, case.id, _digest(case, contender), case.version) for case in cases]


def run_cases(
    cases: Sequence[Case],
    contender: Contender,
    file: OutcomeFile,
    on_case: Callable[[CaseDone], None],
    keys: Sequence[CaseKey] | None = None,
    concurrency: int = 1,
) -> list[Outcome]:
    """Return the outcomes of a contender in the order of the cases; those in the file are not run again.

    An interrupt ends the run; what is finished stays in the file.

    Args:
        cases: what to run.
        contender: who runs it.
        file: of the outcomes.
        on_case: told of each case that is done, on the caller's thread; the kept ones come first.
        keys: those of `case_keys`, for who has them.
        concurrency: most cases that run at once, decoded together.
    """
    keys = keys or case_keys(cases, contender)
    outcomes = {index: outcome for index, key in enumerate(keys) if (outcome := file.get(key))}
    for index, outcome in outcomes.items():
        on_case(CaseDone(cases[index], outcome, is_kept=True))
    left = [index for index in range(len(cases)) if index not in outcomes]
    for index, outcome in _run_left(cases, left, contender, concurrency):
        file.add(keys[index], outcome)
        outcomes[index] = outcome
        on_case(CaseDone(cases[index], outcome, is_kept=False))
    return [outcomes[index] for index in range(len(cases))]


def _run_left(
    cases: Sequence[Case], left: Sequence[int], contender: Contender, concurrency: int
) -> Iterator[tuple[int, Outcome]]:
    """Run cases; yield the index and the outcome of each when it is done."""
    if concurrency == 1:  # on this thread, which an interrupt reaches at once
        yield from ((index, _run(cases[index], contender)) for index in left)
        return
    pool = ThreadPoolExecutor(concurrency, "sureact-eval")
    try:
        running = {pool.submit(_run, cases[index], contender): index for index in left}
        for future in as_completed(running):
            yield running[future], future.result()
    finally:
        # What still runs after an interrupt ends with the model that it runs on.
        pool.shutdown(wait=False, cancel_futures=True)


def sample(cases: Mapping[str, Sequence[_T]], *, per_category: int | None, limit: int | None, seed: int) -> list[_T]:
    """Choose cases at random, the same ones for the same seed: a smaller choice is part of a larger one.

    Args:
        cases: the cases of each category.
        per_category: most of each category; None for all.
        limit: most altogether, as evenly over the categories as they go; counts instead of `per_category`.
        seed: of the choice.

    Returns:
        The chosen ones, category by category in the order of the suite.
    """
    shuffled = {name: random.Random(f"{seed}:{name}").sample(range(len(of)), len(of)) for name, of in cases.items()}
    counts = dict.fromkeys(cases, 0)
    if limit is None:
        counts = {name: min(len(of), per_category or len(of)) for name, of in cases.items()}
    else:
        total = min(limit, sum(map(len, cases.values())))
        while sum(counts.values()) < total:
            for name, of in cases.items():
                if counts[name] < len(of) and sum(counts.values()) < total:
                    counts[name] += 1
    return [of[index] for name, of in cases.items() for index in sorted(shuffled[name][: counts[name]])]


def _run(case: Case, contender: Contender) -> Outcome:
    start = time.perf_counter()
    try:
        outcome = case.run(contender)
    except SureactError as error:  # one case must not end the others
        outcome = Outcome(is_right=False, is_valid=False, fault=f"{type(error).__name__}: {error}")
    return replace(outcome, seconds=round(time.perf_counter() - start, 3))


def _digest(case: Case, contender: Contender) -> str:
    try:
        prompt = case.prompt(contender)
    except SureactError as error:
        prompt = str(error)
    return hashlib.sha256(prompt.encode(errors="backslashreplace")).hexdigest()[:16]
