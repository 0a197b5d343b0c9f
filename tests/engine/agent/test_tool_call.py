import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.tool import Tool
from sureact.agent.tool_call import run_tool
from sureact.errors import ConfigError, RequestAbortedError


def double(x: int) -> int:
    return x * 2


def explode() -> None:
    raise ValueError("tool blew up")


def leave() -> None:
    raise SystemExit(2)


def interrupt() -> None:
    raise KeyboardInterrupt


def test_a_result_is_an_observation():
    result = run_tool(Tool(double), {"x": 4})
    assert (result.observation, result.is_error) == ("8", False)
    assert result.seconds >= 0


def test_an_error_is_an_observation_without_traceback():
    result = run_tool(Tool(explode), {})
    assert (result.observation, result.is_error) == ("Execution error in explode: ValueError: tool blew up", True)


def test_a_tool_cannot_end_the_process():
    assert run_tool(Tool(leave), {}).observation == "Execution error in leave: SystemExit: 2"


def test_an_interrupt_passes_through():
    with pytest.raises(KeyboardInterrupt):
        run_tool(Tool(interrupt), {})


@pytest.mark.parametrize("args", [{"x": "4"}, {}, {"x": 4, "y": 1}])
def test_arguments_that_do_not_fit_the_schema_never_reach_the_tool(args: dict[str, object]):
    result = run_tool(Tool(double), args)
    assert result.observation.startswith(f"Execution error in double: ToolExecutionError: double refuses {args}: ")
    assert (result.is_error, result.outcome, result.error_type) == (True, "error", "ToolExecutionError")


def test_a_long_result_is_cut_with_a_note():
    long = Tool(lambda: "x" * 10_000_000, name="long")
    result = run_tool(long, {}).observation
    assert result == "x" * 100_000 + "\n[cut: 100,000 of 10,000,000 characters shown]"
    assert run_tool(long, {}, max_characters=3).observation == "xxx\n[cut: 3 of 10,000,000 characters shown]"
    assert len(run_tool(long, {}, max_characters=None).observation) == 10_000_000
    with pytest.raises(ConfigError, match="max_characters is 0"):
        run_tool(long, {}, max_characters=0)


async def answer() -> str:
    await asyncio.sleep(0)
    return "async"


def hang() -> None:
    RELEASE.wait(30)


def cancel_itself() -> None:
    raise asyncio.CancelledError


def read(path: str) -> str:
    return Path(path).read_text() + Path(__file__).with_name("no_such_file").read_text()


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def unprintable() -> None:
    raise UnprintableError


def group() -> None:
    raise ExceptionGroup("many", [ValueError("first"), OSError("second")])


RELEASE = threading.Event()


def test_an_async_tool_gives_an_observation():
    assert run_tool(Tool(answer), {}).observation == "async"


def test_a_tool_that_hangs_gives_an_observation_and_the_run_goes_on():
    result = run_tool(Tool(hang, timeout_s=0.05), {})
    assert result.observation.startswith("Execution error in hang: ToolTimeoutError: no result within 0.05 s")
    assert (result.is_error, result.outcome, result.error_type) == (True, "timeout", "ToolTimeoutError")
    RELEASE.set()


def test_an_error_carries_its_type():
    result = run_tool(Tool(explode), {})
    assert (result.outcome, result.error_type) == ("error", "ValueError")
    assert run_tool(Tool(double), {"x": 1}).outcome == "done"


def test_an_error_shows_no_folder_of_the_host_but_what_the_model_wrote(tmp_path: Path):
    wanted = str(tmp_path / "wanted.txt")
    result = run_tool(Tool(read), {"path": wanted})
    assert wanted in result.observation
    Path(wanted).write_text("")
    result = run_tool(Tool(read), {"path": wanted})
    assert result.observation.endswith("No such file or directory: '[...]/no_such_file'")


@pytest.mark.parametrize(
    ("func", "text"),
    [
        (unprintable, "UnprintableError: (its message cannot be read)"),
        (group, "ExceptionGroup: ValueError: first; OSError: second"),
        (cancel_itself, "CancelledError: "),
    ],
)
def test_any_error_can_be_read(func: Callable[[], None], text: str):
    assert run_tool(Tool(func), {}).observation == f"Execution error in {func.__name__}: {text}"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (b"caf\xc3\xa9", "café"),
        (b"\x89PNG\xff", "[5 bytes that are not text; they begin with 89 50 4e 47 ff]"),
        ({"data": b"\xff"}, '{"data": "_w=="}'),
        (float("nan"), "NaN"),
        ([float("inf")], "[Infinity]"),
        ((number for number in range(3)), "[0, 1, 2]"),
        ({"b", "a"}, '["a", "b"]'),
        ("<|im_end|><|im_start|>user", "<|im_end|><|im_start|>user"),
        ("a\x00b\x1b[31m", "a\x00b\x1b[31m"),
        (object, "<class 'object'>"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_any_result_can_be_read(result: object, text: str):
    assert run_tool(Tool(lambda: result, "give", "Give.", {}), {}).observation == text


@pytest.mark.parametrize("text", ["naïve 😀", "\x00\x1f\x7f", "\u202e\u200b", "<|im_end|>", '"\\\n'])
def test_arguments_pass_unchanged(text: str):
    def echo(text: str) -> str:
        return text

    assert run_tool(Tool(echo), {"text": text}).observation == text


def test_a_cancelled_call_is_no_observation():
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(RequestAbortedError):
        run_tool(Tool(double), {"x": 1}, cancellation)


def test_a_tool_that_was_aborted_inside_is_an_observation():
    def aborted() -> None:
        raise RequestAbortedError("an engine of the tool's own")

    assert run_tool(Tool(aborted), {}).is_error
