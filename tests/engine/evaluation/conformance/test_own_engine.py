import pytest

from sureact.errors import ConfigError
from sureact.evaluation.conformance.cases import ConformanceCase, Instance
from sureact.evaluation.conformance.judging import judge_case
from sureact.evaluation.conformance.own_engine import OwnEngine
from sureact.evaluation.conformance.schema_engine import SchemaPolicy
from sureact.evaluation.conformance.vocabularies import byte_vocabulary

AB = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}


def rejected(schema: object, *texts: str, kind: str = "json_schema", **policy: object) -> list[str | None]:
    vocabulary = byte_vocabulary()
    engine = OwnEngine(vocabulary.vocabulary, SchemaPolicy(**policy))  # pyright: ignore[reportArgumentType]
    case = ConformanceCase(
        file="",
        name="",
        kind=kind,  # pyright: ignore[reportArgumentType]
        schema=schema,
        instances=tuple(Instance(text, True) for text in texts),
    )
    return [finding.instance for finding in judge_case(engine, case, vocabulary).findings]


def test_whitespace_is_free_and_objects_are_as_open_as_their_schema() -> None:
    assert rejected(AB, '{ "a" :1,\n"z": 2}', '{"a":1, "b":2}') == []


def test_the_policy_reaches_the_constraint() -> None:
    wrong_order = '{"b": 1, "a": 2}'
    assert rejected({**AB, "additionalProperties": False}, wrong_order) == [wrong_order]
    assert rejected({**AB, "additionalProperties": False}, wrong_order, key_order="any") == []
    assert rejected(AB, '{"z": 2}', closed=True) == ['{"z": 2}']
    dated = {"type": "string", "format": "date"}
    assert rejected(dated, '"soon"') == ['"soon"']
    assert rejected(dated, '"soon"', format="annotate") == []
    elsewhere = {"$ref": "http://example.com/x"}
    assert rejected(elsewhere, "1", resources={"http://example.com/x": {"type": "integer"}}) == []


def test_choices_and_regexes_are_run_too() -> None:
    assert rejected(["yes", "no"], "no", "maybe", kind="choice") == ["maybe"]
    assert rejected("[0-9]+", "12", "x", kind="regex") == ["x"]


def test_a_guarded_schema_says_so() -> None:
    vocabulary = byte_vocabulary().vocabulary
    engine = OwnEngine(vocabulary, SchemaPolicy())
    unique = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    cases = [ConformanceCase(file="", name="", schema=schema, instances=()) for schema in (unique, {"const": 1})]
    assert [engine.compile(case).is_guarded for case in cases] == [True, False]


def test_what_is_no_schema_at_all_is_refused() -> None:
    engine = OwnEngine(byte_vocabulary().vocabulary, SchemaPolicy())
    with pytest.raises(ConfigError):
        engine.compile(ConformanceCase(file="", name="", schema=[1], instances=()))
