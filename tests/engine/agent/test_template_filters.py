import json
from typing import Literal

import pytest
from outlines import Template
from pydantic import BaseModel

from sureact.agent.template_filters import FILTERS
from sureact.agent.tool import Tool


def search(query: str, order: Literal["asc", "desc"] = "asc", k: int = int("5")) -> list[str]:
    """Search the archive.

    Args:
        query: words to look for
    """
    return [query]


class Note(BaseModel):
    title: str


TOOL = Tool(search)
GIVEN = Tool(search, "open-door", "Open a door.\nGently.", {"which": {"type": "string"}})


def rendered(text: str, value: object) -> str:
    return Template.from_string("{{ value | " + text + " }}", FILTERS)(value=value)


@pytest.mark.parametrize(
    ("filter_name", "text"),
    [
        ("name", "search"),
        ("description", "Search the archive."),
        ("args", 'query: str, order: Literal["asc", "desc"] = "asc", k: int = 5'),
        ("signature", 'query: str, order: Literal["asc", "desc"] = "asc", k: int = 5'),
    ],
)
def test_a_tool_is_described_as_the_model_may_call_it(filter_name: str, text: str) -> None:
    assert rendered(filter_name, TOOL) == text


def test_a_tool_with_a_given_schema_is_described_by_it() -> None:
    assert [rendered(name, GIVEN) for name in ("name", "description", "args")] == [
        "open-door",
        "Open a door.",
        "which: str",
    ]


def test_the_schema_of_a_tool_is_that_of_its_arguments() -> None:
    assert json.loads(rendered("schema", TOOL)) == TOOL.parameters


def test_the_source_of_a_tool_is_that_of_its_function() -> None:
    assert rendered("source", TOOL).startswith("def search(query: str")


@pytest.mark.parametrize("filter_name", ["name", "description", "source", "args", "signature"])
def test_a_function_is_described_as_outlines_does(filter_name: str) -> None:
    plain = Template.from_string("{{ value | " + filter_name + " }}")
    assert rendered(filter_name, search) == plain(value=search)


@pytest.mark.parametrize("value", [Note, {"type": "string"}])
def test_models_and_schemas_are_shown_as_outlines_does(value: object) -> None:
    assert rendered("schema", value) == Template.from_string("{{ value | schema }}")(value=value)


def test_a_plain_outlines_template_takes_a_tool() -> None:
    template = Template.from_string(
        "{% for t in tools %}{{ t | name }}: {{ t | description }} ({{ t | args }}){% endfor %}"
    )
    text = template(tools=[TOOL])
    assert text.startswith("search: Search the archive. (query: str, order:")
    assert Template.from_string("{{ t | source }}")(t=TOOL) == rendered("source", TOOL)
