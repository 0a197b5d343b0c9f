import enum
from typing import Annotated, Any

import pytest
from pydantic import Field

from sureact.agent.docstring import parse_docstring
from sureact.agent.tool import Tool
from sureact.agent.tool_call import run_tool
from sureact.agent.tool_schema import allowed_name, checked_name, described_arguments, given_schema
from sureact.errors import ToolDefinitionError


def google(query: str, k: int = 5) -> None:
    """Search.

    Args:
        query: words to look for
        k (int): how many
    """


def numpy(query: str, k: int = 5) -> None:
    """Search.

    Parameters
    ----------
    query : str
        words to look for
    k : int, optional
        how many
    """


def rest(query: str, k: int = 5) -> None:
    """Search.

    :param query: words to look for
    :param int k: how many
    """


class Notes:
    def add(self, text: str) -> None: ...


@pytest.mark.parametrize("func", [google, numpy, rest])
def test_every_form_of_docstring_describes_the_parameters(func: object):
    tool = Tool(func)  # pyright: ignore[reportArgumentType]
    assert tool.desc == "Search."
    assert tool.args == {
        "query": {"type": "string", "description": "words to look for"},
        "k": {"type": "integer", "description": "how many", "default": 5},
    }
    assert tool.parameters["required"] == ["query"]


def test_the_instance_is_no_argument():
    described = described_arguments(Notes.add, "add", parse_docstring(""), has_self=True)
    assert list(described.schema["properties"]) == ["text"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", "add"),
        ("a/b c", "a_b_c"),
        ("9", "_9"),
        ("", "_"),
        ("x" + "é" * 70, "x" + "_" * 63),
        ("搜索", "u641c_u7d22"),
        ("天气", "u5929_u6c14"),
        ("é" * 70, ("u00e9_" * 11)[:64]),
    ],
)
def test_a_name_from_outside_becomes_one_that_is_allowed(name: str, expected: str):
    assert allowed_name(name) == expected
    assert checked_name(print, expected) == expected


def test_a_schema_per_argument_makes_a_closed_object():
    assert given_schema({"a": {"type": "string"}, "b": {"default": 1}}, "t") == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"default": 1}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_what_is_no_schema_is_refused():
    with pytest.raises(ToolDefinitionError, match="Tool 't'"):
        given_schema([], "t")


class Unit(enum.Enum):
    METER = "m"


LINES: Any = Field(default_factory=list)
METER: Any = Field(default=Unit.METER)
REQUIRED: Any = Field(...)
HIDDEN: Any = Field(default=object())


def fields(
    x: int = Field(description="the x", ge=0),
    y: str = Field(default="d", description="the y"),
    lines: list[str] = LINES,
    next_x: int = Field(default_factory=lambda data: data["x"] + 1),
    unit: Unit = METER,
    z: int | None = Field(None, examples=[7]),
    free: Any = REQUIRED,
) -> list[object]:
    lines.append(y)
    return [x, y, lines, next_x, unit, z, free]


def test_a_default_that_is_a_field_of_pydantic_describes_the_parameter():
    tool = Tool(fields)
    assert tool.parameters["required"] == ["x", "free"]
    assert tool.args == {
        "x": {"type": "integer", "minimum": 0, "description": "the x"},
        "y": {"type": "string", "default": "d", "description": "the y"},
        "lines": {"type": "array", "items": {"type": "string"}},
        "next_x": {"type": "integer"},
        "unit": {"$ref": "#/$defs/Unit", "default": "m"},
        "z": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "examples": [7]},
        "free": {},
    }


def test_a_function_with_fields_of_pydantic_gets_values():
    tool = Tool(fields)
    for _ in range(2):  # what a factory made for one call is not there in the next
        assert tool(x=1, free=0) == [1, "d", ["d"], 2, Unit.METER, None, 0]
    given = {"x": 1, "free": 0, "y": "e", "lines": ["a"], "next_x": 9, "unit": "m", "z": 3}
    assert tool(**given) == [1, "e", ["a", "e"], 9, Unit.METER, 3, 0]
    assert "'x' is a required property" in run_tool(tool, {}).observation
    assert "less than the minimum of 0" in run_tool(tool, {"x": -1, "free": 0}).observation


def test_a_function_whose_schema_is_given_gets_the_values_of_its_fields_too():
    tool = Tool(fields, args={"type": "object", "properties": {"x": {}, "free": {}}})
    assert tool(x=1, free=0) == [1, "d", ["d"], 2, Unit.METER, None, 0]
    assert "'free' is missing, and its Field has no default" in run_tool(tool, {"x": 1}).observation


def endless(x: float = Field(default=float("inf"))) -> None: ...
def hidden(x: Any = HIDDEN) -> str:
    return type(x).__name__


def test_the_default_in_a_field_of_pydantic_is_judged_like_any_other():
    with pytest.raises(ToolDefinitionError, match="'x' has the default inf"):
        Tool(endless)
    assert Tool(hidden).parameters == {"type": "object", "properties": {"x": {}}, "additionalProperties": False}
    assert Tool(hidden)() == "object"


def annotated(x: Annotated[int, Field(description="the x", ge=0)], y: Annotated[str, Field(max_length=3)] = "d") -> str:
    """Take both.

    Args:
        y: the y
    """
    return f"{x} {y}"


def test_a_field_of_pydantic_in_an_annotation_describes_the_parameter():
    tool = Tool(annotated)
    assert tool.parameters["required"] == ["x"]
    assert tool.args == {
        "x": {"type": "integer", "minimum": 0, "description": "the x"},
        "y": {"type": "string", "maxLength": 3, "default": "d", "description": "the y"},
    }
    assert tool(x=1) == "1 d"
