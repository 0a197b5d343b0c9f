import pytest

from sureact.constraints.json_schema import json_schema
from sureact.constraints.schema.fault import schema_error
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [
        ({"items": {"pattern": "a(?=b)"}}, "pattern", "/items/pattern"),
        ({"properties": {"fine": {"pattern": "a"}, "p": {"pattern": r"(a)\1"}}}, "pattern", "/properties/p/pattern"),
        ({"patternProperties": {"(?<=a)b": True}}, "patternProperties", "/patternProperties"),
        ({"$defs": {"d": {"$ref": "#/$defs/d", "minimum": 1}}, "$ref": "#/$defs/d"}, "$ref", "/$defs/d/$ref"),
    ],
)
def test_the_place_of_a_fault_is_found(
    schema: dict[str, object], keyword: str, pointer: str, vocabulary: Vocabulary
) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        json_schema(schema).compile(vocabulary)
    assert caught.value.keyword == keyword
    if keyword != "$ref":
        assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"enum": []},
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "array", "items": False, "minItems": 1},
    ],
)
def test_a_schema_that_nothing_satisfies_is_said_to_be_so(schema: dict[str, object], vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="No JSON value can satisfy"):
        json_schema(schema).compile(vocabulary)


def test_a_reason_without_a_place_is_passed_on() -> None:
    error = schema_error("something else broke\n<state>", {"type": "string"})
    assert isinstance(error, ConstraintCompileError)
    assert "something else broke" in str(error)
