import gc
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pydantic import BaseModel

from sureact.agent.cancellation import Cancellation
from sureact.agent.isolated_tool import IsolatedCallError
from sureact.agent.tool import Tool
from sureact.agent.tool_call import run_tool
from sureact.agent.tool_file import load_tools
from sureact.agent.tool_run import ToolCall, run_tools
from sureact.errors import RequestAbortedError, ToolDefinitionError, ToolExecutionError, ToolTimeoutError


class Point(BaseModel):
    x: int


def describe(point: Point, k: int = 2) -> dict[str, int]:
    """Describe a point."""
    sys.stdout.write("printed, which must not end up in the answer\n")
    return {"x": point.x, "k": k}


def process() -> list[int]:
    """Name the process and its priority."""
    return [os.getpid(), os.getpriority(os.PRIO_PROCESS, 0)]


def terminal() -> list[object]:
    """Tell what a terminal knows of the process."""
    stops = [signal.getsignal(number) is not signal.SIG_IGN for number in (signal.SIGTTIN, signal.SIGTTOU)]
    return [os.getsid(0), os.getpgrp() == os.getpid(), *stops]


def spin() -> None:
    """Spin."""
    while True:
        pass


def fail(kind: str) -> str:
    """Fail."""
    raise {"os": ConnectionResetError, "value": ValueError}[kind](f"no {kind} caf\udce9")


def end() -> None:
    """End the process."""
    os._exit(3)


def leave() -> None:
    """Leave."""
    sys.exit(4)


def big() -> str:
    """Give much."""
    return "x" * 10_000_000


def sleep_beside() -> None:
    """Wait for a program."""
    subprocess.run(["sleep", "31.25"], check=True)


def sleepers() -> list[psutil.Process]:
    return [process for process in psutil.process_iter(["cmdline"]) if process.info["cmdline"] == ["sleep", "31.25"]]


async def later(text: str) -> str:
    """Say it later."""
    return text.upper()


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children() if "isolated_worker" in " ".join(child.cmdline())}


@pytest.fixture(autouse=True)
def no_process_stays() -> Iterator[None]:
    yield
    gc.collect()  # an error that was caught refers to the tool, and to itself
    assert children() == set()


def test_a_call_runs_in_another_process_and_gives_text():
    tool = Tool(describe, isolate=True)
    assert tool(point={"x": 1}) == '{"x": 1, "k": 2}'
    assert run_tool(tool, {"point": {"x": 3}, "k": 4}).observation == '{"x": 3, "k": 4}'


@pytest.mark.skipif(sys.platform == "win32", reason="priorities are other ones there")
def test_the_process_has_the_lowest_priority_and_stays_for_further_calls():
    tool = Tool(process, isolate=True)
    first, second = tool(), tool()
    assert first == second
    assert first == f"[{children().pop()}, 19]"


@pytest.mark.skipif(sys.platform == "win32", reason="there are no sessions there")
def test_the_process_is_in_the_session_of_the_program_but_no_key_and_no_question_at_the_terminal_stops_it():
    assert json.loads(str(Tool(terminal, isolate=True)())) == [os.getsid(0), True, False, False]


def test_an_async_function_runs_too():
    assert Tool(later, isolate=True)(text="é") == "É"


def test_a_given_schema_is_taken_along():
    tool = Tool(describe, args={"point": {"type": "object"}}, isolate=True)
    result = run_tool(tool, {"point": {"x": 1}})
    assert result.error_type == "AttributeError"  # the value is passed as it was parsed: a dictionary


def test_arguments_are_judged_before():
    with pytest.raises(ToolExecutionError, match="describe refuses"):
        Tool(describe, isolate=True)(point={"x": "1"})


def test_what_spins_is_ended_and_the_next_call_works():
    tool = Tool(spin, timeout_s=0.3, isolate=True)
    with pytest.raises(ToolTimeoutError, match=r"within 0\.3 s; its process was ended"):
        tool()
    assert children() == set()
    with pytest.raises(ToolTimeoutError):
        tool()


def test_a_cancellation_ends_the_process():
    tool = Tool(spin, isolate=True)
    cancellation = Cancellation()
    threading.Timer(1.5, cancellation.cancel).start()
    with pytest.raises(RequestAbortedError):
        run_tool(tool, {}, cancellation)
    assert children() == set()


def test_an_error_has_its_type_and_message():
    result = run_tool(Tool(fail, isolate=True), {"kind": "value"})
    assert result.observation == "Execution error in fail: ValueError: no value caf\ufffd"
    assert result.error_type == "ValueError"


def test_errors_are_tried_again_by_their_types_there():
    with pytest.raises(IsolatedCallError, match="no os") as caught:
        Tool(fail, isolate=True, retries=1, backoff_s=0)(kind="os")
    assert caught.value.__notes__ == ["2 attempts"]
    with pytest.raises(IsolatedCallError) as caught:
        Tool(fail, isolate=True, retries=1, backoff_s=0)(kind="value")
    assert not hasattr(caught.value, "__notes__")


def test_a_process_that_ends_is_an_error_and_replaced():
    tool = Tool(end, isolate=True)
    for _ in range(2):
        assert run_tool(tool, {}).observation == (
            "Execution error in end: ToolExecutionError: its process ended with exit code 3"
        )


def test_an_exit_is_an_error():
    assert run_tool(Tool(leave, isolate=True), {}).error_type == "SystemExit"


def test_much_text_is_cut_there():
    text = run_tool(Tool(big, isolate=True), {}, max_characters=None).observation
    assert text.endswith("[cut: 1,000,000 of 10,000,000 characters shown]")


def test_calls_run_side_by_side_in_no_more_processes_than_processors():
    tools = {"process": Tool(process, isolate=True)}
    results = run_tools([ToolCall("process", {})] * 12, tools)
    assert len({result.observation for result in results}) <= (os.cpu_count() or 1)


def test_a_call_that_finds_every_process_busy_gives_up_in_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    tool = Tool(spin, timeout_s=2.0, isolate=True)
    results = run_tools([ToolCall("spin", {})] * 2, {"spin": tool})
    assert [result.outcome for result in results] == ["timeout", "timeout"]


def test_the_tools_of_a_file_can_be_isolated(tmp_path: Path):
    (tmp_path / "neighbor.py").write_text("FACTOR = 3\n")
    file = tmp_path / "my_tools.py"
    file.write_text(
        "from neighbor import FACTOR\nfrom sureact import Tool\n\n\ndef triple(x: int) -> int:\n"
        '    """Triple."""\n    return x * FACTOR\n\n\nTOOLS = [Tool(triple, isolate=True)]\n'
    )
    (tool,) = load_tools(file)
    assert tool(x=2) == "6"
    del sys.modules[tool.func.__module__], tool


def test_the_tools_of_a_program_can_be_isolated(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        'from sureact import Tool\n\n\ndef double(x: int) -> int:\n    """Double."""\n    return x * 2\n\n\n'
        'if __name__ == "__main__":\n    print(Tool(double, isolate=True)(x=2))\n'
    )
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert (run.stdout, run.returncode) == ("4\n", 0), run.stderr


def test_a_program_without_guard_is_told_what_to_do(tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        'from sureact import Tool\n\n\ndef double(x: int) -> int:\n    """Double."""\n    return x * 2\n\n\n'
        "print(Tool(double, isolate=True)(x=2))\n"
    )
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "__main__" in run.stderr


class Keeper:
    def __call__(self) -> str:
        """Keep."""
        return ""


def local() -> Any:
    def inner() -> str:
        """Inner."""
        return ""

    return inner


@pytest.mark.parametrize("func", [local(), lambda: 1, Keeper(), Keeper], ids=["local", "lambda", "object", "class"])
def test_what_another_process_cannot_import_is_refused(func: Any):
    with pytest.raises(ToolDefinitionError, match="process of its own"):
        Tool(func, "given", isolate=True)


def test_what_a_tool_started_ends_with_it():
    tool = Tool(sleep_beside, isolate=True, timeout_s=1.5)
    with pytest.raises(ToolTimeoutError, match=r"no result within 1\.5 s; its process was ended"):
        tool()
    psutil.wait_procs(sleepers(), timeout=10)
    assert sleepers() == []
