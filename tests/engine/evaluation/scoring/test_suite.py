"""Cases run once each, in order, and are chosen the same way each time."""

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Barrier, Event
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact import __version__
from sureact.errors import ConstraintCompileError
from sureact.evaluation.scoring.contender import Contender
from sureact.evaluation.scoring.outcome import Outcome
from sureact.evaluation.scoring.outcome_file import OutcomeFile
from sureact.evaluation.scoring.suite import Case, CaseDone, case_keys, run_cases, sample


def right() -> Outcome:
    return Outcome(is_right=True, is_valid=True, num_tokens=1)


class FakeCase(Case):
    def __init__(self, name: str, answer: Callable[[], Outcome] = right) -> None:
        self.asked = "prompt"
        self.runs: list[str] = []
        self.version_number = 1
        self._name = name
        self._answer = answer

    @property
    def id(self) -> str:
        return self._name

    @property
    def category(self) -> str:
        return "fake"

    @property
    def version(self) -> int:
        return self.version_number

    def prompt(self, contender: Contender) -> str:
        return self.asked

    def run(self, contender: Contender) -> Outcome:
        self.runs.append(self.id)
        return self._answer()


CONTENDER: Any = SimpleNamespace(
    lm=SimpleNamespace(name="m"), quantization="int8", prompt_format="f", peer=None, package="", engine="e1"
)
CASES = {"a": list("abcdefgh"), "b": list("ij"), "c": list("klmnop")}


def ignore(done: CaseDone) -> None:
    pass


@pytest.fixture
def file(tmp_path: Path) -> Iterator[OutcomeFile]:
    with_file = OutcomeFile(tmp_path / "r.jsonl")
    yield with_file
    with_file.close()


def test_what_is_kept_is_not_run_again(file: OutcomeFile) -> None:
    cases = [FakeCase("1"), FakeCase("2")]
    first = run_cases(cases, CONTENDER, file, ignore)
    told: list[CaseDone] = []
    assert run_cases(cases, CONTENDER, file, told.append) == first
    assert [case.runs for case in cases] == [["1"], ["2"]]
    assert [done.is_kept for done in told] == [True, True]
    assert all(outcome.seconds >= 0 for outcome in first)


def test_another_prompt_is_another_case(file: OutcomeFile) -> None:
    case = FakeCase("1")
    run_cases([case], CONTENDER, file, ignore)
    case.asked = "changed"
    run_cases([case], CONTENDER, file, ignore)
    assert case.runs == ["1", "1"]


def test_another_version_of_the_suite_or_of_a_peer_is_run_again(file: OutcomeFile) -> None:
    case = FakeCase("1")
    run_cases([case], CONTENDER, file, ignore)
    case.version_number = 2
    (key,) = case_keys([case], CONTENDER)
    assert key.version == f"sureact {__version__}, evaluation 2"
    assert file.is_outdated(key)
    run_cases([case], CONTENDER, file, ignore)
    peer: Any = SimpleNamespace(**vars(CONTENDER) | {"package": "dspy 3.4.1"})
    assert case_keys([case], peer)[0].version == f"sureact {__version__}, evaluation 2, dspy 3.4.1"
    run_cases([case], peer, file, ignore)
    assert case.runs == ["1", "1", "1"]


def test_an_error_of_one_case_leaves_the_others_alone(file: OutcomeFile) -> None:
    def refuse() -> Outcome:
        raise ConstraintCompileError("no")

    outcomes = run_cases([FakeCase("1", refuse), FakeCase("2")], CONTENDER, file, ignore)
    assert [(outcome.is_right, outcome.is_valid) for outcome in outcomes] == [(False, False), (True, True)]
    assert outcomes[0].fault == "ConstraintCompileError: no"


def test_cases_at_once_give_the_outcomes_in_order(file: OutcomeFile) -> None:
    met = Barrier(3)

    def together(name: str) -> Callable[[], Outcome]:
        def answer() -> Outcome:
            met.wait(timeout=30)
            return Outcome(is_right=True, is_valid=True, answer=name)

        return answer

    cases = [FakeCase(name, together(name)) for name in "abc"]
    told: list[CaseDone] = []
    outcomes = run_cases(cases, CONTENDER, file, told.append, concurrency=3)
    assert [outcome.answer for outcome in outcomes] == ["a", "b", "c"]
    assert {done.case.id for done in told} == {"a", "b", "c"}
    assert [file.get(key) for key in case_keys(cases, CONTENDER)] == outcomes


def test_an_interrupt_does_not_wait_for_the_cases_beside_it(file: OutcomeFile) -> None:
    is_over = Event()

    def wait() -> Outcome:
        assert is_over.wait(timeout=30)
        return right()

    def interrupt(done: CaseDone) -> None:
        raise KeyboardInterrupt

    cases = [FakeCase("1"), FakeCase("2", wait), FakeCase("3", wait), FakeCase("4")]
    with pytest.raises(KeyboardInterrupt):
        run_cases(cases, CONTENDER, file, interrupt, concurrency=2)
    assert not is_over.is_set()
    is_over.set()
    assert file.get(case_keys(cases[:1], CONTENDER)[0]) is not None


def test_an_interrupt_keeps_what_is_done(file: OutcomeFile, tmp_path: Path) -> None:
    def interrupt() -> Outcome:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_cases([FakeCase("1"), FakeCase("2", interrupt), FakeCase("3")], CONTENDER, file, ignore)
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1


def test_so_many_of_each_category_are_chosen() -> None:
    assert len(sample(CASES, per_category=3, limit=None, seed=0)) == 3 + 2 + 3
    assert sample(CASES, per_category=None, limit=None, seed=0) == [*"abcdefghijklmnop"]


@given(st.integers(1, 20), st.integers(0, 5))
def test_a_limit_is_spread_over_the_categories(limit: int, seed: int) -> None:
    chosen = sample(CASES, per_category=1, limit=limit, seed=seed)
    assert len(chosen) == min(limit, 16)
    assert set(chosen) <= set(sample(CASES, per_category=1, limit=limit + 1, seed=seed))
    assert chosen == sample(CASES, per_category=1, limit=limit, seed=seed)
    counts = [len(set(chosen) & set(of)) for of in CASES.values()]
    assert max(counts) - min(counts) <= 1 or min(limit, 16) > 6
    assert chosen == sorted(chosen)


def test_seeds_choose_differently() -> None:
    choices = {tuple(sample(CASES, per_category=3, limit=None, seed=seed)) for seed in range(9)}
    assert len(choices) > 1
