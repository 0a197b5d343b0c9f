"""Schemas that are huge, deep, hostile or nonsense are enforced or refused with the reason: none hangs or crashes."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from sureact.constraints.json_schema import json_schema
from sureact.errors import ConfigError, ConstraintCompileError, ConstraintError, SureactError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary

VOCABULARY = Vocabulary(
    token_bytes=(*(bytes([value]) for value in range(256)), b""),
    control_ids=frozenset({256}),
    unused_ids=frozenset(),
    eos_ids=(256,),
    tokenizer_json=None,
    fingerprint="bytes of bad schemas",
)


def nested(levels: int, around: Callable[[Any], Any], leaf: Any) -> Any:
    for _ in range(levels):
        leaf = around(leaf)
    return leaf


def chain(length: int, step: Callable[[Any], Any], leaf: Any) -> dict[str, Any]:
    """A schema that refers to a second, that to a third, and so on."""
    links = {f"d{number}": step({"$ref": f"#/$defs/d{number + 1}"}) for number in range(length)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{length}": leaf}}


def spells(schema: Any, text: str, **options: Any) -> bool:
    state = json_schema(schema, **options).compile(VOCABULARY).new_state()
    for byte in text.encode():
        if not state.check_token(byte):
            return False
        state.accept_token(byte)
    return state.is_accepting


def judges(schema: Any, text: str) -> bool:
    try:
        json_schema(schema).parse(text)
    except SureactError:
        return False
    return True


@dataclass(frozen=True)
class Enforced:
    """A schema that compiles: one text that is valid and one that is not."""

    make: Callable[[], Any]
    valid: str
    invalid: str


def closed_object(schema: Any) -> Any:
    return {"type": "object", "properties": {"a": schema}, "required": ["a"], "additionalProperties": False}


INTEGER = {"type": "integer"}
NAMES = [f"value {number}" for number in range(10_000)]
WIDE = {f"property_{number}": {"type": "integer"} for number in range(12_000)}
MIXED = [(number, str(number), {"a": number}, [number], number % 2 == 0)[number % 5] for number in range(10_000)]

ENFORCED = {
    "10,000 strings": Enforced(lambda: {"enum": NAMES}, '"value 9999"', '"value 10000"'),
    "10,000 long strings": Enforced(
        lambda: {"enum": [name + "x" * 90 for name in NAMES]}, f'"value 7{"x" * 90}"', '"x"'
    ),
    "10,000 integers": Enforced(lambda: {"enum": [number * 7919 for number in range(10_000)]}, "7919", "7918"),
    "10,000 mixed values": Enforced(lambda: {"enum": MIXED}, '{"a": 9997}', '{"a": 9996}'),
    "10,000 objects": Enforced(lambda: {"enum": [{"a": number} for number in range(10_000)]}, '{"a": 77}', '{"b": 77}'),
    "10,000 forbidden": Enforced(lambda: {"type": "string", "not": {"enum": NAMES}}, '"value"', '"value 77"'),
    "10,000 constants": Enforced(lambda: {"oneOf": [{"const": name} for name in NAMES]}, '"value 77"', '"value"'),
    "a wide object": Enforced(lambda: {"properties": WIDE}, '{"property_77": 1}', '{"property_77": null}'),
    "a wide closed object": Enforced(
        lambda: {"type": "object", "properties": WIDE, "additionalProperties": False}, '{"property_77": 1}', '{"x": 1}'
    ),
    "a wide tuple": Enforced(lambda: {"type": "array", "prefixItems": [INTEGER] * 40_000}, "[1, 2]", '[1, ""]'),
    "many parts": Enforced(
        lambda: {"allOf": [{"properties": {name: INTEGER}} for name in WIDE]}, '{"property_7": 1}', '{"property_7": ""}'
    ),
    "many parts that nothing else may be beside": Enforced(
        lambda: {"allOf": [{"properties": {name: True}} for name in [*WIDE][:2_500]], "unevaluatedProperties": False},
        '{"property_7": 1}',
        '{"x": 1}',
    ),
    "many conditions": Enforced(
        lambda: {"allOf": [{"if": {"const": number}, "then": {"minimum": 9}} for number in range(2_500)]}, "9", "7"
    ),
    "many alternatives": Enforced(
        lambda: {"anyOf": [closed_object({"const": number}) for number in range(2_500)]}, '{"a": 77}', '{"a": -1}'
    ),
    "many unused definitions": Enforced(lambda: {**INTEGER, "$defs": dict.fromkeys(WIDE, True)}, "1", '""'),
    "a long description": Enforced(lambda: {**INTEGER, "description": "x" * 1_000_000}, "1", '""'),
    "a long name": Enforced(
        lambda: {"type": "object", "properties": {"x" * 1_000_000: True}, "additionalProperties": False},
        "{}",
        '{"x": 1}',
    ),
    "200 objects": Enforced(lambda: nested(200, closed_object, INTEGER), '{"a": ' * 200 + "1" + "}" * 200, '{"a": 1}'),
    "200 arrays": Enforced(
        lambda: nested(200, lambda schema: {"type": "array", "items": schema}, INTEGER), "[" * 200 + "]" * 200, "[1]"
    ),
    "200 allOf": Enforced(lambda: nested(200, lambda schema: {"allOf": [schema, {"minimum": 0}]}, INTEGER), "1", "-1"),
    "200 anyOf": Enforced(lambda: nested(200, lambda schema: {"anyOf": [schema, {"const": ""}]}, INTEGER), "1", "null"),
    "200 oneOf": Enforced(lambda: nested(200, lambda schema: {"oneOf": [schema, {"const": ""}]}, INTEGER), "1", "null"),
    "200 not": Enforced(lambda: nested(200, lambda schema: {"not": schema}, INTEGER), "1", "null"),
    "200 references": Enforced(lambda: chain(200, lambda link: {"allOf": [link]}, INTEGER), "1", "null"),
    "5,000 references that lead down": Enforced(
        lambda: chain(5_000, lambda link: {"type": "array", "items": link}, INTEGER), "[[[]]]", "[[1]]"
    ),
    "a product of alternatives": Enforced(
        lambda: {
            "type": "object",
            "allOf": [{"anyOf": [{"required": [f"a{i}"]}, {"required": [f"b{i}"]}]} for i in range(20)],
        },
        json.dumps({f"a{i}": 1 for i in range(20)}),
        '{"a0": 1}',
    ),
    "NUL": Enforced(lambda: {"enum": ["a\0b"]}, r'"a\u0000b"', '"ab"'),
    "NUL in a name": Enforced(
        lambda: {"type": "object", "properties": {"\0": INTEGER}, "additionalProperties": False},
        r'{"\u0000": 1}',
        r'{"\u0001": 1}',
    ),
    "NUL in a pattern": Enforced(lambda: {"type": "string", "pattern": "^a\0b$"}, r'"a\u0000b"', '"ab"'),
    "a surrogate in a description": Enforced(lambda: {**INTEGER, "description": "\ud800"}, "1", '""'),
    "a tiny divisor": Enforced(lambda: {"type": "number", "multipleOf": 1e-300}, "1", "null"),
    "a huge divisor": Enforced(lambda: {"type": "integer", "multipleOf": 10**400}, "0", "1"),
    "a large prime divisor": Enforced(lambda: {"type": "integer", "multipleOf": 1_000_003}, "2000006", "2000007"),
    "a huge maxLength": Enforced(lambda: {"type": "string", "maxLength": 10**30}, '"a"', "1"),
    "a huge minLength": Enforced(lambda: {"type": ["string", "null"], "minLength": 10**9}, "null", '"a"'),
    "a huge minItems": Enforced(lambda: {"type": ["array", "null"], "minItems": 10**6}, "null", "[1]"),
    "a huge minProperties": Enforced(lambda: {"type": ["object", "null"], "minProperties": 10**9}, "null", "{}"),
    "a huge minContains": Enforced(lambda: {"contains": {}, "minContains": 10**9}, "null", "[1]"),
    "a bound beyond doubles": Enforced(lambda: {"type": "integer", "minimum": -(10**400)}, "-1", '"a"'),
    "a bound that nothing reaches": Enforced(lambda: {"type": ["number", "null"], "minimum": 10**400}, "null", "1"),
    "bounds of another type": Enforced(lambda: {"minimum": 5, "maximum": 3}, '"a"', "4"),
}


@pytest.mark.parametrize("case", ENFORCED.values(), ids=ENFORCED)
def test_what_is_large_or_odd_is_enforced(case: Enforced) -> None:
    schema = case.make()
    assert spells(schema, case.valid)
    assert judges(schema, case.valid)
    assert not spells(schema, case.invalid)
    assert not judges(schema, case.invalid)


@pytest.mark.parametrize("name", ["200 objects", "200 allOf", "200 anyOf", "200 oneOf", "many parts", "a wide object"])
def test_objects_are_closed_however_deep_or_wide(name: str) -> None:
    case = ENFORCED[name]
    assert spells(case.make(), case.valid, additional_properties="closed")
    assert not spells(case.make(), case.invalid, additional_properties="closed")


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("doublings", [20, 60])
def test_references_that_double_at_each_step_take_no_more_than_as_many_steps(keyword: str, doublings: int) -> None:
    schema = chain(doublings, lambda link: {keyword: [link, {**link, "minimum": 0}]}, INTEGER)
    is_one = keyword != "oneOf"  # both branches hold for one
    assert (spells(schema, "1"), judges(schema, "1")) == (is_one, is_one)
    assert (spells(schema, "null"), judges(schema, "null")) == (False, False)
    assert spells(schema, "1", additional_properties="closed") is is_one


def test_references_that_double_at_each_level_of_a_value_take_no_more_than_as_many_steps() -> None:
    item = {"type": "array", "items": {"allOf": [{"$ref": "#"}, {"$ref": "#/$defs/same"}]}}
    schema = {**item, "$defs": {"same": {"$ref": "#"}}}
    assert spells(schema, "[" * 60 + "]" * 60)
    assert judges(schema, "[" * 900 + "]" * 900)
    assert not judges(schema, "[" * 60 + "1" + "]" * 60)


PATTERNS = {
    "^(a+)+$": ("a" * 800, "a" * 800 + "b"),
    "(.*)*": ("a" * 800, None),
    "(a|a)*b": ("a" * 800 + "b", "a" * 800),
    "(x+x+)+y": ("x" * 800 + "y", "x" * 800),
    "^(([a-z])+.)+[A-Z]([a-z])+$": ("ab" * 400 + "Ab", "ab" * 400),
    "^(?!(a+)+$)a": ("a" * 400 + "b", "a" * 400),
    "a{300}": ("a" * 300, "a" * 299),
}


@pytest.mark.parametrize("pattern", PATTERNS)
def test_regexes_that_others_take_forever_for_are_tested_in_linear_time(pattern: str) -> None:
    match, other = PATTERNS[pattern]
    for schema, forms in (
        ({"type": "string", "pattern": pattern}, "{}"),
        ({"type": "array", "items": {"pattern": pattern}, "uniqueItems": True}, "[{}]"),
        ({"type": "object", "propertyNames": {"pattern": pattern}}, "{{{}: 1}}"),
        ({"type": "object", "patternProperties": {pattern: {}}, "additionalProperties": False}, "{{{}: 1}}"),
    ):
        valid = forms.format(json.dumps(match))
        assert spells(schema, valid)
        assert judges(schema, valid)
        if other is not None:
            assert not spells(schema, forms.format(json.dumps(other)))
            assert not judges(schema, forms.format(json.dumps(other)))


REFUSED = {
    "a reference to itself": ({"$ref": "#"}, ConstraintCompileError, "never terminates"),
    "references in a circle": (
        {"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        ConstraintCompileError,
        r"at /\$defs/[ab] never terminates",
    ),
    "a value without end": (closed_object({"$ref": "#"}), ConstraintCompileError, "without end"),
    "an array without end": (
        {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
        ConstraintCompileError,
        "without end",
    ),
    "300 references for one value": (chain(300, lambda link: link, {}), ConstraintCompileError, "more than 250 ref"),
    "another server": (
        {"$ref": "https://example.com/schema.json"},
        UnsupportedSchemaError,
        "points outside the schema, to 'https://example.com/schema.json'",
    ),
    "a file": ({"$ref": "file:///etc/passwd"}, UnsupportedSchemaError, "points outside the schema"),
    "nothing": ({"$ref": "#/$defs/none"}, UnsupportedSchemaError, "points to nothing"),
    "a long way to nothing": ({"$ref": "#" + "/a" * 100_000}, UnsupportedSchemaError, "points to nothing"),
    "no values": ({"enum": []}, ConstraintCompileError, "at /enum: the list is empty"),
    "bounds that cross": ({"type": "number", "minimum": 5, "maximum": 3}, ConstraintCompileError, "minimum"),
    "no integer between": (
        {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
        ConstraintCompileError,
        "'type', 'exclusiveMinimum' and 'exclusiveMaximum' at the root contradict",
    ),
    "no multiple between": (
        {"type": "integer", "minimum": 11, "maximum": 13, "multipleOf": 7},
        ConstraintCompileError,
        "multiple",
    ),
    "lengths that cross": ({"type": "string", "minLength": 5, "maxLength": 3}, ConstraintCompileError, "minLength"),
    "counts that cross": ({"type": "array", "minItems": 5, "maxItems": 3}, ConstraintCompileError, "minItems"),
    "numbers of keys that cross": (
        {"type": "object", "minProperties": 5, "maxProperties": 3},
        ConstraintCompileError,
        "minProperties",
    ),
    "a constant of another type": ({"type": "string", "const": 1}, ConstraintCompileError, "No JSON value"),
    "a constant that is not listed": ({"const": 1, "enum": [2, 3]}, ConstraintCompileError, "No JSON value"),
    "a required name that is not allowed": (
        {"type": "object", "properties": {"b": {}}, "required": ["a"], "additionalProperties": False},
        ConstraintCompileError,
        "'a'",
    ),
    "nothing at all": (False, ConstraintCompileError, "No JSON value"),
    "two branches that are the same": (
        {"type": "string", "oneOf": [{"type": "string"}, {"type": "string"}]},
        ConstraintCompileError,
        "branches 0 and 1",
    ),
    "a divisor of 0": ({"multipleOf": 0}, ConstraintCompileError, "at /multipleOf: 0 is not a number greater than 0"),
    "a negative divisor": ({"multipleOf": -1}, ConstraintCompileError, "at /multipleOf"),
    "a surrogate in a constant": ({"const": "\ud800"}, ConstraintCompileError, "at /const.*lone surrogate"),
    "a surrogate in a name": ({"properties": {"\ud800": {}}}, ConstraintCompileError, "at /properties.*surrogate"),
    "a surrogate in a pattern": ({"pattern": "\ud800"}, ConstraintCompileError, "at /pattern.*surrogate"),
    "a surrogate in the text": ('{"enum": ["\\ud800"]}', ConstraintCompileError, "at /enum.*surrogate"),
    "a raw NUL in the text": ('{"const": "\0"}', ConfigError, "control character"),
    "2,500 regexes": (
        {"patternProperties": {f"^p{number}_": {} for number in range(2_500)}},
        UnsupportedSchemaError,
        "is one too many: 2,000",
    ),
    "a back reference": ({"pattern": r"(a)\1"}, UnsupportedSchemaError, "at /pattern cannot be used"),
    "an open bracket": ({"pattern": "("}, UnsupportedSchemaError, "at /pattern cannot be used"),
}


@pytest.mark.parametrize(("schema", "error", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_enforced_is_refused_with_the_reason(schema: Any, error: type[SureactError], said: str) -> None:
    with pytest.raises(error, match=f"(?s){said}"):
        json_schema(schema).compile(VOCABULARY)
    with pytest.raises(error, match=f"(?s){said}"):
        json_schema(schema).check()


LONG = "a" * 100_000


@pytest.mark.parametrize(
    "name",
    ["date", "date-time", "duration", "email", "hostname", "idn-hostname", "ipv4", "regex", "time", "uri", "uuid"],
)
@pytest.mark.parametrize("text", [LONG, "(" * 10_000, LONG + "@" + LONG, "http://" + LONG + "." * 1_000, "\0" * 1_000])
def test_formats_of_long_texts_are_judged_without_a_crash(name: str, text: str) -> None:
    constraint = json_schema({"not": {"format": name}})
    is_valid = judges({"format": name}, json.dumps(text))
    assert judges({"not": {"format": name}}, json.dumps(text)) is not is_valid
    state = constraint.compile(VOCABULARY).new_state()
    assert isinstance(state, object)


def test_a_refused_schema_never_falls_back_to_anything() -> None:
    constraint = json_schema({"type": "string", "minLength": 5, "maxLength": 3})
    for _ in range(2):
        with pytest.raises(ConstraintError):
            constraint.compile(VOCABULARY)
