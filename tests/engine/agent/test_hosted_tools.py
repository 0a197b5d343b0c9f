import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.hosted_tools import hosted_tools
from sureact.agent.tool import Tool
from sureact.agent.tool_call import ToolResult, run_tool
from sureact.agent.tool_file import load_tools
from sureact.agent.tool_run import ToolCall, ToolRun
from sureact.errors import RequestAbortedError, ToolDefinitionError

FILE = '''
import asyncio, os, sys, threading, time
from enum import Enum
from sureact.agent.tool import Tool

class Color(Enum):
    RED = "red"

class OddError(Exception): ...

noted = []
tries = []

def note(text: str) -> list[str]:
    """Note a text."""
    noted.append(text)
    return noted

def mix(color: Color, k: int = 2) -> dict[str, object]:
    """Mix a color."""
    return {"color": color.name, "k": k}

async def later(text: str) -> str:
    await asyncio.sleep(0)
    return text.upper()

def where() -> list[object]:
    return [os.getpid(), os.getppid()]

def fail(kind: str) -> str:
    """Fail."""
    raise {"odd": OddError, "exit": SystemExit, "stop": KeyboardInterrupt}[kind](f"no {kind} caf\\udce9")

def end() -> None:
    os._exit(3)

def spin() -> None:
    while True:
        pass

def compute() -> int:
    while os.getpriority(os.PRIO_PROCESS, 0) != 19:
        pass
    return 19

def flaky() -> int:
    tries.append(1)
    if len(tries) < 3:
        raise OddError("not yet")
    return len(tries)

class Basket:
    """What a run buys."""
    def __init__(self): self.items = []
    def __enter__(self): return self
    def __exit__(self, *_): noted.append(f"left with {self.items}")
    def put(self, item: str) -> list[str]:
        self.items.append(item)
        return self.items
    def count(self) -> int: return len(self.items)

TOOLS = [
    note, mix, later, where, fail, end, compute,
    Tool(spin, timeout_s=0.3), Tool(spin, "spin_on"),
    Tool(flaky, retries=2, retry_on=(OddError,), backoff_s=0.01, repeatable=True, idempotent=True, title="Flaky!"),
    Tool(lambda: "from nowhere", "closure", "No name."),
    *Tool.methods_of(Basket),
]
'''


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tools") / "many_tools.py"
    path.write_text(FILE)
    return path


@pytest.fixture(scope="module")
def tools(file: Path) -> dict[str, Tool]:
    return {tool.name: tool for tool in hosted_tools(file, 60)}


def test_the_model_sees_the_tools_of_the_file(tools: dict[str, Tool], file: Path):
    def seen(tool: Tool) -> list[object]:
        return [tool.name, tool.desc, tool.title, tool.parameters, tool.repeatable, tool.idempotent]

    assert [seen(tool) for tool in tools.values()] == [seen(tool) for tool in load_tools(file)]


def test_calls_run_in_one_process(tools: dict[str, Tool]):
    where = [tools["where"]() for _ in range(2)]
    assert where[0] == where[1]
    process_id = int(str(where[0])[1:].partition(",")[0])
    assert str(where[0]) == f"[{process_id}, {os.getpid()}]"
    assert os.getsid(process_id) == os.getsid(0)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("mix", {"color": "red"}),
        ("later", {"text": "é"}),
        ("closure", {}),
        ("fail", {"kind": "odd"}),
        ("fail", {"kind": "exit"}),
        ("spin", {}),
    ],
)
def test_observations_are_those_of_the_tools_in_this_process(
    tools: dict[str, Tool], file: Path, name: str, args: dict[str, str]
):
    def told(result: ToolResult) -> list[object]:
        return [result.observation, result.is_error, result.outcome, result.error_type]

    here = {tool.name: tool for tool in load_tools(file)}
    assert told(run_tool(tools[name], args)) == told(run_tool(here[name], args))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has priorities of single threads")
def test_a_call_that_computes_steps_back(tools: dict[str, Tool]):
    assert tools["compute"]() == "19"


def test_an_interrupt_that_a_tool_raises_is_an_observation(tools: dict[str, Tool]):
    assert run_tool(tools["fail"], {"kind": "stop"}).error_type == "KeyboardInterrupt"


def test_retries_know_the_errors_of_the_file(tools: dict[str, Tool]):
    assert tools["flaky"]() == "3"


def test_what_the_file_holds_is_shared_and_instances_are_those_of_a_run(tools: dict[str, Tool]):
    assert tools["note"](text="a") == '["a"]'
    with ToolRun(tools) as first, ToolRun(tools) as second:
        assert first.run("put", {"item": "tea"}).observation == '["tea"]'
        assert first.run("count", {}).observation == "1"
        assert second.run("count", {}).observation == "0"
        results = first.run_tools([ToolCall("put", {"item": str(number)}) for number in range(3)])
        assert results[-1].observation == '["tea", "0", "1", "2"]'
        assert tools["count"]() == "0"
    wait_until(lambda: "left with ['tea', '0', '1', '2']" in str(tools["note"](text="b")))


def test_a_call_that_is_cancelled_is_given_up_and_others_go_on(file: Path):
    tools = {tool.name: tool for tool in hosted_tools(file, 60)}  # which end with the one that spins on
    cancellation = Cancellation()
    threading.Timer(0.2, cancellation.cancel).start()
    with pytest.raises(RequestAbortedError):
        tools["spin_on"].run({}, None, cancellation)
    assert tools["later"](text="on") == "ON"


def test_calls_run_side_by_side(tools: dict[str, Tool]):
    with ToolRun(tools) as run:
        results = run.run_tools([ToolCall("later", {"text": str(number)}) for number in range(40)])
    assert [result.observation for result in results] == [str(number) for number in range(40)]


def test_where_the_process_ends_calls_fail_and_the_next_one_runs_the_file_anew(file: Path):
    tools = {tool.name: tool for tool in hosted_tools(file, 60)}
    tools["note"](text="lost")
    result = run_tool(tools["end"], {})
    assert result.observation == (
        "Execution error in end: ToolExecutionError: the process of the tools ended with exit code 3"
    )
    assert tools["note"](text="new") == '["new"]'


def test_the_process_ends_with_the_tools(file: Path):
    gc.collect()
    before = children()
    tools = hosted_tools(file, 60)
    assert len(children()) == len(before) + 1
    del tools
    gc.collect()
    assert children() == before


def test_the_process_ends_with_the_program(file: Path):
    code = (
        "import os, sys; from sureact.agent.hosted_tools import hosted_tools\n"
        f"tools = {{tool.name: tool for tool in hosted_tools({str(file)!r}, 60)}}\n"
        "print(tools['where'](), flush=True); os.kill(os.getpid(), 9)\n"
    )
    output = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False).stdout
    process_id = int(output[1:].partition(",")[0])
    wait_until(lambda: not psutil.pid_exists(process_id))


def test_a_file_that_gives_no_tools_says_why(tmp_path: Path):
    path = tmp_path / "faulty_tools.py"
    with pytest.raises(ToolDefinitionError, match=r"no tool file '.*faulty_tools\.py'"):
        hosted_tools(path, 60)
    path.write_text("x = 1\nraise ValueError('no key')\n")
    with pytest.raises(ToolDefinitionError, match=r"faulty_tools\.py, line 2: ValueError: no key"):
        hosted_tools(path, 60)
    path.write_text("import os\nos._exit(4)\n")
    with pytest.raises(ToolDefinitionError, match="ended with exit code 4 while it ran the file"):
        hosted_tools(path, 60)


def children() -> set[int]:
    return {process.pid for process in psutil.Process().children()}


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
