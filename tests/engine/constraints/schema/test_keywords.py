from typing import Any

import pytest

from sureact.constraints.schema.keywords import (
    ANNOTATIONS,
    ASSERTED_FORMATS,
    ENFORCED,
    GRAMMAR_FORMATS,
    NOT_ENFORCED,
    Schema,
    is_annotation,
    is_vacuous,
    map_subschemas,
)


def test_no_keyword_is_in_two_tables() -> None:
    assert not ENFORCED & ANNOTATIONS
    assert not ENFORCED & NOT_ENFORCED
    assert not ANNOTATIONS & NOT_ENFORCED


def test_extensions_are_annotations() -> None:
    assert is_annotation("x-anything")
    assert is_annotation("title")
    assert not is_annotation("titel")


@pytest.mark.parametrize(
    ("keyword", "schema", "vacuous"),
    [
        ("uniqueItems", {"uniqueItems": False}, True),
        ("uniqueItems", {"uniqueItems": True}, False),
        ("unevaluatedProperties", {"unevaluatedProperties": {}}, True),
        ("unevaluatedProperties", {"unevaluatedProperties": False}, False),
        ("propertyNames", {"propertyNames": {"type": "string"}}, True),
        ("propertyNames", {"propertyNames": {"maxLength": 3}}, False),
        ("dependentRequired", {"dependentRequired": {}}, True),
        ("minContains", {"minContains": 2}, True),
        ("minContains", {"minContains": 2, "contains": {}}, False),
        ("if", {"if": {}}, True),
        ("if", {"if": {}, "else": False}, False),
        ("then", {"then": False}, True),
        ("not", {"not": {}}, False),
        ("contains", {"contains": True}, False),
    ],
)
def test_a_keyword_that_asks_for_nothing_is_vacuous(keyword: str, schema: dict[str, Any], vacuous: bool) -> None:
    assert is_vacuous(keyword, schema) is vacuous


def test_every_direct_subschema_is_mapped_with_its_path_and_nothing_else() -> None:
    paths: list[tuple[str, ...]] = []

    def collect(child: Schema, path: tuple[str, ...]) -> Schema:
        paths.append(path)
        return not child

    schema = {"properties": {"items": True}, "anyOf": [True, False], "items": [True], "const": {"items": True}}
    assert map_subschemas(schema, collect) == {
        "properties": {"items": False},
        "anyOf": [False, True],
        "items": [False],
        "const": {"items": True},
    }
    assert paths == [("properties", "items"), ("anyOf", "0"), ("anyOf", "1"), ("items", "0")]


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ({"not": {}, "if": {}, "then": {}, "else": {}}, [("not",), ("if",), ("then",), ("else",)]),
        ({"contains": {}, "propertyNames": {}}, [("contains",), ("propertyNames",)]),
        ({"unevaluatedItems": {}, "unevaluatedProperties": {}}, [("unevaluatedItems",), ("unevaluatedProperties",)]),
        ({"dependentSchemas": {"a": {}}}, [("dependentSchemas", "a")]),
        ({"dependencies": {"a": {}, "b": ["c"]}}, [("dependencies", "a")]),
        ({"contains": "text", "anyOf": 3, "properties": None, "allOf": [4]}, []),
    ],
)
def test_all_applicators_are_known_and_what_is_no_schema_stays(
    schema: dict[str, Any], paths: list[tuple[str, ...]]
) -> None:
    found: list[tuple[str, ...]] = []

    def collect(child: Schema, path: tuple[str, ...]) -> Schema:
        found.append(path)
        return child

    assert map_subschemas(schema, collect) == schema
    assert found == paths


def test_what_a_grammar_holds_is_part_of_what_is_asserted() -> None:
    assert GRAMMAR_FORMATS < ASSERTED_FORMATS


def test_the_asserted_formats_are_those_that_the_judge_can_check() -> None:
    from jsonschema import Draft202012Validator

    assert Draft202012Validator.FORMAT_CHECKER.checkers.keys() == ASSERTED_FORMATS
