from typing import Literal

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.agent.trace_header import (
    changed_tools,
    fingerprint_of,
    header_of,
    tool_digest,
    tool_record,
)


def look(where: Literal["here", "there"], how: str = "well") -> str:
    """Look somewhere."""
    return where + how


def test_a_digest_changes_with_what_the_model_sees_and_with_nothing_else() -> None:
    digest = tool_record(Tool(look))["digest"]
    assert tool_record(Tool(look, title="Look", repeatable=True, timeout_s=3))["digest"] == digest
    others = [Tool(look, name="see"), Tool(look, desc="Look."), Tool(look, args={"where": {"type": "string"}})]
    assert len({digest, *(tool_record(tool)["digest"] for tool in others)}) == 4
    shown = tool_record(Tool(look))
    assert tool_digest(dict(reversed(shown.items()))) == digest


def test_changes_are_named_tool_by_tool() -> None:
    react = ReAct("q -> a", [look], lm=ScriptedModel([]), prompt_format="fields")
    header = header_of(react, {"q": "?"}, 3)
    assert changed_tools(header, react.tools) == {}
    for tool in header["tools"]:
        del tool["digest"]  # as in version 1
    assert changed_tools(header, react.tools) == {}
    others = {"look": Tool(look, desc="Other."), "see": Tool(look, name="see")}
    assert changed_tools(header, others) == {
        "finish": "is gone",
        "see": "is new",
        "look": "has another description or schema",
    }
    titled = {**react.tools, "look": Tool(look, title="Look")}
    assert changed_tools(header, titled) == {"look": "has another title"}
    del header["tools"][0]["title"]  # as it was not always told
    assert changed_tools(header, titled) == {}


def test_a_model_that_does_not_know_its_files_has_no_fingerprint() -> None:
    assert fingerprint_of(ScriptedModel([])) is None
