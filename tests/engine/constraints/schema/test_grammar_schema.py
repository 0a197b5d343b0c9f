import contextlib
import itertools
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sureact.constraints.byte_matcher import matches_grammar
from sureact.constraints.schema.grammar_schema import GrammarSchema, grammar_schemas
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.leeway import compile_error, proves_unsatisfiable
from sureact.constraints.schema.normal_form import NormalSchema

OPTIONS = {"whitespace_flexible": True, "json_allow_general_unicode_escapes": True}


def normal(root: Schema, **definitions: Schema) -> NormalSchema:
    return NormalSchema(root, definitions)


def first(schema: NormalSchema, *, any_order: bool = False, ensure_ascii: bool = False) -> GrammarSchema:
    """Return the first candidate that compiles, or that no other can be better than."""
    for candidate in grammar_schemas(schema, key_order="any" if any_order else "schema", ensure_ascii=ensure_ascii):
        reason = compile_error(candidate.schema)
        if not reason or proves_unsatisfiable(reason):
            return candidate
    raise AssertionError("the last candidate compiles")


def accepts(candidate: GrammarSchema, text: str) -> bool:
    from llguidance import LLMatcher

    return matches_grammar(LLMatcher.grammar_from_json_schema({**candidate.schema, "x-guidance": OPTIONS}), text)


def orders(value: Any) -> Iterator[Any]:
    """Yield `value` with the keys of its objects in every order."""
    if isinstance(value, dict):
        for keys in itertools.permutations(value):
            for members in itertools.product(*(list(orders(value[key])) for key in keys)):
                yield dict(zip(keys, members, strict=True))
    elif isinstance(value, list):
        yield from map(list, itertools.product(*(list(orders(item)) for item in value)))
    else:
        yield value


names = st.sampled_from(["a", "b", "é"])
scalars = st.sampled_from([None, True, False, 0, 1, 5, -2, 1.5, "", "a", "bb", "é"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3), max_leaves=4
)


def keyword_sets(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[dict[str, Any]]:
    """Schemas in normal form, of a few keywords each."""
    types = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
    lists = st.lists(inner, min_size=1, max_size=2)
    counts = st.integers(0, 2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
        "enum": st.lists(values, min_size=1, max_size=3),
        "const": values,
        "minimum": st.integers(-2, 2),
        "maxLength": counts,
        "pattern": st.sampled_from(["^a", "b+$", "^[^a]*$"]),
        "minItems": counts,
        "maxItems": counts,
        "items": inner,
        "prefixItems": lists,
        "uniqueItems": st.just(True),
        "contains": inner,
        "properties": st.dictionaries(names, inner, min_size=1, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, min_size=1, max_size=2),
        "additionalProperties": inner,
        "required": st.lists(names, min_size=1, max_size=2, unique=True),
        "minProperties": counts,
        "maxProperties": counts,
        "propertyNames": st.sampled_from([{"pattern": "^[ab]"}, {"enum": ["a", "b"]}, {"maxLength": 1}]),
        "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2), max_size=2),
        "dependentSchemas": st.dictionaries(names, inner, max_size=2),
        "allOf": lists,
        "anyOf": lists,
        "oneOf": lists,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "unevaluatedProperties": st.booleans(),
        "unevaluatedItems": st.booleans(),
        "$ref": st.sampled_from(["#/$defs/x", "#/$defs/y"]),
    }
    return st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({keyword: keywords[keyword] for keyword in chosen})
    )


leaves = st.booleans() | st.sampled_from([{"type": "string"}, {"type": "integer"}, {"const": "a"}, {"minimum": 1}])
schemas: st.SearchStrategy[Schema] = st.recursive(leaves, keyword_sets, max_leaves=5)
closed_roots = keyword_sets(schemas)
DEFINITIONS: dict[str, Schema] = {
    "x": {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}, "b": True}},
    "y": {"type": ["array", "string"], "items": {"$ref": "#/$defs/y"}},
}


def is_valid(root: Schema, value: Any) -> bool:
    document = root if isinstance(root, bool) else {**root, "$defs": DEFINITIONS}
    return Draft202012Validator(document).is_valid(value)


@settings(max_examples=250, deadline=None)
@given(root=closed_roots, instances=st.lists(values, min_size=1, max_size=6), ensure_ascii=st.booleans())
def test_no_valid_value_is_refused_in_any_order(root: Schema, instances: list[Any], ensure_ascii: bool) -> None:
    valid = [value for value in instances if is_valid(root, value)]
    candidate = first(NormalSchema(root, DEFINITIONS), any_order=True, ensure_ascii=ensure_ascii)
    for value in valid:
        for ordered in orders(value):
            assert accepts(candidate, json.dumps(ordered, ensure_ascii=ensure_ascii))


@settings(max_examples=250, deadline=None)
@given(root=closed_roots, instances=st.lists(values, min_size=1, max_size=6))
def test_every_valid_value_can_be_written_in_some_order_and_an_exact_grammar_writes_no_other(
    root: Schema, instances: list[Any]
) -> None:
    candidate = first(NormalSchema(root, DEFINITIONS))
    for value in instances:
        is_written = any(accepts(candidate, json.dumps(ordered, ensure_ascii=False)) for ordered in orders(value))
        if is_valid(root, value):
            assert is_written
        elif candidate.is_exact:
            assert not is_written


@pytest.mark.parametrize("any_order", [False, True])
def test_every_candidate_down_to_any_json_has_the_valid_texts(any_order: bool) -> None:
    root = {
        "type": "object",
        "properties": {"n": {"enum": [1, "x"]}, "kids": {"type": "array", "items": {"$ref": "#/$defs/x"}}},
        "required": ["n"],
        "additionalProperties": False,
    }
    key_order = "any" if any_order else "schema"
    candidates = list(grammar_schemas(NormalSchema(root, DEFINITIONS), key_order=key_order, ensure_ascii=False))
    assert candidates[-1] == GrammarSchema({}, is_exact=False)
    assert all(accepts(candidate, '{"n": "x", "kids": [{"a": {}}]}') for candidate in candidates)


def test_nothing_is_satisfied_by_a_schema_that_is_false() -> None:
    assert proves_unsatisfiable(compile_error(first(normal(False)).schema))


def test_schemas_may_be_nested_in_hundreds_of_levels() -> None:
    root: Schema = {"type": "integer"}
    for _ in range(400):
        root = {"type": "object", "properties": {"a": root}, "required": ["a"], "additionalProperties": False}
    candidate = first(normal(root))
    assert candidate.is_exact
    assert accepts(candidate, '{"a": ' * 400 + "1" + "}" * 400)
    assert not accepts(candidate, '{"a": ' * 400 + '"1"' + "}" * 400)


def test_a_definition_that_allows_nothing_does_not_spoil_what_can_do_without_it() -> None:
    never = {"type": "object", "anyOf": [{"type": "string"}]}
    candidate = first(normal({"properties": {"a": {"$ref": "#/$defs/never"}, "b": True}}, never=never))
    assert accepts(candidate, '{"b": 1}')
    assert not accepts(candidate, '{"a": {}}')


@pytest.mark.parametrize(
    "root",
    [
        {"type": "string", "pattern": "a(?=b)"},
        {"patternProperties": {"^a": {"type": "integer"}, "^ab": {"minimum": 3}}},
        {"properties": {"x": {"$ref": "#/$defs/loop"}}, "minProperties": 1},
        {"$ref": "#/$defs/loop"},
    ],
)
def test_what_llguidance_refuses_is_left_out(root: Schema) -> None:
    loop = {"type": "object", "properties": {"x": {"$ref": "#/$defs/loop", "minProperties": 1}}}
    candidate = first(normal(root, loop=loop))
    assert candidate.schema != {}
    assert not candidate.is_exact


def test_keys_come_in_the_order_of_the_keywords_and_conditional_ones_last() -> None:
    root = {
        "allOf": [{"$ref": "#/$defs/base"}, {"if": {"properties": {"c": {"const": 1}}}, "then": {"required": ["d"]}}],
        "type": "object",
        "properties": {"b": True, "c": {"enum": [1, 2]}, "d": True},
        "required": ["c"],
        "unevaluatedProperties": False,
    }
    candidate = first(normal(root, base={"properties": {"a": True}}))
    assert accepts(candidate, '{"a": 1, "b": 1, "c": 1, "d": 1}')
    assert not accepts(candidate, '{"b": 1, "a": 1, "c": 2}')
    assert not accepts(candidate, '{"a": 1, "c": 1, "e": 1}')


def test_keys_come_in_any_order_where_their_own_order_could_leave_too_few() -> None:
    root = {"type": "object", "properties": {"a": True, "b": True, "c": True}, "additionalProperties": False}
    assert accepts(first(normal({**root, "minProperties": 2})), '{"b": 1, "a": 1}')
    assert not accepts(first(normal({**root, "minProperties": 1})), '{"b": 1, "a": 1}')


@pytest.mark.parametrize("key_order", ["schema", "any"])
def test_no_grammar_is_tried_twice(key_order: Literal["schema", "any"]) -> None:
    parts: list[Schema] = [{"properties": {f"p{number}": {"type": "integer"}}} for number in range(70)]
    candidates = grammar_schemas(NormalSchema({"allOf": parts}, {}), key_order=key_order, ensure_ascii=False)
    tried = [next(candidates)]
    with contextlib.suppress(StopIteration):
        while True:
            tried.append(candidates.send("schema too large"))
    assert len(tried) > 2
    assert all(one.schema != next_one.schema for one, next_one in itertools.pairwise(tried))
