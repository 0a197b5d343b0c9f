"""Many tasks on one engine: the tokens of each alone, errors where they belong, and memory back when they leave."""

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import get_type_hints

import pytest

from sureact.async_engine import AsyncEngine, EngineOptions
from sureact.config import EngineConfig
from sureact.constraints.choice import choice
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintCompileError, PromptTooLongError, RequestAbortedError
from sureact.sampling_params import SamplingParams
from sureact.tokens.vocabulary import Vocabulary

FREE = SamplingParams(max_tokens=8, ignore_eos=True)
LONG = SamplingParams(max_tokens=800, ignore_eos=True)
PROMPTS = [f"prompt {n}" * (n + 1) for n in range(6)]


@pytest.fixture
def view(tiny_engine: Engine) -> AsyncEngine:
    return AsyncEngine.of(tiny_engine)


@dataclass(frozen=True)
class SlowConstraint(Constraint):
    """Takes its time to compile."""

    inner: Constraint
    seconds: float

    @property
    def cache_key(self) -> str:
        return f"slow {self.seconds}"

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        time.sleep(self.seconds)
        return self.inner.compile(vocabulary)

    def parse(self, text: str) -> object:
        time.sleep(self.seconds)
        return text


@asynccontextmanager
async def ticks_go_on(max_pause_s: float = 0.25) -> AsyncGenerator[None]:
    """Watch that the event loop is free all the while."""
    pauses = [0.0]

    async def tick() -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(0.005)
            pauses.append(time.perf_counter() - start)

    ticker = asyncio.create_task(tick())
    yield
    ticker.cancel()
    assert max(pauses) < max_pause_s


async def until(is_true: Callable[[], bool]) -> None:
    """Wait a while for what happens on other threads."""
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.005)


async def blocks_when_idle(view: AsyncEngine) -> int:
    """Wait until no request is left, and return the blocks that are held."""
    await until(lambda: view.stats().num_running == view.stats().num_waiting == 0)
    view.engine._cache.check()  # pyright: ignore[reportPrivateUsage]
    return view.stats().kv_blocks_used


def test_many_tasks_get_the_tokens_that_each_gets_alone(tiny_engine: Engine, view: AsyncEngine) -> None:
    expected = [tiny_engine.generate(prompt, FREE) for prompt in PROMPTS]

    async def main() -> None:
        outputs = await asyncio.gather(*(view.generate(prompt, FREE) for prompt in PROMPTS))
        assert [output.token_ids for output in outputs] == [output.token_ids for output in expected]
        assert [output.prompt_token_ids for output in outputs] == [output.prompt_token_ids for output in expected]

    asyncio.run(main())


def test_a_list_of_prompts_gives_a_list_and_n_gives_several_texts(tiny_engine: Engine, view: AsyncEngine) -> None:
    params = SamplingParams(max_tokens=5, n=2, temperature=1, seed=3, ignore_eos=True)

    async def main() -> None:
        outputs = await view.generate(PROMPTS[:2], params)
        expected = tiny_engine.generate(PROMPTS[:2], params)
        assert [[c.token_ids for c in output.completions] for output in outputs] == [
            [c.token_ids for c in output.completions] for output in expected
        ]

    asyncio.run(main())


def test_a_chat_is_answered(tiny_engine: Engine, view: AsyncEngine) -> None:
    output = asyncio.run(view.chat([{"role": "user", "content": "hi"}], FREE))
    assert output.token_ids == tiny_engine.chat([{"role": "user", "content": "hi"}], FREE).token_ids


def test_a_constrained_text_comes_with_its_value(view: AsyncEngine) -> None:
    output = asyncio.run(view.generate("abc", SamplingParams(max_tokens=20), choice(["left", "right"])))
    assert output.completions[0].value == output.text
    assert output.text in ("left", "right")


def test_a_stream_brings_the_text_piece_by_piece(tiny_engine: Engine, view: AsyncEngine) -> None:
    async def main() -> None:
        deltas = [delta async for delta in view.stream("abc", FREE)]
        assert "".join(delta.text for delta in deltas) == tiny_engine.generate("abc", FREE).text
        assert [delta.output is not None for delta in deltas] == [False] * (len(deltas) - 1) + [True]

    asyncio.run(main())


def test_a_cancelled_task_frees_its_request(view: AsyncEngine) -> None:
    async def main() -> None:
        used = await blocks_when_idle(view)
        task = asyncio.create_task(view.generate(PROMPTS, LONG))
        await until(lambda: view.stats().num_running > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await blocks_when_idle(view) <= used

    asyncio.run(main())


def test_a_timeout_ends_a_generation_and_not_the_others(tiny_engine: Engine, view: AsyncEngine) -> None:
    params = SamplingParams(max_tokens=60, ignore_eos=True)
    expected = tiny_engine.generate("abc", params).token_ids

    async def main() -> None:
        beside = asyncio.create_task(view.generate("abc", params))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await view.generate("xyz", LONG)
        assert (await beside).token_ids == expected

    asyncio.run(main())


def test_the_end_of_the_event_loop_ends_its_requests(view: AsyncEngine) -> None:
    used = asyncio.run(blocks_when_idle(view))

    async def leave() -> None:
        task = asyncio.create_task(view.generate("abc", LONG))
        await until(lambda: view.stats().num_running > 0)
        assert not task.done()

    asyncio.run(leave())
    assert asyncio.run(blocks_when_idle(view)) <= used


def test_what_is_wrong_with_a_request_is_raised_where_it_is_awaited(view: AsyncEngine) -> None:
    async def main() -> None:
        with pytest.raises(ConfigError, match="empty"):
            await view.generate("", FREE)
        with pytest.raises(PromptTooLongError):
            await view.generate("a" * 1020, FREE)
        with pytest.raises(ConstraintCompileError):
            await view.generate("abc", SamplingParams(), regex("("))
        with pytest.raises(PromptTooLongError):
            await view.stream("a" * 1020, FREE).read_output()

    with pytest.raises(ConfigError, match="n is 2"):
        view.stream("abc", SamplingParams(n=2, temperature=1))
    asyncio.run(main())


def test_of_several_prompts_one_that_is_refused_ends_all(view: AsyncEngine) -> None:
    async def main() -> None:
        used = await blocks_when_idle(view)
        with pytest.raises(PromptTooLongError):
            await view.generate(["abc", "a" * 1020], LONG)
        assert await blocks_when_idle(view) <= used

    asyncio.run(main())


def test_the_event_loop_is_free_while_constraints_compile_and_requests_are_cancelled(view: AsyncEngine) -> None:
    slow = SlowConstraint(choice(["left", "right"]), seconds=0.4)

    async def main() -> None:
        async with ticks_go_on():
            output = await view.generate("abc", SamplingParams(max_tokens=20), slow)
            assert output.completions[0].value in ("left", "right")
            tasks = [asyncio.create_task(view.generate("a" * 800, SamplingParams(max_tokens=200))) for _ in range(4)]
            await asyncio.sleep(0.05)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(main())


def test_a_task_cancelled_while_its_constraint_compiles_never_runs(view: AsyncEngine) -> None:
    slow = SlowConstraint(choice(["left", "right"]), seconds=0.2)

    async def main() -> None:
        used = await blocks_when_idle(view)
        task = asyncio.create_task(view.generate("abc", SamplingParams(max_tokens=20), slow))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.3)
        assert await blocks_when_idle(view) <= used

    asyncio.run(main())


def test_a_user_who_keeps_the_event_loops_threads_busy_delays_nothing(view: AsyncEngine) -> None:
    done = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(1))
        tool = loop.run_in_executor(None, done.wait, 20)
        async with asyncio.timeout(10):
            await view.chat([{"role": "user", "content": "hi"}], FREE)
            output = await view.generate("abc", SamplingParams(max_tokens=20), choice(["left", "right"]))
            assert output.completions[0].value == output.text
            async with view.session() as session, view.stream("abc", LONG) as stream:
                await session.append("abc")
                await session.generate(FREE)
                await anext(stream)
        assert not tool.done()
        done.set()
        await tool

    asyncio.run(main())


def test_closing_ends_the_threads_of_an_engine_and_of_a_view(tiny_engine: Engine, tiny_folder: Path) -> None:
    def workers() -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith("sureact-async")}

    async def main() -> None:
        before = workers()
        engine = AsyncEngine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079)
        async with engine, AsyncEngine.of(tiny_engine) as view:
            await asyncio.gather(engine.generate("abc", FREE), view.generate("abc", FREE))
            assert len(workers() - before) >= 2
        await until(lambda: workers() <= before)

    asyncio.run(main())


def test_closing_ends_what_runs_with_an_error(tiny_folder: Path) -> None:
    async def main() -> None:
        async with AsyncEngine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079) as engine:
            tasks = [asyncio.create_task(engine.generate(prompt, LONG)) for prompt in PROMPTS]
            await until(lambda: engine.stats().num_running > 0)
        errors = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in errors] == [RequestAbortedError] * len(PROMPTS)
        with pytest.raises(RequestAbortedError, match="closed"):
            await engine.generate("abc", FREE)

    asyncio.run(main())


def test_an_engine_that_was_given_stays_open(tiny_engine: Engine) -> None:
    async def main() -> None:
        async with AsyncEngine.of(tiny_engine) as view:
            assert view.engine is tiny_engine

    asyncio.run(main())
    assert tiny_engine.generate("abc", FREE).token_ids


def test_the_options_are_those_of_the_engine() -> None:
    hints = get_type_hints(EngineConfig)
    assert get_type_hints(EngineOptions) == {field.name: hints[field.name] for field in fields(EngineConfig)[1:]}
