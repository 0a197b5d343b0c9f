import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from sureact.agent.tool_host import ToolHost

FILE = """
import threading
from sureact.agent.tool import Tool
ENTERED = []
class Log:
    def __init__(self): self.lines = []
    def __enter__(self): ENTERED.append(self); return self
    def __exit__(self, *_): ENTERED.remove(self)
    def write(self, line: str) -> list[str]: self.lines.append(line); return self.lines
    def read(self) -> list[str]: return self.lines
def entered() -> int: return len(ENTERED)
def wait() -> None: threading.Event().wait(60)
TOOLS = [*Tool.methods_of(Log), entered, wait, Tool(entered, "slow", timeout_s=2, retries=3, backoff_s=1)]
"""


class Talk:
    """Sends messages to a host, and waits for answers."""

    def __init__(self, file: Path) -> None:
        self.replies: SimpleQueue[Mapping[str, Any]] = SimpleQueue()
        self.host = ToolHost(self.replies.put)
        self.loaded = self.ask(load=str(file), timeout_s=7, path=[])

    def ask(self, **message: Any) -> dict[str, Any]:
        self.host.take({"id": 1, **message})
        return dict(self.replies.get(timeout=60))

    def call(self, name: str, run: int | None = None, **args: Any) -> dict[str, Any]:
        return self.ask(call=name, args=args, run=run)


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talk:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "some_tools.py"
    path.write_text(FILE)
    return Talk(path)


def test_tools_are_described_with_what_they_share_and_how_long_a_call_may_take(talk: Talk):
    described = [(tool["name"], tool["state"], tool["most_s"]) for tool in talk.loaded["tools"]]
    assert described == [("write", 0, 7), ("read", 0, 7), ("entered", None, 7), ("wait", None, 7), ("slow", None, 15)]


def test_a_run_has_its_own_instances_until_it_ends(talk: Talk):
    assert talk.call("write", 5, line="a") == {"id": 1, "text": '["a"]'}
    assert talk.call("read", 5)["text"] == '["a"]'
    assert talk.call("read", 6)["text"] == "[]"
    assert talk.call("entered")["text"] == "2"
    talk.host.take({"end_run": 5})
    talk.host.take({"end_run": 7})
    while talk.call("entered")["text"] != "1":
        pass


def test_a_call_can_be_cancelled(talk: Talk):
    threading.Timer(0.1, lambda: talk.host.take({"cancel": 1})).start()
    assert talk.call("wait")["error"] == "RequestAbortedError"
    talk.host.take({"cancel": 1})


def test_a_file_without_tools_is_told_and_a_message_that_is_none_is_a_fault(talk: Talk):
    assert "no tool file" in talk.ask(load="nowhere.py", timeout_s=1, path=[])["message"]
    with pytest.raises(TypeError, match="no message"):
        talk.host.take({"id": 1})
