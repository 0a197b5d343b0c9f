from collections.abc import Sequence
from typing import Any

import pytest

from sureact.errors import ConstraintCompileError
from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.judging import CaseOutcome, judge_case, refused_outcome
from sureact.evaluation.conformance.schema_engine import CompiledCase, SchemaEngine, Walk
from sureact.evaluation.conformance.vocabularies import byte_vocabulary


class Listed(SchemaEngine):
    """Writes the texts of a list, judges those of another one, or refuses every schema."""

    def __init__(self, texts: Sequence[str] = (), *, judged_wrong: Sequence[str] = (), refusal: str = "") -> None:
        self.texts, self.judged_wrong, self.refusal = texts, judged_wrong, refusal

    def compile(self, case: ConformanceCase) -> CompiledCase:
        if self.refusal:
            raise ConstraintCompileError(self.refusal)
        return ListedCase(self)


class ListedCase(CompiledCase):
    is_guarded = True

    def __init__(self, engine: Listed) -> None:
        self.engine = engine

    def new_walk(self) -> Walk:
        return ListedWalk([text.encode() for text in self.engine.texts])

    def fault(self, text: str) -> str | None:
        return "judged wrong" if text in self.engine.judged_wrong else None


class ListedWalk(Walk):
    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts, self.written = texts, b""

    def accept(self, token_ids: Sequence[int]) -> int:
        for count, token_id in enumerate(token_ids):
            longer = self.written + bytes([token_id])
            if not any(text.startswith(longer) for text in self.texts):
                return count
            self.written = longer
        return len(token_ids)

    def fill_mask(self) -> None:
        raise NotImplementedError

    @property
    def can_end(self) -> bool:
        return self.written in self.texts


def case_of(valid: Sequence[str] = (), invalid: Sequence[str] = (), **options: Any) -> ConformanceCase:
    instances = [Instance(text, True) for text in valid] + [Instance(text, False) for text in invalid]
    return ConformanceCase(file="f.json", name="", schema={}, instances=tuple(instances), **options)


def judged(engine: SchemaEngine, case: ConformanceCase) -> CaseOutcome:
    return judge_case(engine, case, byte_vocabulary())


def test_a_schema_passes_when_every_instance_gets_its_label() -> None:
    outcome = judged(Listed(["1", "23"]), case_of(["1", "23"], ["2", "4", "231"]))
    assert (outcome.is_compiled, outcome.is_passed, outcome.is_guarded, outcome.findings) == (True, True, True, ())


def test_a_rejected_text_says_at_which_byte_and_what_stood_there() -> None:
    [finding] = judged(Listed(['"éa"']), case_of(['"éb"'])).findings
    assert (finding.reason, finding.instance) == ("rejects_valid", '"éb"')
    assert finding.detail == "Refused at byte 3, after '\"é', before 'b\"'."


def test_a_text_that_cannot_end_is_rejected() -> None:
    outcome = judged(Listed(["12"]), case_of(["1"]))
    assert not outcome.is_passed
    assert "may not end" in outcome.findings[0].detail


def test_an_accepted_invalid_text_fails_the_schema() -> None:
    outcome = judged(Listed(["1", "2"]), case_of(["1"], ["2"]))
    assert not outcome.is_passed
    assert [(finding.reason, finding.instance) for finding in outcome.findings] == [("accepts_invalid", "2")]


def test_what_only_the_judge_refuses_is_late_when_invalid_and_wrong_when_valid() -> None:
    engine = Listed(["1", "2"], judged_wrong=["1", "2"])
    late = judged(engine, case_of((), ["2"]))
    assert (late.is_passed, [finding.reason for finding in late.findings]) == (True, ["late_veto"])
    wrong = judged(engine, case_of(["1"]))
    assert (wrong.is_passed, [finding.reason for finding in wrong.findings]) == (False, ["rejects_valid"])


def test_half_a_surrogate_pair_cannot_be_written() -> None:
    assert judged(Listed(["1"]), case_of((), ["\ud800"])).is_passed


@pytest.mark.parametrize(
    ("refusal", "case", "is_passed", "is_unsatisfiable"),
    [
        ("no such keyword", case_of(["1"]), False, False),
        ("no such keyword", case_of(["1"], may_be_refused=True), True, False),
        ("Unsatisfiable schema: x", case_of((), ["1"]), True, True),
        ("No JSON value can satisfy the schema: x", case_of((), ["1"]), True, True),
        ("Unsatisfiable schema: x", case_of(["1"]), False, False),
    ],
)
def test_a_refusal_is_right_where_the_case_says_so_or_no_value_is_valid(
    refusal: str, case: ConformanceCase, is_passed: bool, is_unsatisfiable: bool
) -> None:
    outcome = judged(Listed(refusal=refusal), case)
    assert (outcome.is_compiled, outcome.is_passed, outcome.is_unsatisfiable) == (False, is_passed, is_unsatisfiable)
    assert [finding.detail for finding in outcome.findings] == ([] if is_passed else [refusal])
    assert outcome == refused_outcome(case, refusal)


def test_a_case_that_must_be_refused_fails_when_it_compiles() -> None:
    outcome = judged(Listed(["1"]), case_of((), ["2"], must_be_refused=True))
    assert not outcome.is_passed
