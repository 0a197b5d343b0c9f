"""Functions become tools: their types JSON schema, their names what tools may be called."""

from typing import Any

import pytest

from sureact.agent.prompt_format import call_branches
from sureact.evaluation.bfcl.functions import STUB_RESULT, FunctionTools, json_schema_of


def function(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "description": "d", "parameters": {"type": "dict", "properties": properties, "required": []}}


@pytest.mark.parametrize(
    ("given", "schema"),
    [
        ({"type": "float"}, {"type": "number"}),
        ({"type": "any", "description": "d"}, {"description": "d"}),
        ({"type": "tuple", "items": {"type": "float"}}, {"type": "array", "items": {"type": "number"}}),
        ({"type": "dict"}, {"type": "object", "additionalProperties": True}),
        ({"type": "string", "enum": ["a", "b", "a"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "array", "enum": ["a"]}, {"type": "array", "items": {"enum": ["a"]}}),
        (
            {"type": "array", "enum": ["a"], "items": {"type": "string"}},
            {"type": "array", "items": {"type": "string", "enum": ["a"]}},
        ),
        ({"type": "integer", "default": None, "optional": True}, {"type": "integer"}),
        ({"type": "integer", "default": 0}, {"type": "integer", "default": 0}),
        (
            {"type": "dict", "properties": {"a": {"type": "dict", "properties": {"b": {"type": "float"}}}}},
            {
                "type": "object",
                "properties": {
                    "a": {"type": "object", "properties": {"b": {"type": "number"}}, "required": []},
                },
                "required": [],
            },
        ),
        (
            {"type": "dict", "properties": {"a": {"type": "string"}}, "required": ["a", "a", "gone"]},
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
        ),
    ],
)
def test_types_become_those_of_json_schema(given: dict[str, Any], schema: dict[str, Any]) -> None:
    assert json_schema_of(given) == schema


def test_what_is_given_is_not_changed() -> None:
    given = {"type": "dict", "properties": {"a": {"type": "array", "enum": ["x"], "items": {"type": "string"}}}}
    before = str(given)
    json_schema_of(given)
    assert str(given) == before


def test_names_are_mapped_and_mapped_back() -> None:
    given = ["math.hypot", "math_hypot", "math hypot", "finish", "2d", "x" * 70, "x" * 71]
    tools = FunctionTools([function(name) for name in given])
    assert len(tools.tools) == len(given)
    assert next(iter(tools.tools)) == "math_hypot"
    assert "finish" not in tools.tools
    assert [tools.given_name(name) for name in tools.tools] == given
    call_branches(tools.tools)


def test_a_tool_takes_its_arguments_and_accepts_them() -> None:
    tools = FunctionTools([function("f", x={"type": "float"})])
    assert tools.tools["f"].desc == "d"
    assert tools.tools["f"](x=1.5) == STUB_RESULT
