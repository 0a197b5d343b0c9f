"""The loop frees what an aborted request holds, after the step that runs, whoever asks for it and when."""

import threading
from pathlib import Path
from typing import Any

import pytest

from sureact.engine import Engine
from sureact.errors import InternalError, RequestAbortedError
from sureact.sampling_params import SamplingParams

LONG = SamplingParams(max_tokens=500, ignore_eos=True)


def assert_idle(engine: Engine) -> None:
    loop = engine._loop  # pyright: ignore[reportPrivateUsage]
    with loop.lock:
        scheduler = loop._scheduler  # pyright: ignore[reportPrivateUsage]
        assert (scheduler.num_running, scheduler.num_waiting) == (0, 0)
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]


def test_an_abandoned_stream_is_idle_at_once(tiny_engine: Engine) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    stream.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert_idle(tiny_engine)


def test_an_interrupt_in_the_reader_frees_the_request(tiny_engine: Engine) -> None:
    def read() -> None:
        for count, _ in enumerate(tiny_engine.stream("abc", LONG)):
            if count == 3:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert_idle(tiny_engine)


def test_many_threads_come_and_go(tiny_engine: Engine) -> None:
    def work(index: int) -> None:
        stream = tiny_engine.stream("x" * (index + 1), LONG)
        for _ in range(index % 5):
            next(stream)
        stream.close()  # pyright: ignore[reportAttributeAccessIssue]

    threads = [threading.Thread(target=work, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_idle(tiny_engine)


def test_stats_count_tokens_and_time(tiny_engine: Engine) -> None:
    before = tiny_engine.stats()
    tiny_engine.generate("abcd", SamplingParams(max_tokens=6, ignore_eos=True))
    after = tiny_engine.stats()
    assert after.num_requests - before.num_requests == 1
    assert after.prefill_tokens - before.prefill_tokens == 4
    assert after.decode_tokens - before.decode_tokens == 5
    assert after.decode_s > before.decode_s
    assert after.decode_tokens_per_s > 0
    assert after.prefill_tokens_per_s > 0


def test_a_stream_collected_on_the_engines_own_thread_does_not_block_it(
    tiny_engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = tiny_engine.stream("abc", LONG)
    next(stream)
    loop = tiny_engine._loop  # pyright: ignore[reportPrivateUsage]
    run = loop._runner.run  # pyright: ignore
    closed = threading.Event()

    def run_and_collect(batch: Any) -> Any:
        if not closed.is_set():
            stream.close()  # what the collector would do, on this thread
            closed.set()
        return run(batch)

    with monkeypatch.context() as patch:
        patch.setattr(loop._runner, "run", run_and_collect)  # pyright: ignore[reportPrivateUsage]
        assert closed.wait(10)
        assert tiny_engine.generate("abc", SamplingParams(max_tokens=3, ignore_eos=True)).finish_reason == "length"
    assert_idle(tiny_engine)


def test_readers_learn_when_the_loop_breaks(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.004)
    monkeypatch.setattr(engine._loop._scheduler, "schedule", _broken)  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(InternalError, match="RuntimeError: broken books"):
        engine.generate("abc", LONG)
    with pytest.raises(RequestAbortedError):
        engine.generate("abc", LONG)


def _broken() -> None:
    raise RuntimeError("broken books")
