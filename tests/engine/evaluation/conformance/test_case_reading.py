import json
from typing import Any

import pytest

from sureact.errors import ConfigError
from sureact.evaluation.conformance.case_reading import read_cases
from sureact.evaluation.conformance.cases import ConformanceCase

TESTS = [{"description": "", "data": {"b": 1.0, "a": "é"}, "valid": True}]


def read(document: Any, **options: Any) -> list[ConformanceCase]:
    cases = read_cases(document, file="cases.json", **options)
    assert cases is not None
    return cases


def test_a_maskbench_file_is_one_schema_and_its_data_is_written_as_json_writes_it() -> None:
    [case] = read({"schema": {"type": "object"}, "tests": TESTS, "meta": {}})
    assert (case.file, case.name, case.schema, case.kind) == ("cases.json", "", {"type": "object"}, "json_schema")
    assert [instance.text for instance in case.instances] == ['{"b": 1.0, "a": "é"}']


def test_half_a_surrogate_pair_is_written_as_its_escape() -> None:
    [case] = read({"schema": True, "tests": [{"data": "\ud800", "valid": False}]})
    assert case.instances[0].text == '"\\ud800"'


def test_a_suite_file_has_a_schema_per_group_whose_draft_is_that_of_the_folder() -> None:
    groups = [
        {"description": "own", "schema": {"$schema": "x"}, "tests": TESTS},
        {"description": "folder's", "schema": {"type": "object"}, "tests": TESTS},
        {"description": "boolean", "schema": True, "tests": TESTS},
    ]
    schemas = [case.schema for case in read(groups, draft="draft4")]
    assert schemas == [{"$schema": "x"}, {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}, True]
    assert [case.name for case in read(groups)] == ["own", "folder's", "boolean"]


def test_raw_texts_stay_as_they_are_and_say_when_a_refusal_is_right() -> None:
    case = {"id": "x", "kind": "json_schema", "schema": {}, "valid": ["{ }"], "invalid": ["{"], "note": ""}
    [plain, may, must] = read(
        [case, {**case, "compile_error_ok": True}, {**case, "expect_compile_error": True, "invalid_hard": ["}"]}]
    )
    assert [(instance.text, instance.is_valid) for instance in plain.instances] == [("{ }", True), ("{", False)]
    assert [instance.text for instance in must.instances] == ["{ }", "{", "}"]
    assert [(c.may_be_refused, c.must_be_refused) for c in (plain, may, must)] == [
        (False, False),
        (True, False),
        (True, True),
    ]


def test_instances_are_reordered_when_asked() -> None:
    schema = {"properties": {"a": {}, "b": {}}}
    [case] = read({"schema": schema, "tests": TESTS}, reorder=True)
    assert list(json.loads(case.instances[0].text)) == ["a", "b"]


@pytest.mark.parametrize("document", [{}, [], 3, None, {"schema": {}}, [{"schema": {}}], [[1]], {"tests": []}])
def test_what_is_of_no_kind_has_no_cases(document: object) -> None:
    assert read_cases(document, file="cases.json") is None


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"schema": {}, "tests": [{"data": 1}]}, "a case has no 'valid'"),
        ({"schema": {}, "tests": [{"valid": True}]}, "a case has no 'data'"),
        (
            {"schema": {}, "tests": [{"data": 1, "valid": "yes"}]},
            "'valid' is \"yes\" and must be true or false, in the test {",
        ),
        ([{"schema": {}, "tests": []}, {}], "a case has no 'schema'"),
        ({"schema": {}, "tests": [3]}, "3 stands where a case should be"),
        ([{"schema": {}, "tests": []}, {"schema": {}, "tests": 3}], "'tests' is 3 and must be a list"),
        ([{"id": "x", "kind": "yaml", "schema": {}, "valid": [], "invalid": []}], "'yaml'"),
        ([{"id": "x", "kind": "regex", "schema": "a", "valid": [1], "invalid": []}], "1 stands where a text should be"),
    ],
)
def test_a_damaged_case_is_named_with_its_file(document: object, said: str) -> None:
    with pytest.raises(ConfigError, match=r"cases\.json") as refused:
        read_cases(document, file="cases.json")
    assert said in str(refused.value)
    assert "Error" not in str(refused.value)
