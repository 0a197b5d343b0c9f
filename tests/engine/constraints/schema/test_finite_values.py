from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.finite_values import finite_values
from sureact.constraints.schema.keywords import Schema

DEFINITIONS: dict[str, Schema] = {
    "color": {"enum": ["red", "blue"]},
    "level": {"type": "integer", "minimum": 1, "maximum": 3},
    "tree": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
}
COLOR = {"$ref": "#/$defs/color"}
LEVEL = {"$ref": "#/$defs/level"}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (True, None),
        (False, []),
        ({}, None),
        ({"const": 1, "enum": [1, 2]}, [1]),
        ({"enum": [1, True, 1.0, "1"]}, [1.0, True, "1"]),
        ({"type": "null"}, [None]),
        ({"type": "boolean"}, [False, True]),
        ({"type": ["null", "boolean"]}, [None, False, True]),
        ({"type": ["null", "string"]}, None),
        ({"type": "integer", "minimum": 1}, None),
        ({"type": "integer", "minimum": 1, "maximum": 3}, [1, 2, 3]),
        ({"type": ["integer", "null"], "exclusiveMinimum": 0.5, "exclusiveMaximum": 3.0}, [1, 2, None]),
        ({"type": "integer", "minimum": 0, "exclusiveMinimum": 0, "maximum": 2.5}, [1, 2]),
        ({"type": "integer", "minimum": 3, "maximum": 1}, []),
        ({"type": "integer", "minimum": 1, "maximum": 200}, list(range(1, 201))),
        ({"type": "integer", "minimum": 0, "maximum": 200}, None),
        ({"type": "number", "minimum": 1, "maximum": 3}, None),
        (COLOR, ["red", "blue"]),
        ({"anyOf": [COLOR, {"type": "null"}]}, ["red", "blue", None]),
        ({"oneOf": [LEVEL, {"const": 3}, COLOR]}, [1, 2, 3, "red", "blue"]),
        ({"anyOf": [COLOR, {"type": "string"}]}, None),
        ({"anyOf": [COLOR, {"type": "string"}], "enum": ["red", "blue", "x"]}, ["red", "blue", "x"]),
        ({**COLOR, "type": "string"}, ["red", "blue"]),
        ({"$ref": "#/$defs/tree"}, None),
    ],
)
def test_the_only_values_of_a_schema_are_listed(schema: Schema, values: list[Any] | None) -> None:
    assert finite_values(schema, DEFINITIONS) == values


@given(st.floats(-5, 5), st.floats(-5, 5), st.sampled_from(["minimum", "exclusiveMinimum"]))
def test_a_range_has_the_integers_between_its_bounds(least: float, most: float, keyword: str) -> None:
    schema = {"type": "integer", keyword: least, "exclusiveMaximum": most}
    expected = [n for n in range(-6, 7) if (n >= least if keyword == "minimum" else n > least) and n < most]
    assert finite_values(schema, {}) == expected


def test_references_that_meet_again_and_again_are_followed_once() -> None:
    definitions: dict[str, Schema] = {"d0": {"type": "null"}}
    for level in range(1, 200):
        part = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"anyOf": [part, part]}
    assert finite_values({"$ref": "#/$defs/d199"}, definitions) == [None]
