from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from sureact.agent.type_notation import type_notation


class Node(BaseModel):
    name: str
    next: "Node | None" = None


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({}, "Any"),
        ({"type": "string"}, "str"),
        ({"type": "string", "format": "date"}, "str (date)"),
        ({"type": ["integer", "null"]}, "int | None"),
        ({"enum": ["asc", 1]}, 'Literal["asc", 1]'),
        ({"const": "é"}, 'Literal["é"]'),
        ({"type": "array", "items": {"type": "number"}}, "list[float]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object"}, "dict"),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, "dict[str, int]"),
        ({"anyOf": [{"type": "boolean"}, {"type": "null"}]}, "bool | None"),
        ({"allOf": [{"type": "boolean"}]}, "bool"),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            "{a: str, b?: Any}",
        ),
    ],
)
def test_schemas_read_like_python_types(schema: dict[str, Any], text: str):
    assert type_notation(schema) == text


def test_a_type_inside_itself_is_named():
    schema = TypeAdapter(list[Node]).json_schema()
    assert type_notation(schema) == "list[{name: str, next?: Node | None}]"


def test_an_unknown_reference_is_named():
    assert type_notation({"$ref": "#/$defs/Lost"}) == "Lost"
