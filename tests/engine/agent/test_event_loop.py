import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sureact.agent.cancellation import Cancellation
from sureact.agent.event_loop import EventLoopThread, shared_event_loop
from sureact.agent.tool_thread import LeftBehind
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


@pytest.fixture
def blocked(monkeypatch: pytest.MonkeyPatch) -> Iterator[EventLoopThread]:
    """The shared loop, while a coroutine called `sleeper` blocks it."""
    monkeypatch.setattr("sureact.agent.event_loop._GRACE_S", 0.05)
    begun, release = threading.Event(), threading.Event()

    async def block() -> None:
        begun.set()
        release.wait(30)

    loop = shared_event_loop()
    thread = threading.Thread(target=lambda: loop.run(block(), name="sleeper"))
    thread.start()
    begun.wait(30)
    yield loop
    release.set()
    thread.join()
    assert loop.run(say("free again")) == "free again"


def test_what_comes_while_a_coroutine_blocks_the_loop_runs_on_another(blocked: EventLoopThread):
    other = shared_event_loop()
    assert other is not blocked
    assert shared_event_loop() is other
    assert other.run(say("a new loop"), timeout_s=30) == "a new loop"


def test_what_waits_behind_one_that_blocks_is_told_which_it_is(blocked: EventLoopThread):
    with pytest.raises(
        ToolTimeoutError, match="sleeper blocks the event loop of async tools, and the call was given up"
    ):
        blocked.run(say("never"), timeout_s=0.05, name="quick")


def test_what_blocks_is_told_itself_and_left_behind(monkeypatch: pytest.MonkeyPatch, loop: EventLoopThread):
    monkeypatch.setattr("sureact.agent.event_loop._GRACE_S", 0.05)
    release, left_behind = threading.Event(), LeftBehind()

    async def block() -> None:
        release.wait(30)

    with pytest.raises(ToolTimeoutError, match="it blocks its event loop and was left behind"):
        loop.run(block(), timeout_s=0.05, left_behind=left_behind)
    assert left_behind.count == 1
    release.set()
    loop.run(say("turn"))
    loop.run(say("turn"))
    assert left_behind.count == 0


def test_what_does_not_heed_its_cancellation_is_left_behind(monkeypatch: pytest.MonkeyPatch, loop: EventLoopThread):
    monkeypatch.setattr("sureact.agent.event_loop._GRACE_S", 0.05)
    left_behind = LeftBehind()
    release = threading.Event()

    async def go_on() -> None:
        while not release.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    with pytest.raises(ToolTimeoutError, match="does not end when it is cancelled, and was left behind"):
        loop.run(go_on(), timeout_s=0.05, left_behind=left_behind)
    assert left_behind.count == 1
    release.set()
    loop.run(asyncio.sleep(0.1))
    assert left_behind.count == 0


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
