"""Workers of an event loop: threads of their own, known by name, that end with their engine."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar

import pytest

from sureact.async_workers import AsyncWorkers

variable = ContextVar("variable", default="unset")


def thread_name() -> str:
    return threading.current_thread().name


def test_a_function_runs_on_a_thread_with_a_name_and_in_the_context_of_its_caller() -> None:
    def look(first: int, *, second: int) -> tuple[str, str, int]:
        return thread_name(), variable.get(), first + second

    async def main() -> None:
        variable.set("set")
        name, value, total = await AsyncWorkers().run(look, 1, second=2)
        assert name.startswith("sureact-async")
        assert (value, total) == ("set", 3)

    asyncio.run(main())


def test_an_error_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        with pytest.raises(ZeroDivisionError):
            await AsyncWorkers().run(lambda: 1 // 0)

    asyncio.run(main())


def test_busy_threads_of_the_event_loop_delay_nothing() -> None:
    done = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        tool = loop.run_in_executor(None, done.wait, 20)
        await AsyncWorkers().run(thread_name)
        assert not tool.done()
        done.set()
        await tool

    asyncio.run(main())


def test_closing_ends_the_threads_after_what_was_started_and_the_event_loop_does_what_is_left() -> None:
    async def main() -> None:
        workers = AsyncWorkers()
        thread = await workers.run(threading.current_thread)
        last = workers.start(time.sleep, 0.05)
        workers.close()
        workers.close()
        await last
        await asyncio.to_thread(thread.join, 5)
        assert not thread.is_alive()
        assert not (await workers.run(thread_name)).startswith("sureact-async")

    asyncio.run(main())
