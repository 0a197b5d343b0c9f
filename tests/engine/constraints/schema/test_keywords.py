from typing import Any

import pytest

from sureact.constraints.schema.keywords import (
    ANNOTATIONS,
    ASSERTED_FORMATS,
    CONSTRAINTS,
    IDENTIFIERS,
    Schema,
    is_annotation,
    map_subschemas,
)


def test_no_keyword_is_in_two_tables() -> None:
    assert not CONSTRAINTS & ANNOTATIONS
    assert not CONSTRAINTS & IDENTIFIERS
    assert not ANNOTATIONS & IDENTIFIERS


def test_extensions_are_annotations() -> None:
    assert is_annotation("x-anything")
    assert is_annotation("title")
    assert not is_annotation("titel")


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


def test_the_asserted_formats_are_those_that_the_judge_can_check() -> None:
    from jsonschema import Draft202012Validator

    assert Draft202012Validator.FORMAT_CHECKER.checkers.keys() == ASSERTED_FORMATS
