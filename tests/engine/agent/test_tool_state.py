import copy
import threading
from typing import Any

import pytest

from sureact.agent.tool import Tool
from sureact.agent.tool_state import RunInstances, ToolMethod, ToolState
from sureact.errors import ToolDefinitionError, ToolExecutionError, ToolTimeoutError


class Notes:
    """Keeps notes."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1
        self.texts: list[str] = []

    def add(self, text: str) -> int:
        """Add a note.

        Args:
            text: what to note
        """
        self.texts.append(text)
        return len(self.texts)

    async def read(self) -> list[str]:
        """Read all notes."""
        return self.texts

    @staticmethod
    def limit() -> int:
        """Most notes."""
        return 9

    @classmethod
    def kind(cls) -> str:
        """Kind of notes."""
        return cls.__name__

    def _hidden(self) -> None: ...

    @property
    def size(self) -> int:
        return len(self.texts)


class MoreNotes(Notes):
    def add(self, text: str, twice: bool = False) -> int:
        """Add a note, twice if asked."""
        return super().add(text) + twice

    def clear(self) -> None:
        """Forget all."""
        self.texts.clear()


class Connection:
    """A connection that is opened once a run."""

    log: list[str] = []  # noqa: RUF012

    def __enter__(self) -> "Connection":
        self.log.append("opened")
        return self

    def __exit__(self, *error: object) -> None:
        self.log.append("closed")

    def __call__(self, query: str) -> str:
        """Ask.

        Args:
            query: what to ask
        """
        return query.upper()


class NeedsArguments:
    def __init__(self, path: str) -> None:
        self.path = path

    def where(self) -> str:
        """Where it is."""
        return self.path


class Broken:
    def __init__(self) -> None:
        raise OSError("no disk")

    def look(self) -> str:
        """Look."""
        return ""


def bound(tools: list[Tool], instances: RunInstances) -> dict[str, Tool]:
    return {tool.name: tool.bound_to(instances) for tool in tools}


def test_public_methods_are_tools_in_order():
    tools = Tool.methods_of(Notes)
    assert [tool.name for tool in tools] == ["add", "read", "limit", "kind"]
    assert tools[0].desc == "Add a note."
    assert tools[0].args == {"text": {"type": "string", "description": "what to note"}}
    more = Tool.methods_of(MoreNotes)
    assert [tool.name for tool in more] == ["add", "read", "limit", "kind", "clear"]
    assert list(more[0].args) == ["text", "twice"]


def test_the_tools_of_a_run_share_an_instance_and_runs_do_not():
    tools = Tool.methods_of(Notes, repeatable=True)
    first, second = bound(tools, RunInstances()), bound(tools, RunInstances())
    before = Notes.made
    assert [first["add"](text="a"), first["add"](text="b"), second["add"](text="c")] == [1, 2, 1]
    assert first["read"]() == ["a", "b"]
    assert (first["limit"](), first["kind"]()) == (9, "Notes")
    assert Notes.made - before == 2
    assert first["add"].repeatable


def test_outside_of_a_run_each_call_has_an_instance_of_its_own():
    add, read, *_ = Tool.methods_of(Notes)
    assert [add(text="a"), add(text="b"), read()] == [1, 1, []]


def test_a_class_that_can_be_called_is_one_tool():
    tool = Tool(Connection)
    assert (tool.name, tool.desc, list(tool.args)) == ("Connection", "Ask.", ["query"])
    assert Tool(Connection, "ask", "Asks.").name == "ask"


def test_what_is_a_context_manager_is_entered_once_and_left_with_the_run():
    Connection.log.clear()
    instances = RunInstances()
    ask = Tool(Connection).bound_to(instances)
    assert Connection.log == []
    assert [ask(query="a"), ask(query="b")] == ["A", "B"]
    assert Connection.log == ["opened"]
    instances.close()
    assert Connection.log == ["opened", "closed"]
    Tool(Connection)(query="a")
    assert Connection.log == ["opened", "closed", "opened", "closed"]


def test_instances_can_be_made_with_arguments():
    (where,) = Tool.methods_of(NeedsArguments, make=lambda: NeedsArguments("here"))
    assert where() == "here"


def test_an_instance_that_cannot_be_made_is_an_error_of_the_call():
    (look,) = Tool.methods_of(Broken)
    with pytest.raises(OSError, match="no disk"):
        look.bound_to(RunInstances())()


def test_arguments_are_judged_as_those_of_a_function():
    add = Tool.methods_of(Notes)[0].bound_to(RunInstances())
    with pytest.raises(ToolExecutionError, match="add refuses"):
        add(text=1)


def test_a_function_stays_what_it_is_in_a_run():
    tool = Tool(len, args={"obj": {"type": "string"}})
    assert tool.bound_to(RunInstances()) is tool
    assert tool.state is None


def test_a_method_names_itself():
    state = ToolState(Notes)
    assert ToolMethod(state, "add").__name__ == "add"
    assert state.method_names() == ["add", "read", "limit", "kind"]


@pytest.mark.parametrize(
    ("owner", "make"), [(NeedsArguments, None), (Notes, 5), (int, None), (type("Empty", (), {}), None), (Notes(), None)]
)
def test_what_gives_no_tools_is_refused(owner: Any, make: Any):
    with pytest.raises(ToolDefinitionError):
        Tool.methods_of(owner, make)


class Clumsy(Connection):
    def __exit__(self, *error: object) -> None:
        raise OSError("stuck")


def test_what_fails_at_the_end_is_a_warning():
    instances = RunInstances()
    Tool(Clumsy).bound_to(instances)(query="a")
    with pytest.warns(RuntimeWarning, match="A Clumsy raised when its run ended: OSError: stuck"):
        instances.close()


def test_an_instance_that_is_made_too_late_is_left_at_once():
    Connection.log.clear()
    instances = RunInstances()
    instances.close()
    with pytest.raises(ToolExecutionError, match="run has ended"):
        Tool(Connection).bound_to(instances)(query="a")
    assert Connection.log == ["opened", "closed"]


RELEASE = threading.Event()


class Slow:
    def __init__(self) -> None:
        RELEASE.wait(30)

    def look(self) -> str:
        """Look."""
        return ""


def test_a_class_that_hangs_holds_up_no_other_and_not_the_end():
    instances = RunInstances()
    (look,) = Tool.methods_of(Slow, timeout_s=0.05)
    with pytest.raises(ToolTimeoutError):
        look.bound_to(instances)()
    assert Tool(Connection).bound_to(instances)(query="a") == "A"
    instances.close()
    RELEASE.set()


def test_a_copy_of_what_holds_a_tool_holds_the_same_tool():
    tool = Tool(Connection)
    assert copy.deepcopy([tool])[0] is tool
