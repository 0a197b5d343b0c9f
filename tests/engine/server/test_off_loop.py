import asyncio
import threading

import pytest

from sureact.server.off_loop import LARGE_BYTES, on_thread, read_off_loop


def test_small_bodies_are_read_at_once_and_large_ones_on_a_thread() -> None:
    async def read() -> list[int]:
        sizes = (0, LARGE_BYTES, LARGE_BYTES + 1, 100 * LARGE_BYTES)
        return [await read_off_loop(size, threading.get_ident) for size in sizes]

    small, just_small, large, larger = asyncio.run(read())
    assert small == just_small == threading.get_ident()
    assert large == larger != threading.get_ident()


def test_what_reading_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(read_off_loop(LARGE_BYTES + 1, lambda: 1 // 0))


def test_who_is_cancelled_waits_for_the_thread() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        assert go_on.wait(20)
        ended.set()

    async def cancel() -> None:
        task = asyncio.ensure_future(on_thread(work))
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(cancel())


def test_a_thread_gives_what_its_function_gives() -> None:
    assert asyncio.run(on_thread(divmod, 7, 2)) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        asyncio.run(on_thread(divmod, 7, 0))
