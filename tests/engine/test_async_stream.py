"""A stream on an event loop ends its request however it is left."""

import asyncio
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest

from sureact.async_engine import AsyncEngine
from sureact.async_stream import AsyncDeltaStream
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.engine import Engine
from sureact.errors import PromptTooLongError, RequestAbortedError
from sureact.sampling_params import SamplingParams
from sureact.tokens.vocabulary import Vocabulary

LONG = SamplingParams(max_tokens=800, ignore_eos=True)


@pytest.fixture
def view(tiny_engine: Engine) -> AsyncEngine:
    return AsyncEngine.of(tiny_engine)


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.005)


async def blocks_when_idle(view: AsyncEngine) -> int:
    await until(lambda: view.stats().num_running == view.stats().num_waiting == 0)
    return view.stats().kv_blocks_used


@contextmanager
def lock_held_elsewhere(engine: Engine) -> Generator[None]:
    """Let another thread hold the engine's lock, for ten seconds at most."""
    is_held, may_end = threading.Event(), threading.Event()

    def hold() -> None:
        with engine.loop.lock:
            is_held.set()
            may_end.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()
    yield
    may_end.set()
    thread.join()


def test_leaving_the_block_frees_the_memory_before_it_goes_on(view: AsyncEngine) -> None:
    async def main() -> None:
        used = await blocks_when_idle(view)
        async with view.stream("abc", LONG) as stream:
            async for _ in stream:
                break
        assert view.stats().kv_blocks_used <= used
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(main())


def test_a_stream_that_is_left_and_forgotten_frees_its_request(view: AsyncEngine) -> None:
    async def main() -> None:
        used = await blocks_when_idle(view)
        async for _ in view.stream("abc", LONG):
            break
        await until(lambda: view.stats().kv_blocks_used <= used)

    asyncio.run(main())


def test_a_stream_that_was_never_read_starts_nothing(view: AsyncEngine) -> None:
    num_requests = view.stats().num_requests
    stream = view.stream("abc", LONG)
    asyncio.run(stream.aclose())
    del stream
    assert view.stats().num_requests == num_requests


def test_neither_cancelling_nor_forgetting_a_stream_waits_for_the_engine(view: AsyncEngine) -> None:
    async def main() -> None:
        used = await blocks_when_idle(view)
        cancelled, forgotten = view.stream("abc", LONG), view.stream("abc", LONG)
        await asyncio.gather(anext(cancelled), anext(forgotten))
        with lock_held_elsewhere(view.engine):
            start = time.perf_counter()
            cancelled.cancel()
            del forgotten
            assert time.perf_counter() - start < 5
        assert await blocks_when_idle(view) <= used

    asyncio.run(main())


def test_closing_waits_on_the_event_loop_of_another_too(view: AsyncEngine) -> None:
    async def start() -> AsyncDeltaStream:
        stream = view.stream("abc", LONG)
        await anext(stream)
        return stream

    used = asyncio.run(blocks_when_idle(view))
    asyncio.run(asyncio.wait_for(asyncio.run(start()).aclose(), 20))
    assert view.stats().kv_blocks_used <= used


def test_a_panic_while_a_request_is_made_reaches_its_reader(view: AsyncEngine) -> None:
    class PanicError(BaseException):
        pass

    class Panicking(Constraint):
        @property
        def cache_key(self) -> str:
            return "panicking"

        def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
            raise PanicError

        def parse(self, text: str) -> object:
            return text

    async def main() -> None:
        with pytest.raises(PanicError):
            await asyncio.wait_for(anext(view.stream("abc", SamplingParams(max_tokens=3), Panicking())), 20)

    asyncio.run(main())


def test_closing_twice_is_closing_once(view: AsyncEngine) -> None:
    async def main() -> None:
        stream = view.stream("abc", LONG)
        await anext(stream)
        await stream.aclose()
        await stream.aclose()
        with pytest.raises(RequestAbortedError, match="closed before"):
            await stream.read_output()

    asyncio.run(main())


def test_a_stream_read_to_its_end_stays_at_its_end(view: AsyncEngine) -> None:
    async def main() -> None:
        stream = view.stream("abc", SamplingParams(max_tokens=3, ignore_eos=True))
        assert len((await stream.read_output()).token_ids) == 3
        assert [delta async for delta in stream] == []

    asyncio.run(main())


def test_a_refused_request_is_raised_once_and_ends_the_stream(view: AsyncEngine) -> None:
    async def main() -> None:
        stream = view.stream("a" * 1020, LONG)
        with pytest.raises(PromptTooLongError):
            await anext(stream)
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    asyncio.run(main())


def test_several_event_loops_may_use_one_engine(view: AsyncEngine) -> None:
    params = SamplingParams(max_tokens=20, ignore_eos=True)

    async def in_thread() -> tuple[int, ...]:
        return await asyncio.to_thread(lambda: asyncio.run(view.generate("abc", params)).token_ids)

    async def main() -> None:
        results = await asyncio.gather(in_thread(), in_thread(), view.stream("abc", params).read_output())
        assert results[0] == results[1] == results[2].token_ids

    asyncio.run(main())
