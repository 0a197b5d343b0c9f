import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Iterator

import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.event_loop import EventLoopThread, shared_event_loop
from sureact.errors import RequestAbortedError, ToolTimeoutError

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("NUMBER", default=0)


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    thread = EventLoopThread("test-loop")
    yield thread
    thread.close()


async def say(text: str) -> str:
    await asyncio.sleep(0)
    return text


async def fail() -> None:
    raise TimeoutError("its own")


def test_a_coroutine_runs_to_its_end(loop: EventLoopThread):
    assert loop.run(say("hello")) == "hello"


def test_its_error_is_raised_even_if_it_is_a_timeout_of_its_own(loop: EventLoopThread):
    with pytest.raises(TimeoutError, match="its own") as caught:
        loop.run(fail(), timeout_s=5)
    assert not isinstance(caught.value, ToolTimeoutError)


def test_it_runs_inside_a_running_loop_too():
    async def outer() -> str:
        return shared_event_loop().run(say("inner"))

    assert asyncio.run(outer()) == "inner"


def test_a_blocking_call_from_the_loops_own_thread_does_not_wait_for_itself():
    async def outer() -> str:
        return shared_event_loop().run(say("nested"))

    assert shared_event_loop().run(outer(), timeout_s=10) == "nested"


def test_context_variables_are_those_of_the_caller(loop: EventLoopThread):
    async def read() -> int:
        return NUMBER.get()

    token = NUMBER.set(7)
    assert loop.run(read()) == 7
    NUMBER.reset(token)


def test_what_takes_too_long_is_cancelled(loop: EventLoopThread):
    ended: list[str] = []

    async def wait_long() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(ToolTimeoutError, match=r"within 0\.05 s"):
        loop.run(wait_long(), timeout_s=0.05)
    assert loop.run(say("still there")) == "still there"
    assert ended == ["cancelled"]
    assert loop.is_usable


def test_a_cancellation_ends_it(loop: EventLoopThread):
    cancellation = Cancellation()
    threading.Timer(0.05, cancellation.cancel).start()
    with pytest.raises(RequestAbortedError):
        loop.run(asyncio.sleep(60), cancellation=cancellation)


def test_a_loop_that_a_coroutine_blocks_is_replaced(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sureact.agent.event_loop._GRACE_S", 0.05)
    release = threading.Event()

    async def block() -> None:
        release.wait(30)

    blocked = shared_event_loop()
    with pytest.raises(ToolTimeoutError, match="blocks its event loop"):
        blocked.run(block(), timeout_s=0.05)
    assert not blocked.is_usable
    assert shared_event_loop() is not blocked
    assert shared_event_loop().run(say("a new loop")) == "a new loop"
    release.set()
    blocked.close()


def test_the_shared_loop_is_one():
    assert shared_event_loop() is shared_event_loop()


def test_closing_cancels_what_runs():
    thread = EventLoopThread("test-close")
    future = thread.submit(asyncio.sleep(60))
    time.sleep(0.01)
    thread.close()
    thread.close()
    assert future.cancelled()
    assert not thread.is_usable


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_has_a_loop_of_its_own(monkeypatch: pytest.MonkeyPatch):
    before = shared_event_loop()
    monkeypatch.setattr("sureact.agent.event_loop.os.getpid", lambda: -1)  # what a fork would see
    after = shared_event_loop()
    assert after is not before
    assert after.run(say("here")) == "here"
    after.close()
