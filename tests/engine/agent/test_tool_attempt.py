import asyncio
import functools
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Iterator
from typing import Any

import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import cancelled_by
from sureact.agent.observation import observation_text
from sureact.agent.tool import Tool
from sureact.agent.tool_attempt import MAX_ITEMS, first_items
from sureact.errors import RequestAbortedError, ToolTimeoutError

RELEASE = threading.Event()


async def wait_for(seconds: float) -> str:
    """Wait."""
    await asyncio.sleep(seconds)
    return f"waited {seconds}"


def begin_to_wait(seconds: float) -> Awaitable[str]:
    return wait_for(seconds)


def read() -> object:
    """Read."""
    return Unreadable()


def hang() -> str:
    """Hang."""
    RELEASE.wait(30)
    return "at last"


async def count(to: int) -> AsyncIterator[int]:
    """Count."""
    for number in range(to):
        yield number


def numbers() -> Iterator[int]:
    """Count on and on."""
    number = 0
    while True:
        yield number
        number += 1


class Waiter:
    async def __call__(self, seconds: float) -> str:
        """Wait."""
        return await wait_for(seconds)


class Unreadable:
    def __str__(self) -> str:
        RELEASE.wait(30)
        return ""


def thread_name() -> str:
    """Name the thread."""
    return threading.current_thread().name


@pytest.fixture(autouse=True)
def let_go_of_what_hangs() -> Iterator[None]:
    RELEASE.clear()
    yield
    RELEASE.set()


@pytest.mark.parametrize(
    "func",
    [wait_for, Waiter(), functools.partial(wait_for), begin_to_wait],
    ids=["function", "object", "partial", "function that returns an awaitable"],
)
@pytest.mark.parametrize("timeout_s", [None, 20])
def test_what_is_async_runs_to_its_end(func: Any, timeout_s: float | None):
    tool = Tool(func, "wait", "Wait.", {"seconds": {"type": "number"}}, timeout_s=timeout_s)
    assert tool(seconds=0) == "waited 0"


def test_an_async_tool_runs_inside_a_running_loop():
    async def outer() -> object:
        return Tool(wait_for)(seconds=0)

    assert asyncio.run(outer()) == "waited 0.0"


def test_an_async_tool_that_takes_too_long_is_cancelled():
    with pytest.raises(ToolTimeoutError, match="cancelled"):
        Tool(wait_for, timeout_s=0.05)(seconds=60)


def test_an_async_tool_keeps_the_arguments_and_types_of_its_function():
    tool = Tool(wait_for)
    assert tool.args == {"seconds": {"type": "number"}}


def test_a_tool_that_hangs_is_left_behind():
    start = time.monotonic()
    with pytest.raises(ToolTimeoutError, match="left behind"):
        Tool(hang, timeout_s=0.05)()
    assert time.monotonic() - start < 10


def test_what_hangs_while_its_result_is_read_is_left_behind_too():
    tool = Tool(read, timeout_s=0.05)
    with pytest.raises(ToolTimeoutError):
        tool.run({}, observation_text)


def test_a_tool_without_limit_runs_on_the_callers_thread():
    assert Tool(thread_name)() == threading.current_thread().name
    assert Tool(thread_name, timeout_s=20)() == "sureact-tool"


def test_on_a_thread_that_was_started_for_a_run_a_tool_has_a_thread_of_its_own():
    with cancelled_by(Cancellation()):
        assert Tool(thread_name)() == "sureact-tool"


@pytest.mark.parametrize("func", [hang, functools.partial(wait_for, 60)])
def test_a_cancellation_gives_any_tool_up(func: Any):
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(RequestAbortedError):
        Tool(func, "slow", "Slow.", {}).run({}, None, cancellation)


def test_items_of_an_async_generator_are_a_list():
    assert list(Tool(count)(to=3)) == [0, 1, 2]  # pyright: ignore[reportArgumentType]
    assert Tool(count).run({"to": 3}, observation_text) == "[0, 1, 2]"
    assert str(Tool(count).run({"to": 10**9}, observation_text)).endswith("[cut: the first 1,000 items shown]")


def test_an_endless_generator_is_read_in_part_and_closed():
    source = numbers()
    items, has_more = first_items(source)
    assert (len(items), has_more) == (MAX_ITEMS, True)
    assert list(source) == []
    assert first_items(iter([1, 2])) == ([1, 2], False)


def test_retries_apply_to_calls():
    calls: list[int] = []

    def flaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ConnectionError("gone")
        return "there"

    assert Tool(flaky, retries=2, backoff_s=0)() == "there"
    assert len(calls) == 3
