from importlib.util import find_spec
from typing import Any

import pytest

from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.judging import CaseOutcome, judge_case
from sureact.evaluation.conformance.peer_engines import LlguidanceEngine, OutlinesEngine, XgrammarEngine
from sureact.evaluation.conformance.schema_engine import SchemaEngine
from sureact.evaluation.conformance.timing import time_case
from sureact.evaluation.conformance.vocabularies import byte_vocabulary

needs_xgrammar = pytest.mark.skipif(find_spec("xgrammar") is None, reason="xgrammar is not installed")
NAMED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
ENGINES = [
    LlguidanceEngine,
    pytest.param(XgrammarEngine, marks=needs_xgrammar),
    OutlinesEngine,
]


def case_of(schema: Any, valid: str, invalid: str, kind: Any = "json_schema") -> ConformanceCase:
    instances = (Instance(valid, True), Instance(invalid, False))
    return ConformanceCase(file="", name="", kind=kind, schema=schema, instances=instances)


def judged(engine: type[SchemaEngine], case: ConformanceCase) -> CaseOutcome:
    vocabulary = byte_vocabulary()
    return judge_case(engine(vocabulary.vocabulary), case, vocabulary)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "case",
    [
        case_of(
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, '{"a": "x"}', '{"a": 1}'
        ),
        case_of("[0-9]+x", "12x", "12", "regex"),
        case_of(["yes", 'n"o'], 'n"o', "maybe", "choice"),
    ],
    ids=lambda case: case.kind,
)
def test_a_peer_runs_every_kind_of_case(engine: type[SchemaEngine], case: ConformanceCase) -> None:
    outcome = judged(engine, case)
    assert outcome.is_compiled, outcome.findings
    assert outcome.is_passed, outcome.findings


@pytest.mark.parametrize("engine", ENGINES)
def test_a_peers_refusal_is_a_compile_error(engine: type[SchemaEngine]) -> None:
    outcome = judged(engine, case_of({"type": "string", "pattern": "("}, '"a"', "1"))
    assert [finding.reason for finding in outcome.findings] == ["compile_error"]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_peers_masks_are_timed(engine: Any) -> None:
    vocabulary = byte_vocabulary()
    times = time_case(engine(vocabulary.vocabulary), case_of({"type": "boolean"}, "true", "1"), vocabulary)
    assert len(times.mask_us) == 4


def test_a_peer_has_no_judge_of_ours() -> None:
    twice = case_of({"type": "object"}, "{}", '{"a": 1, "a": 2}')
    assert [finding.reason for finding in judged(LlguidanceEngine, twice).findings] == ["accepts_invalid"]
