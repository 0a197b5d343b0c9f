import pytest

from sureact.constraints.schema.contradiction import find_contradiction, place_in_source
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import normalize

SHORT = {"type": "string", "pattern": "^a{3}$", "minLength": 5}


def required(name: str, schema: Schema) -> dict[str, object]:
    return {"type": "object", "properties": {"fine": {"type": "string"}, name: schema}, "required": ["fine", name]}


@pytest.mark.parametrize(
    ("schema", "keywords", "pointer"),
    [
        ({"not": {}}, ("not",), ""),
        ({"enum": [3], "minimum": 5, "maxLength": 2}, ("enum", "minimum"), ""),
        ({"const": 3, "minimum": 5}, ("const", "minimum"), ""),
        ({"type": "string", "const": 1}, ("type", "const"), ""),
        ({"type": "string", "format": "date", "maxLength": 5}, ("format", "maxLength"), ""),
        (
            {"type": "integer", "multipleOf": 5, "minimum": 6, "maximum": 9, "title": "none"},
            ("type", "multipleOf", "minimum", "maximum"),
            "",
        ),
        (required("a", required("b/c", SHORT)), ("pattern", "minLength"), "/properties/a/properties/b~1c"),
        ({"type": "array", "items": SHORT, "minItems": 1}, ("pattern", "minLength"), "/items"),
        ({"type": "array", "prefixItems": [True, SHORT], "minItems": 2}, ("pattern", "minLength"), "/prefixItems/1"),
        ({"allOf": [{"type": "integer"}, SHORT]}, ("pattern", "minLength"), "/allOf/1"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, ("allOf",), ""),
        ({"anyOf": [SHORT, {"enum": [3], "minimum": 5}]}, ("anyOf",), ""),
        ({"$ref": "#/$defs/s", "$defs": {"s": SHORT}}, ("pattern", "minLength"), "/$defs/s"),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "definitions": {"s": SHORT},
                **required("a", {"$ref": "#/definitions/s"}),
            },
            ("pattern", "minLength"),
            "/definitions/s",
        ),
        (False, (), ""),
        (required("a", False), (), "/properties/a"),
    ],
)
def test_the_smallest_part_and_only_the_keywords_it_takes_are_named(
    schema: Schema, keywords: tuple[str, ...], pointer: str
) -> None:
    assert find_contradiction(normalize(schema), schema) == (keywords, pointer)


def test_a_part_that_the_schema_does_not_have_there_is_not_named() -> None:
    schema = {"$ref": "#/elsewhere/s", "elsewhere": {"s": SHORT}}
    assert find_contradiction(normalize(schema), schema) == (("$ref",), "")


def test_a_part_that_a_value_can_do_without_is_not_named() -> None:
    optional = {"type": "object", "properties": {"a": SHORT}, "minProperties": 3, "maxProperties": 2}
    assert find_contradiction(normalize(optional), optional) == (("minProperties", "maxProperties"), "")


def test_the_tries_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureact.constraints.schema.contradiction._MAX_TRIES", 1)
    schema = required("a", SHORT)
    assert find_contradiction(normalize(schema), schema).pointer == ""


@pytest.mark.parametrize(
    ("place", "found"),
    [("/items", "/items"), ("/$defs/a", "/definitions/a"), ("/allOf/0", None), ("", "")],
)
def test_places_of_the_normal_form_are_looked_up_in_the_source(place: str, found: str | None) -> None:
    assert place_in_source(place, {"items": False, "definitions": {"a": {}}}) == found
