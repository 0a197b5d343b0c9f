import pytest

from sureact.agent.docstring import parse_docstring
from sureact.agent.tool import Tool
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
