from collections.abc import Callable
from typing import Any

import pytest

from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.json_schema import json_schema
from sureact.errors import ConfigError, ConstraintCompileError, ConstraintError, InternalError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]
StateOf = Callable[..., ConstraintState]

PERSON: dict[str, Any] = {
    "title": "Person",
    "type": "object",
    "properties": {"name": {"type": "string", "default": ""}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
}


def test_separators_are_those_of_json_dumps(spells: Spells) -> None:
    text = '{"name": "x", "tags": ["a", "b"]}'
    assert spells(json_schema(PERSON), text)
    assert not spells(json_schema(PERSON), text.replace(" ", ""))
    assert spells(json_schema(PERSON, separators=(",", ":")), text.replace(" ", ""))
    assert not spells(json_schema(PERSON, separators=(",", ":")), text)


def test_whitespace_is_free_only_when_asked_for(spells: Spells) -> None:
    text = '{\n  "name":"x" ,"tags" : [ ]\n}'
    assert spells(json_schema(PERSON, whitespace="any"), text)
    assert not spells(json_schema(PERSON), text)


def test_extras_are_allowed_as_the_schema_says_unless_closed(spells: Spells) -> None:
    text = '{"name": "x", "age": 7}'
    assert spells(json_schema(PERSON), text)
    assert not spells(json_schema(PERSON, additional_properties="closed"), text)


def test_characters_may_be_escaped_or_not(spells: Spells) -> None:
    for text in ('"é"', '"\\u00e9"', '"\\n\\t\\"\\\\"', '"\\ud83d\\ude00"', '"😀"'):
        assert spells(json_schema({"type": "string"}), text)
    for text in ('"\n"', '"\\\'"', '"\\x41"', '"\\ud83d"'):
        assert not spells(json_schema({"type": "string"}), text)


def test_a_schema_may_be_given_as_text_or_boolean(spells: Spells) -> None:
    assert json_schema('{"type": "null"}') == json_schema({"type": "null"})
    assert spells(json_schema(True), '[1, {"a": null}]')


def test_null_is_allowed_where_openapi_says_nullable(spells: Spells) -> None:
    constraint = json_schema({"type": "string", "nullable": True, "maxLength": 1})
    assert spells(constraint, "null")
    assert not spells(constraint, '"ab"')
    assert constraint.parse("null") is None


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        *(("2024-02-29", True), ("2023-02-29", False), ("0989-02-29", False), ("1900-02-29", False)),
        *(("2000-02-29", True), ("0000-01-01", False), ("2024-04-31", False), ("2024-12-31", True)),
    ],
)
def test_days_exist(text: str, valid: bool, spells: Spells) -> None:
    assert spells(json_schema({"format": "date", "type": "string"}), f'"{text}"') is valid


def test_an_unknown_format_is_an_annotation(spells: Spells) -> None:
    constraint = json_schema({"type": "string", "format": "int32"})
    assert spells(constraint, '"x"')
    assert constraint.parse('"x"') == "x"


@pytest.mark.parametrize(
    ("text", "said"),
    [('{"name": 1}', "violates"), ("NaN", "not strict JSON"), ("{", "not strict JSON"), ("{}", "name")],
)
def test_a_finished_text_that_is_not_valid_is_an_internal_error(text: str, said: str) -> None:
    with pytest.raises(InternalError, match=said):
        json_schema(PERSON).parse(text)


RECURSIVE = {"$defs": {"list": {"type": "array", "items": {"$ref": "#/$defs/list"}}}, "$ref": "#/$defs/list"}


@pytest.mark.parametrize(
    ("schema", "text", "said"),
    [
        (PERSON, '{"name": "a", "x": 1, "x": 2}', "twice"),
        ({"type": "number"}, "1e999", "not a finite number"),
    ],
    ids=["a key twice", "an infinite number"],
)
def test_json_that_stands_for_no_value_is_not_generated_and_not_parsed(
    schema: dict[str, Any], text: str, said: str, spells: Spells
) -> None:
    constraint = json_schema(schema)
    assert not spells(constraint, text)
    with pytest.raises(ConstraintError, match=f"(?s){said}"):
        constraint.parse(text)


@pytest.mark.parametrize(
    ("schema", "text", "said"),
    [({"type": "integer"}, "9" * 5000, "5,000 characters"), (RECURSIVE, "[" * 5000 + "]" * 5000, "deeper")],
    ids=["a long integer", "deep nesting"],
)
def test_values_that_python_cannot_read_are_told_with_their_reason(
    schema: dict[str, Any], text: str, said: str
) -> None:
    with pytest.raises(ConstraintError, match=f"(?s){said}"):
        json_schema(schema).parse(text)


def test_keys_come_in_any_order_when_asked_for(spells: Spells) -> None:
    texts = ('{"name": "x", "tags": []}', '{"tags": [], "name": "x"}')
    assert [spells(json_schema(PERSON), text) for text in texts] == [True, False]
    assert [spells(json_schema(PERSON, key_order="any"), text) for text in texts] == [True, True]
    assert not spells(json_schema(PERSON, key_order="any"), '{"tags": []}')
    assert not spells(json_schema(PERSON, key_order="any"), '{"name": "x", "name": "x"}')


def test_characters_outside_ascii_are_escaped_when_asked_for(spells: Spells) -> None:
    schema: dict[str, Any] = {"properties": {"é": {"enum": ["é", "a"]}, "b": {"type": "string"}}}
    constraint = json_schema(schema, ensure_ascii=True)
    assert spells(constraint, '{"\\u00e9": "\\u00e9", "b": "\\ud83d\\ude00"}')
    assert not spells(constraint, '{"é": "a"}')
    assert not spells(constraint, '{"\\u00e9": "\\u00e8"}')
    assert not spells(constraint, '{"b": "é"}')
    named = {"patternProperties": {r"^\p{L}+$": {"type": "integer"}}, "additionalProperties": False, "type": "object"}
    for key_order in ("schema", "any"):
        constraint = json_schema(named, ensure_ascii=True, key_order=key_order)
        assert spells(constraint, '{"\\u00e9": 1}')
        assert not spells(constraint, '{"\\u00e9": "x"}')
        assert not spells(constraint, '{"1": 1}')


def test_formats_are_annotations_when_asked_for(spells: Spells) -> None:
    schema: dict[str, Any] = {"format": "date", "type": "string"}
    assert not spells(json_schema(schema), '"x"')
    assert spells(json_schema(schema, format="annotate"), '"x"')
    assert json_schema(schema, format="annotate").parse('"x"') == "x"


def test_references_reach_the_resources_given(spells: Spells) -> None:
    schema = {"items": {"$ref": "https://example.test/length"}}
    resources = {"https://example.test/length": {"type": "integer", "minimum": 0}}
    constraint = json_schema(schema, resources=resources)
    assert spells(constraint, "[1, 2]")
    assert not spells(constraint, "[-1]")
    assert constraint.parse("[1, 2]") == [1, 2]
    with pytest.raises(InternalError):
        constraint.parse("[-1]")


@pytest.mark.parametrize("engine", ["outlines_core", "xgrammar"])
def test_another_engine_is_used_when_asked_for_and_guarded_like_our_own(engine: Any, spells: Spells) -> None:
    if engine == "xgrammar":
        pytest.importorskip("xgrammar")
    schema = {"type": "array", "items": {"type": "integer"}}
    constraint = json_schema(schema, engine=engine, separators=(",", ":"))
    assert spells(constraint, "[1,2]")
    assert not spells(constraint, "[1,x]")
    assert constraint.cache_key != json_schema(schema, separators=(",", ":")).cache_key


def test_what_another_engine_would_drop_is_refused_by_name(vocabulary: Vocabulary) -> None:
    with pytest.raises(UnsupportedSchemaError, match="outlines_core") as caught:
        json_schema({"type": "integer", "minimum": 3}, engine="outlines_core", separators=(",", ":")).compile(
            vocabulary
        )
    assert (caught.value.keyword, caught.value.pointer) == ("minimum", "/minimum")


def test_a_reference_to_nothing_known_is_refused(vocabulary: Vocabulary) -> None:
    with pytest.raises(UnsupportedSchemaError) as caught:
        json_schema({"items": {"$ref": "https://example.test/length"}}).compile(vocabulary)
    assert (caught.value.keyword, caught.value.pointer) == ("$ref", "/items/$ref")


def test_a_dialect_of_its_own_is_judged_by_what_it_means(spells: Spells) -> None:
    without_validation = {
        "$id": "https://example.test/dialect",
        "$vocabulary": {
            "https://json-schema.org/draft/2020-12/vocab/core": True,
            "https://json-schema.org/draft/2020-12/vocab/applicator": True,
        },
    }
    schema = {"$schema": "https://example.test/dialect", "properties": {"a": {"minimum": 5}, "b": False}}
    constraint = json_schema(schema, resources={"https://example.test/dialect": without_validation})
    assert spells(constraint, '{"a": 1}')
    assert constraint.parse('{"a": 1}') == {"a": 1}
    with pytest.raises(InternalError):
        constraint.parse('{"b": 1}')


@pytest.mark.parametrize(
    "options",
    [
        {"key_order": "none"},
        {"ensure_ascii": 1},
        {"format": "ignore"},
        {"whitespace": " "},
        {"additional_properties": "open"},
        {"separators": (";", ":")},
        {"separators": (",", "")},
        {"separators": None},
        {"separators": (1, 2)},
        {"separators": ",:"},
        {"resources": 3},
        {"resources": ["ab"]},
        {"engine": "outlines"},
    ],
)
def test_an_option_that_is_not_served_is_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(options))):
        json_schema({}, **options)


@pytest.mark.parametrize("schema", [7, "{", [1], {"default": {1, 2}}, {"enum": [float("nan")]}])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(ConfigError):
        json_schema(schema)


def test_a_bad_schema_is_refused_when_compiled(vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="No JSON value"):
        json_schema({"not": {}}).compile(vocabulary)
    with pytest.raises(ConstraintCompileError):
        json_schema({"type": "strnig"}).compile(vocabulary)
    with pytest.raises(ConstraintCompileError):
        json_schema({"const": "\ud800"}).compile(vocabulary)


def test_a_schema_cannot_loosen_the_grammar_engine(vocabulary: Vocabulary, spells: Spells) -> None:
    constraint = json_schema({"type": "null", "x-guidance": {"lenient": True, "whitespace_flexible": True}})
    assert not spells(constraint, " null")


def test_the_schema_given_can_be_changed_afterwards() -> None:
    schema: dict[str, Any] = {"type": "null"}
    constraint = json_schema(schema)
    schema["type"] = "string"
    assert constraint.schema == {"type": "null"}


def test_keys_stay_reachable_while_an_object_needs_more_of_them(spells: Spells, state_of: StateOf) -> None:
    number = {"type": "integer"}
    schema = {"type": "object", "properties": {"a": number, "b": number}, "additionalProperties": False}
    pair = json_schema({**schema, "minProperties": 2})
    state = state_of(pair, '{"b": 1')
    assert not state.check_token(ord("}"))
    assert state.check_token(ord(","))
    assert spells(pair, '{"b": 1, "a": 2}')
    assert spells(pair, '{"a": 1, "b": 2}')
    assert not spells(json_schema({**schema, "minProperties": 1}), '{"b": 1, "a": 2}')


@pytest.mark.parametrize(
    ("schema", "text", "refused"),
    [
        ({"type": "string", "not": {"pattern": "^a"}}, '"', "a"),
        ({"type": "string", "pattern": '^[^"]*$'}, '"x\\', '"'),
        ({"type": "object", "patternProperties": {"^a": False}}, '{"', "a"),
    ],
)
def test_what_can_only_end_badly_is_refused_at_once(
    state_of: StateOf, schema: dict[str, Any], text: str, refused: str
) -> None:
    state = state_of(json_schema(schema), text)
    assert not state.check_token(ord(refused))
    assert state.check_token(ord("b"))
