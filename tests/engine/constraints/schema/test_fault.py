import pytest

from sureact.constraints.json_schema import json_schema
from sureact.constraints.schema.fault import patterns_of, unsatisfiable_error
from sureact.constraints.schema.normal_form import normalize
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [
        ({"items": {"pattern": "a(?=b)"}}, "pattern", "/items/pattern"),
        ({"properties": {"fine": {"pattern": "a"}, "p": {"pattern": r"(a)\1"}}}, "pattern", "/properties/p/pattern"),
        ({"not": {"pattern": r"(a)\1"}}, "pattern", "/not/pattern"),
        ({"$ref": "#/types/0", "types": [{"pattern": "a(?=b)"}]}, "pattern", "/types/0/pattern"),
        ({"patternProperties": {"(?<=a)b": True}}, "patternProperties", "/patternProperties/(?<=a)b"),
    ],
)
def test_the_place_of_a_regex_that_cannot_be_tested_is_found(
    schema: dict[str, object], keyword: str, pointer: str, vocabulary: Vocabulary
) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        json_schema(schema).compile(vocabulary)
    assert (caught.value.keyword, caught.value.pointer) == (keyword, pointer)


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "integer", "minimum": 3, "maximum": 2},
        {"type": "object", "properties": {"a": False}, "required": ["a"]},
        {"type": "array", "items": False, "minItems": 1},
        {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True, "minItems": 3},
        {"required": ["a", "b"], "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
        {"not": {}},
    ],
)
def test_a_schema_that_nothing_satisfies_is_said_to_be_so(schema: dict[str, object], vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="No JSON value can satisfy"):
        json_schema(schema).compile(vocabulary)


def test_only_what_the_engine_says_of_the_schema_is_passed_on() -> None:
    error = unsatisfiable_error("in grammar: Unsatisfiable schema: minimum over maximum\n<state>")
    assert str(error) == "No JSON value can satisfy the schema: minimum over maximum."


def test_patterns_are_those_of_keywords_and_not_of_constants() -> None:
    schema = {"items": {"not": {"pattern": "a"}}, "patternProperties": {"b": {}}, "const": {"pattern": "c"}}
    assert patterns_of(normalize(schema)) == {"a", "b"}
