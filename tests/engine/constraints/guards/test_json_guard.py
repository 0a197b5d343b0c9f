"""The guard says of every text what jsonschema says of its value, however it is spelled, cut, or gone back in."""

import json
import random
import time
from collections.abc import Iterator
from itertools import product
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

Strategy = st.SearchStrategy[Any]

NAMES = st.sampled_from(["a", "b", "ab", ""])
SCALARS: Strategy = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from([1.0, 0.5, 1e300, 10**30]),
    st.sampled_from(["", "a", "ab", "abc", 'é"\n', "😀/\x7f"]),
)
INSTANCES: Strategy = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8
)
REFERENCES: Strategy = st.sampled_from([{"$ref": "#/$defs/one"}, {"$ref": "#/$defs/two"}])
"""Only below a value, so that no chain of references comes back without consuming one."""
LEAVES: Strategy = st.one_of(
    st.booleans(),
    st.sampled_from([{"type": "string"}, {"const": 1}, {"type": "integer"}, {"required": ["a"]}]),
    st.dictionaries(st.sampled_from(["items", "additionalProperties"]), REFERENCES, min_size=1),
    st.fixed_dictionaries({"properties": st.dictionaries(NAMES, REFERENCES, min_size=1)}),
)
TYPES = [
    "null",
    "boolean",
    "integer",
    "number",
    "string",
    "array",
    "object",
    ["string", "object"],
    ["integer", "array"],
]


def some(**keywords: Strategy) -> Strategy:
    return st.fixed_dictionaries({}, optional=keywords)


def schemas_of(inner: Strategy) -> Strategy:
    members = st.dictionaries(NAMES, inner, max_size=2)
    patterns = st.dictionaries(st.sampled_from(["a", "^a$", "b?$"]), inner, max_size=2)
    names = st.lists(NAMES, max_size=2, unique=True)
    branches = st.lists(inner, min_size=1, max_size=3)
    counts = st.integers(0, 3)
    first = st.lists(inner, min_size=1, max_size=2)
    return st.one_of(
        some(type=st.sampled_from(TYPES), properties=members, additionalProperties=inner, patternProperties=patterns),
        some(prefixItems=first, items=inner, minItems=counts, maxItems=counts, uniqueItems=st.just(True)),
        some(contains=inner, maxItems=counts),
        st.fixed_dictionaries({"contains": inner, "minContains": counts}, optional={"maxContains": counts}),
        some(minProperties=counts, maxProperties=counts, required=names, propertyNames=inner),
        some(enum=st.lists(INSTANCES, min_size=1, max_size=3), const=INSTANCES),
        some(minimum=st.integers(-2, 2), exclusiveMaximum=st.integers(-2, 3), multipleOf=st.sampled_from([1, 2, 0.5])),
        some(minLength=counts, maxLength=counts, pattern=st.sampled_from(["a", "^a", "b$", "^$", "^.$"])),
        some(allOf=branches, anyOf=branches, properties=members),
        some(oneOf=branches, required=names),
        some(**{"not": inner}),
        some(**{"if": inner, "then": inner, "else": inner}),
        some(dependentRequired=st.dictionaries(NAMES, names, max_size=2), dependentSchemas=members),
        some(unevaluatedProperties=inner, properties=members, anyOf=branches, patternProperties=patterns),
        some(unevaluatedProperties=inner, dependentSchemas=members, **{"if": inner, "then": inner, "else": inner}),
        some(unevaluatedItems=inner, prefixItems=first, anyOf=branches, contains=inner, dependentSchemas=members),
    )


SCHEMAS: Strategy = st.recursive(LEAVES, schemas_of, max_leaves=6)


class Spelling:
    """Writes values in all the ways that JSON has."""

    def __init__(self, random_: random.Random) -> None:
        self._random = random_

    def of(self, value: Any) -> str:
        match value:
            case str():
                return '"' + "".join(map(self._character, value)) + '"'
            case bool() | None:
                return json.dumps(value)
            case int() | float():
                return self._number(value)
            case list():
                return self._bracketed("[", [self.of(item) for item in cast("list[Any]", value)], "]")
            case _:
                members = [
                    self.of(name) + self._blank() + ":" + self._blank() + self.of(member)
                    for name, member in value.items()
                ]
                self._random.shuffle(members)
                return self._bracketed("{", members, "}")

    def _blank(self) -> str:
        return self._random.choice(["", "", "", " ", "\n\t", "  "])

    def _bracketed(self, opening: str, parts: list[str], closing: str) -> str:
        separator = self._blank() + "," + self._blank()
        return opening + self._blank() + separator.join(parts) + self._blank() + closing

    def _number(self, value: float) -> str:
        spellings = [json.dumps(value)]
        if abs(value) < 100:
            spellings += [f"{value * 10}e-1", f"{value}e0", f"{float(value)}00"]
            spellings += [] if value else ["-0", "0e5", "-0.0"]
        return self._random.choice(spellings)

    def _character(self, character: str) -> str:
        if self._random.random() < 0.3:
            return "".join(f"\\u{unit:04x}" for unit in _utf16_units(character))
        if character == "/" and self._random.random() < 0.5:
            return r"\/"
        return json.dumps(character, ensure_ascii=False)[1:-1]


def _utf16_units(character: str) -> Iterator[int]:
    data = character.encode("utf-16-be")
    return (int.from_bytes(data[start : start + 2]) for start in range(0, len(data), 2))


def guard_says(guard: JsonGuard, data: bytes, random_: random.Random) -> bool:
    """Feed a text in pieces, now and then reading ahead, now and then going back."""
    state = guard.new_state()
    places: list[tuple[object, int]] = []
    num_fed = 0
    while num_fed < len(data):
        end = num_fed + random_.randint(1, 4)
        places.append((state.position(), num_fed))
        if random_.random() < 0.1:
            state.feed(data[num_fed:][: random_.randint(1, 9)])
            state.go_back(places[-1][0])
        if not state.feed(data[num_fed:end]):
            return False
        num_fed = end
        if random_.random() < 0.1:
            del places[max(1, len(places) - random_.randrange(4)) :]
            position, num_fed = places.pop()
            state.go_back(position)
    return state.can_end()


def check_agreement(root: Schema, definitions: dict[str, Schema], instances: list[Any], seed: int) -> None:
    document = {"$defs": definitions, **({"allOf": [root]} if isinstance(root, bool) else root)}
    judge = Draft202012Validator(document)
    guard = JsonGuard(NormalSchema(root, definitions))
    random_ = random.Random(seed)
    for instance in instances:
        text = Spelling(random_).of(instance)
        assert json.loads(text) == instance
        assert guard_says(guard, text.encode(), random_) == judge.is_valid(instance), (root, definitions, text)


ARGUMENTS = (
    SCHEMAS,
    st.fixed_dictionaries({"one": SCHEMAS, "two": SCHEMAS}),
    st.lists(INSTANCES, min_size=1, max_size=4),
)
SEEDS = st.integers(0, 1 << 30)


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(*ARGUMENTS, SEEDS)
def test_guard_and_jsonschema_agree(
    root: Schema, definitions: dict[str, Schema], instances: list[Any], seed: int
) -> None:
    check_agreement(root, definitions, instances, seed)


@pytest.mark.slow
@settings(
    max_examples=5000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(*ARGUMENTS, SEEDS)
def test_guard_and_jsonschema_agree_on_many_more(
    root: Schema, definitions: dict[str, Schema], instances: list[Any], seed: int
) -> None:
    check_agreement(root, definitions, instances, seed)


WORDS: list[Any] = [None, True, 1, 2, "a", "ab"]
WORLD: dict[str, Any] = {
    text: value
    for value in [*WORDS, *(list(items) for size in range(3) for items in product(WORDS, repeat=size))]
    for text in [json.dumps(value, separators=(",", ":"))]
} | {
    json.dumps(dict(members), separators=(",", ":")): dict(members)
    for names in ((), ("a",), ("b",), ("a", "b"), ("b", "a"))
    for values in product(WORDS, repeat=len(names))
    for members in [list(zip(names, values, strict=True))]
}
"""All values of a small world by their texts: words, arrays of up to two, objects of `a` and `b` in either order."""
NEXT: dict[str, set[str]] = {}
for world_text in WORLD:
    for place, character in enumerate(world_text):
        NEXT.setdefault(world_text[:place], set()).add(character)


def missed_in(schema: Schema) -> list[str]:
    """Texts that the guard lets through although no valid text of the world begins like them, the shortest only.

    That it lets through how each valid one begins is asserted.
    """
    judge = Draft202012Validator(schema)
    viable = {text[:end] for text, value in WORLD.items() if judge.is_valid(value) for end in range(len(text) + 1)}
    state = JsonGuard(NormalSchema(schema, {})).new_state()
    missed: list[str] = []

    def walk(text: str) -> None:
        for character in sorted(NEXT.get(text, ())):
            position = state.position()
            is_let_through = state.feed(character.encode())
            if text + character in viable:
                assert is_let_through, (schema, text + character)
                walk(text + character)
            elif is_let_through:
                missed.append(text + character)
            state.go_back(position)

    walk("")
    return missed


WORD: Strategy = st.one_of(
    st.builds(dict[str, Any], enum=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3)),
    st.builds(dict[str, Any], const=st.sampled_from(WORDS)),
    st.just({"anyOf": [{"const": 1}, {"enum": ["a", "ab"]}]}),
)
PART: Strategy = st.one_of(WORD, st.just(True), st.sampled_from([{"type": "string"}, {"not": {"const": 1}}]))
WORLD_NAMES = st.sampled_from(["a", "b"])
REQUIRED = st.lists(WORLD_NAMES, min_size=1, max_size=2, unique=True)
PIECE: Strategy = some(
    required=REQUIRED,
    properties=st.dictionaries(WORLD_NAMES, PART, max_size=1),
    maxProperties=st.integers(0, 2),
    minProperties=st.integers(1, 2),
)
COUNT = st.integers(0, 2)
ARRAY: Strategy = st.fixed_dictionaries(
    {"type": st.just("array"), "items": WORD, "maxItems": COUNT},
    optional={
        "prefixItems": st.lists(WORD, min_size=1, max_size=2),
        "uniqueItems": st.just(True),
        "minItems": COUNT,
        "contains": PART,
    },
)
OBJECT: Strategy = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(WORLD_NAMES, WORD, min_size=1),
        "additionalProperties": st.just(False),
    },
    optional={
        "required": REQUIRED,
        "maxProperties": COUNT,
        "dependentRequired": st.dictionaries(WORLD_NAMES, REQUIRED, max_size=1),
        "dependentSchemas": st.dictionaries(WORLD_NAMES, PIECE, max_size=1),
        "propertyNames": st.sampled_from([{"enum": ["a"]}, {"pattern": "^b"}]),
        "not": PIECE,
        "if": PIECE,
        "then": PIECE,
        "oneOf": st.lists(PIECE, min_size=2, max_size=2),
    },
)
CLOSED: Strategy = st.one_of(
    ARRAY,
    OBJECT,
    st.builds(
        lambda keyword, parts: {keyword: parts},  # pyright: ignore[reportUnknownLambdaType]
        st.sampled_from(["anyOf", "oneOf", "allOf"]),
        st.lists(ARRAY | OBJECT, min_size=2, max_size=2),
    ),
)


@settings(max_examples=100)
@given(CLOSED)
def test_how_a_valid_text_begins_is_never_refused(schema: Schema) -> None:
    missed_in(schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [[], [1, "ab"], {"a": "ab"}, {"a": 1, "b": 2}, "ab"]},
        {"type": "array", "items": {"enum": [1, 2, "a", "ab"]}, "maxItems": 2, "uniqueItems": True},
        {"type": "array", "items": {"const": "ab"}, "uniqueItems": True},
        {"type": "array", "items": {"enum": ["a", "ab"]}, "maxItems": 2, "contains": {"const": "ab"}, "minItems": 1},
        {"type": "array", "prefixItems": [{"const": "a"}], "items": {"enum": [1, 2]}, "minItems": 2, "maxItems": 2},
        {"type": "object", "properties": {"a": {"const": 1}, "b": {"const": "ab"}}, "additionalProperties": False},
        {
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"const": 2}},
            "additionalProperties": False,
            "maxProperties": 1,
            "required": ["b"],
        },
        {
            "type": "object",
            "propertyNames": {"enum": ["a"]},
            "additionalProperties": {"enum": [1, None]},
            "minProperties": 1,
        },
        {
            "type": "object",
            "anyOf": [
                {"properties": {"a": {"const": 1}, "b": {"const": 1}}, "additionalProperties": False},
                {"properties": {"a": {"const": 2}, "b": {"const": 2}}, "additionalProperties": False},
            ],
        },
    ],
)
def test_what_can_be_listed_leaves_no_dead_end(schema: Schema) -> None:
    assert missed_in(schema) == []


def seconds_to_read(schema: Schema, text: str) -> float:
    guard = JsonGuard(NormalSchema(schema, {}))
    data = text.encode()
    start = time.perf_counter()
    state = guard.new_state()
    for place in range(0, len(data), 4):
        state.position()
        assert state.feed(data[place : place + 4])
    assert state.can_end()
    return time.perf_counter() - start


INTEGER_ID: Schema = {"properties": {"id": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "opening", "part", "closing"),
    [
        ({"pattern": "^[a-z ]*$"}, '"', "words and ", 'x"'),
        ({"maxLength": 1 << 20}, '"', "words and ", 'x"'),
        ({"items": INTEGER_ID, "uniqueItems": True}, "[0", ',{"id":NUMBER}', "]"),
        ({"contains": INTEGER_ID, "maxContains": 1 << 20}, "[0", ',{"id":NUMBER}', "]"),
        ({"prefixItems": [True], "unevaluatedItems": INTEGER_ID}, "[0", ',{"id":NUMBER}', "]"),
        ({"propertyNames": {"maxLength": 9}, "additionalProperties": INTEGER_ID}, '{"a":0', ',"NUMBER":{}', "}"),
        ({"patternProperties": {"^[0-9]+$": {}}, "unevaluatedProperties": False}, '{"1":0', ',"NUMBER":{}', "}"),
    ],
)
def test_the_time_of_a_token_does_not_grow_with_the_text(schema: Schema, opening: str, part: str, closing: str) -> None:
    def seconds(num_parts: int) -> float:
        text = opening + "".join(part.replace("NUMBER", str(10_000 + index)) for index in range(num_parts)) + closing
        return min(seconds_to_read(schema, text) for _ in range(2))

    seconds(10)
    # A machine may be busy for a while; ten times the work takes ten times as long, not a hundred times.
    assert seconds(2000) < 40 * seconds(200)
