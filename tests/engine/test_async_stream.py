"""A stream on an event loop ends its request however it is left."""

import asyncio
from collections.abc import Callable

import pytest

from sureact.async_engine import AsyncEngine
from sureact.engine import Engine
from sureact.errors import PromptTooLongError, RequestAbortedError
from sureact.sampling_params import SamplingParams

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
