"""The guard says of every text what jsonschema says of its value, however it is spelled, cut, or gone back in."""

import json
import random
from collections.abc import Iterator
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
