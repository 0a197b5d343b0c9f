"""Ctrl-C stops the main thread after any call that it makes; the engine stays whole, whenever it comes."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sureact.engine import Engine
from sureact.execution.uninterrupted import uninterrupted
from sureact.sampling_params import SamplingParams

LONG = SamplingParams(max_tokens=500, ignore_eos=True)


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """A test run in the background of a shell ignores Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupted_block(then: Callable[[], object]) -> None:
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        then()


def test_an_interrupt_comes_when_the_block_is_done() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_block(lambda: done.append("whole"))
    assert done == ["whole"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_blocks_may_lie_within_each_other() -> None:
    done: list[str] = []

    def outer() -> None:
        with uninterrupted():
            interrupted_block(lambda: done.append("inner"))
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        outer()
    assert done == ["inner", "outer"]


def test_an_error_of_the_block_does_not_hide_the_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_block(lambda: int("no"))
    assert isinstance(caught.value.__context__, ValueError)


def test_a_handler_of_the_program_itself_gets_the_signal_once() -> None:
    got: list[int] = []

    def own(number: int, _: object) -> None:
        got.append(number)

    signal.signal(signal.SIGINT, own)
    with uninterrupted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert got == []
    assert got == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is own


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_python_does_not_handle_stays_as_it_is(handler: Any) -> None:
    signal.signal(signal.SIGINT, handler)
    with uninterrupted():
        assert signal.getsignal(signal.SIGINT) is handler


def test_other_threads_leave_signals_alone() -> None:
    seen: list[Any] = []

    def work() -> None:
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def assert_idle(engine: Engine) -> None:
    loop = engine._loop  # pyright: ignore[reportPrivateUsage]
    with loop.lock:
        stats = engine.stats()
        assert (stats.num_running, stats.num_waiting) == (0, 0)
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def wait_until_idle(engine: Engine) -> None:
    end = time.monotonic() + 10
    while time.monotonic() < end and engine.stats().num_running + engine.stats().num_waiting:
        time.sleep(0.01)
    assert_idle(engine)


def test_an_interrupt_may_come_at_any_time(tiny_engine: Engine) -> None:
    """Ctrl-C is raised after any call of the main thread: 400 times at random, and nothing is locked or lost."""
    params = SamplingParams(max_tokens=3, ignore_eos=True)
    expected = tiny_engine.generate("abc", params).completions[0].token_ids
    draws, num_interrupted = random.Random(0), 0
    armed: list[bool] = []

    def interrupt(*_: object) -> None:
        if armed:
            armed.clear()
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    for _ in range(400):
        try:
            armed.append(True)
            signal.setitimer(signal.ITIMER_REAL, draws.uniform(1e-6, 0.02))
            tiny_engine.generate("abc", params)
        except KeyboardInterrupt:
            num_interrupted += 1
        armed.clear()
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    assert num_interrupted > 20
    assert tiny_engine.generate("abc", params).completions[0].token_ids == expected
    assert_idle(tiny_engine)


def test_an_interrupt_before_the_thread_is_woken_leaves_nothing(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake: Any = tiny_engine._loop._wake  # pyright: ignore[reportPrivateUsage]
    notify_all = wake.notify_all

    def interrupted() -> None:
        monkeypatch.setattr(wake, "notify_all", notify_all)
        raise KeyboardInterrupt

    monkeypatch.setattr(wake, "notify_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tiny_engine.generate("abc", LONG)
    assert_idle(tiny_engine)


def test_an_interrupted_visit_does_not_hold_the_engine_up(tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = tiny_engine._loop  # pyright: ignore[reportPrivateUsage]

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "_wait_while", interrupted)
        with pytest.raises(KeyboardInterrupt):
            tiny_engine.clear_prefix_cache()
    assert tiny_engine.generate("abc", SamplingParams(max_tokens=1, ignore_eos=True)).completions[0].token_ids


def test_a_session_whose_end_is_interrupted_gives_its_blocks_back(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tiny_engine.session()
    session.append("abc")
    next(session.stream(LONG))

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(tiny_engine._loop, "_wait_while", interrupted)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(KeyboardInterrupt):
            session.close()
    wait_until_idle(tiny_engine)
    tiny_engine.session().close()  # what is forgotten is freed by the next request or session
    assert tiny_engine.stats().kv_blocks_used == 0
