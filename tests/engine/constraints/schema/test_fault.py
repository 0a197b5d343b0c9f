import pytest

from sureact.constraints.json_schema import json_schema
from sureact.constraints.schema.fault import check_patterns, patterns_of, unsatisfiable_error
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema, normalize
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
    ("pattern", "said"),
    [
        ("a(?=b)c", "Lookahead is served at the start of a pattern"),
        (r"\bfoo\b", "Write what may stand there"),
        ("a++", "the repeat of a repeat"),
        ("(?i)abc", "Write (?i:...) around the rest"),
        ("(?x:a b)", "Leave the flag out"),
        ("(?P<n>a)", "Write (?<name>...)"),
        ("(a{1,100}){1,100}", "too much to be followed"),
        ("[a-z]{1,2000}", "too much to be followed"),
    ],
)
@pytest.mark.parametrize("beside", [{}, {"uniqueItems": True}])
def test_a_regex_that_cannot_be_used_is_refused_with_a_remedy(
    pattern: str, said: str, beside: dict[str, object], vocabulary: Vocabulary
) -> None:
    """Whether the grammar holds all of the schema or a guard stands beside it."""
    schema = {"type": "array", "items": {"type": "string", "pattern": pattern}, **beside}
    with pytest.raises(UnsupportedSchemaError) as caught:
        json_schema(schema).compile(vocabulary)
    assert caught.value.pointer == "/items/pattern"
    assert said in str(caught.value)


@pytest.mark.parametrize("pattern", ["(?i:abc)", "(?<n>a)", "(?:a+)?", r"[*+]+\(?i\)", "^[a-z]{1,10000}$"])
def test_a_regex_of_ecma_262_is_no_foreign_one(pattern: str, vocabulary: Vocabulary) -> None:
    json_schema({"type": "string", "pattern": pattern}).compile(vocabulary)


def test_too_many_patterns_to_test_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureact.constraints.schema.fault._MAX_PATTERNS", 2)
    patterns = ["a", "b", "c", "d"]
    schema = {"patternProperties": dict.fromkeys(patterns, True)}
    check_patterns(patterns, schema, '"c" "d"')
    with pytest.raises(UnsupportedSchemaError, match="one too many: 2 can be tested beside a grammar") as caught:
        check_patterns(patterns, schema, '"d"')
    assert caught.value.pointer == "/patternProperties/c"


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


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (False, "false allows no value, at the root. Remove"),
        (
            {"definitions": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "$ref": "#/definitions/a"},
            "minimum 3 is more than maximum 2, at /definitions/a/minimum. Remove",
        ),
    ],
)
def test_a_known_reason_is_given_with_its_place_and_a_remedy(schema: Schema, said: str) -> None:
    error = unsatisfiable_error(normalize(schema), schema)
    assert str(error).startswith(f"No JSON value can satisfy the schema: {said}")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (False, "false allows no value, at the root. Allow something there, or do not ask for it."),
        ({"not": {}}, "the keyword 'not' at the root allows none. Remove or loosen it."),
        (
            {"type": "array", "items": {"enum": [3], "minimum": 5}, "minItems": 1},
            "the keywords 'enum' and 'minimum' at /items contradict each other. Remove or loosen one of them.",
        ),
    ],
)
def test_without_a_known_reason_the_keywords_are_named(
    schema: Schema, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def know_nothing(normal: NormalSchema) -> None: ...

    monkeypatch.setattr("sureact.constraints.schema.fault.unsatisfiable", know_nothing)
    error = unsatisfiable_error(normalize(schema), schema)
    assert str(error) == f"No JSON value can satisfy the schema: {said}"


def test_nothing_of_the_engine_is_passed_on(vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError) as caught:
        json_schema({"type": "string", "format": "date", "maxLength": 5}).compile(vocabulary)
    assert "Regex" not in str(caught.value)
    assert "maxLength" in str(caught.value)


def test_patterns_are_those_of_keywords_and_not_of_constants() -> None:
    schema = {"items": {"not": {"pattern": "a"}}, "patternProperties": {"b": {}}, "const": {"pattern": "c"}}
    assert patterns_of(normalize(schema)) == {"a", "b"}
