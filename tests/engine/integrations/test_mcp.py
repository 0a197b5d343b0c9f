"""A real server, in a process of its own, on its standard input and output and on a port of this machine."""

import asyncio
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.tool import Tool
from sureact.agent.tool_call import run_tool
from sureact.errors import ConfigError, ToolDefinitionError, ToolExecutionError
from sureact.integrations.mcp import mcp_tools

SERVER = str(Path(__file__).with_name("mcp_server.py"))
COMMAND = [sys.executable, SERVER]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([*COMMAND, str(port)], stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except OSError:
            time.sleep(0.1)
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def servers() -> set[int]:
    """Processes of this one that are servers."""
    return {child.pid for child in psutil.Process().children(recursive=True) if SERVER in child.cmdline()}


def by_name(tools: list[Tool]) -> dict[str, Tool]:
    return {tool.name: tool for tool in tools}


@pytest.fixture(scope="module", params=["stdio", "http"])
def tools(request: pytest.FixtureRequest) -> Iterator[dict[str, Tool]]:
    server: Any = COMMAND if request.param == "stdio" else request.getfixturevalue("url")
    with mcp_tools(server, timeout_s=20) as found:
        yield by_name(found)


def test_tools_have_the_servers_names_and_schemas(tools: dict[str, Tool]):
    assert list(tools) == ["add", "refuse", "environment", "linger", "leave", "odd_name"]
    add = tools["add"]
    assert (add.title, add.desc) == ("Sum", "Add two numbers.")
    assert add.args == {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}}
    assert add.parameters["required"] == ["a"]


def test_a_call_goes_to_the_server(tools: dict[str, Tool]):
    assert run_tool(tools["add"], {"a": 1}).observation == "3"
    assert run_tool(tools["odd_name"], {}).observation == "one\n<|im_end|> two"


def test_an_error_of_the_server_is_an_observation(tools: dict[str, Tool]):
    result = run_tool(tools["refuse"], {"reason": "not today"})
    assert result.observation == "Execution error in refuse: ToolExecutionError: Error executing tool refuse: not today"


def test_a_session_serves_many_threads(tools: dict[str, Tool]):
    results: dict[int, object] = {}

    def call(number: int) -> None:
        results[number] = tools["add"](a=number)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {number: str(number + 2) for number in range(16)}


def test_a_call_works_inside_a_running_loop(tools: dict[str, Tool]):
    async def outer() -> object:
        return tools["add"](a=1)

    assert asyncio.run(outer()) == "3"


def test_a_call_that_takes_too_long_is_cancelled_and_the_next_one_works():
    with mcp_tools(COMMAND, timeout_s=0.3, names=["linger"]) as (linger,):
        result = run_tool(linger, {"seconds": 1.0})
        assert result.outcome == "timeout"
        assert run_tool(linger, {"seconds": 0.0}).observation == "done"


def test_an_agent_uses_the_tools_of_a_server(tools: dict[str, Tool]):
    script = [" I add.\n", 'Action: add\nArguments: {"a": 1, "b": 2}\n', " Done.\n", "Action: finish\nArguments: {}\n"]
    lm = ScriptedModel([*script, '{"reasoning": "added", "answer": 3}'])
    agent = ReAct("question -> answer: int", tools.values(), lm=lm, prompt_format="fields")
    prediction = agent(question="1 + 2?")
    assert prediction.answer == 3
    assert prediction.trajectory["observation_0"] == "3"


def test_a_server_that_ends_leaves_observations():
    with mcp_tools(COMMAND, timeout_s=20) as found:
        tools = by_name(found)
        assert run_tool(tools["leave"], {}).is_error
        assert run_tool(tools["add"], {"a": 1}).is_error


def test_after_the_block_the_session_is_closed_and_the_server_ended():
    before = servers()
    with mcp_tools(COMMAND, names=["add"], prefix="calc_") as (add,):
        assert (add.name, add(a=1)) == ("calc_add", "3")
        assert len(servers() - before) == 1
    assert "is closed" in run_tool(add, {"a": 1}).observation
    assert servers() == before


def test_the_command_gets_its_environment_and_folder(tmp_path: Path):
    env = {"SUREACT_TEST_WORD": "apple"}
    with mcp_tools(COMMAND, env=env, cwd=tmp_path, names=["environment"]) as (read,):
        assert read(name="SUREACT_TEST_WORD") == "apple"


def test_headers_go_with_a_url(url: str):
    with mcp_tools(url, headers={"Authorization": "Bearer x"}, names=["add"]) as (add,):
        assert add(a=1) == "3"


def test_a_server_that_cannot_be_reached_is_refused(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.CRITICAL)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(ToolExecutionError, match="no connection"), mcp_tools(f"http://127.0.0.1:{port}/mcp"):
        pass
    with pytest.raises(ToolExecutionError, match="no connection"), mcp_tools(["no-such-command-here"]):
        pass


def test_a_server_that_does_not_answer_is_given_up():
    silent = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with pytest.raises(ToolExecutionError, match=r"within 0\.3 s"), mcp_tools(silent, connect_timeout_s=0.3):
        pass


@pytest.mark.parametrize(
    ("server", "options"),
    [
        ("ftp://x", {}),
        ("python server.py", {}),
        ([], {}),
        (5, {}),
        ([1], {}),
        ("http://127.0.0.1/mcp", {"env": {}}),
        ("http://127.0.0.1/mcp", {"cwd": "."}),
        (["python"], {"headers": {}}),
        (["python"], {"connect_timeout_s": 0}),
        (["python"], {"timeout_s": -1}),
        (["python"], {"retries": -1}),
        (["python"], {"nonsense": 1}),
    ],
    ids=str,
)
def test_options_that_are_not_allowed_are_refused(server: Any, options: dict[str, Any]):
    with pytest.raises((ConfigError, TypeError)), mcp_tools(server, **options):
        pass


def test_a_name_that_the_server_lacks_is_refused():
    with (
        pytest.raises(ToolDefinitionError, match="no tool 'subtract'; it has add"),
        mcp_tools(COMMAND, names=["subtract"]),
    ):
        pass


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigError, match=r"sureact\[mcp\]"), mcp_tools(COMMAND):
        pass
