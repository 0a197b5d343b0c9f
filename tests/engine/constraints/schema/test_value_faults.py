from typing import Any

import pytest

from sureact.constraints.schema.value_faults import fault_of_names, fault_of_text, fault_of_values


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ({}, None),
        ({"enum": [1], "not": {"const": 2}}, None),
        ({"const": 1, "enum": [1, 2]}, None),
        ({"const": 1, "enum": [True]}, ("const is no value of enum", "/x/const")),
        ({"const": 1, "not": {"const": 1.0}}, ("not forbids every listed value", "/x/not")),
        ({"enum": ["a", "b"], "not": {"enum": ["b", "c", "a"]}}, ("not forbids every listed value", "/x/not")),
        ({"enum": ["a"], "not": {"const": "a", "type": "null"}}, None),
        ({"enum": ["a", 1], "not": {"const": 1}, "type": "integer"}, ("no listed value is of type integer", "/x")),
        ({"enum": [1, None], "type": ["string", "array"]}, ("no listed value is of type string or array", "/x")),
        ({"const": 1.0, "type": "integer"}, None),
    ],
)
def test_listed_values_of_which_none_is_left_are_a_fault(schema: dict[str, Any], fault: tuple[str, str] | None) -> None:
    assert fault_of_values(schema, "/x") == fault


@pytest.mark.parametrize(
    ("forbidden", "is_fault"),
    [
        ({"pattern": ""}, True),
        ({"pattern": "a*", "type": "string"}, True),
        ({"pattern": r"^[\s\S]*$"}, True),
        ({"pattern": "^.*$"}, False),
        ({"pattern": "", "type": "integer"}, False),
        ({"pattern": "", "minLength": 1}, False),
        ({"pattern": "("}, False),
    ],
)
def test_a_forbidden_pattern_that_occurs_everywhere_is_a_fault(forbidden: dict[str, Any], is_fault: bool) -> None:
    fault = fault_of_text({"type": "string", "not": forbidden}, "/x")
    assert (fault is not None) == is_fault
    assert fault is None or fault[1] == "/x/not"


@pytest.mark.parametrize(
    ("schema", "is_fault"),
    [
        ({"required": ["ab"], "propertyNames": {"maxLength": 1}}, True),
        ({"required": ["a"], "propertyNames": {"minLength": 2}}, True),
        ({"required": ["a"], "propertyNames": {"enum": ["b"]}}, True),
        ({"required": ["b", "a"], "propertyNames": {"pattern": "^b"}}, True),
        ({"required": ["a"], "propertyNames": False}, True),
        ({"required": ["é"], "propertyNames": {"maxLength": 1, "pattern": "^.$", "enum": ["é"]}}, False),
        ({"required": ["a"], "propertyNames": {"pattern": "("}}, False),
        ({"required": ["a"]}, False),
        ({"minProperties": 3, "propertyNames": {"enum": ["a", "b", 1]}}, True),
        ({"minProperties": 3, "propertyNames": {"$ref": "#/$defs/two"}}, True),
        ({"minProperties": 2, "propertyNames": {"enum": ["a", "b"]}}, False),
        ({"minProperties": 1, "propertyNames": False}, True),
        ({"minProperties": 9, "propertyNames": {"maxLength": 3}}, False),
    ],
)
def test_names_that_are_needed_and_not_allowed_are_a_fault(schema: dict[str, Any], is_fault: bool) -> None:
    fault = fault_of_names(schema, "/x", {"two": {"enum": ["a", "b"]}})
    assert (fault is not None) == is_fault
    assert fault is None or fault[1] == "/x/propertyNames"
