"""A session on an event loop keeps its context over turns, forks, cancellations and files."""

import asyncio
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sureact.async_engine import AsyncEngine
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.regex import regex
from sureact.engine import Engine
from sureact.errors import ConfigError, SessionError
from sureact.sampling_params import SamplingParams
from sureact.tokens.vocabulary import Vocabulary

FREE = SamplingParams(max_tokens=8, ignore_eos=True)
LONG = SamplingParams(max_tokens=800, ignore_eos=True)


@pytest.fixture
def view(tiny_engine: Engine) -> AsyncEngine:
    return AsyncEngine.of(tiny_engine)


@dataclass(frozen=True)
class HeldConstraint(Constraint):
    """Forces text, and compiles for as long as a test wants."""

    is_compiling: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)

    @property
    def cache_key(self) -> str:
        return f"held {id(self)}"

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        self.is_compiling.set()
        self.may_end.wait(20)
        return regex("forced[0-9]{9}").compile(vocabulary)

    def parse(self, text: str) -> object:
        return text


def test_turns_give_what_a_session_gives(tiny_engine: Engine, view: AsyncEngine) -> None:
    with tiny_engine.session() as session:
        session.append("abc")
        session.generate(FREE)
        session.append("\nand more")
        expected = session.generate(FREE)

    async def main() -> None:
        async with view.session() as session:
            assert await session.append("abc") == 3
            await session.generate(FREE)
            await session.append("\nand more")
            output = await session.generate(FREE)
            assert output.token_ids == expected.token_ids
            assert len(session) == len(session.token_ids) == 3 + 8 + 9 + 8
            assert session.num_cached_tokens == len(session) - 1

    asyncio.run(main())


def test_a_cancelled_generation_leaves_a_session_that_goes_on_at_once(view: AsyncEngine) -> None:
    async def main() -> None:
        async with view.session() as session:
            await session.append("abc")
            for _ in range(5):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await session.generate(LONG)
                await session.truncate(3)
                async for _ in session.stream(LONG):
                    break
                await session.append("\nmore")
                await session.truncate(3)
            assert (await session.generate(FREE)).usage.prompt_tokens == 3

    asyncio.run(main())


def test_a_generation_cancelled_while_it_is_made_never_changes_the_context(view: AsyncEngine) -> None:
    async def main() -> None:
        held = HeldConstraint()
        async with view.session() as session:
            await session.append("abc")
            prompt = session.token_ids
            task = asyncio.create_task(session.generate(SamplingParams(max_tokens=30), held))
            await asyncio.to_thread(held.is_compiling.wait, 20)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            appending = asyncio.create_task(session.append([11, 12]))
            held.may_end.set()
            assert await appending == 2
            assert session.token_ids == [*prompt, 11, 12]
            assert (await session.generate(FREE)).usage.prompt_tokens == len(prompt) + 2

    asyncio.run(main())


def test_closing_a_stream_while_its_request_is_made_waits_and_leaves_the_context(view: AsyncEngine) -> None:
    async def main() -> None:
        held = HeldConstraint()
        async with view.session() as session:
            await session.append("abc")
            prompt = session.token_ids
            stream = session.stream(SamplingParams(max_tokens=30), held)
            stream.start()
            await asyncio.to_thread(held.is_compiling.wait, 20)
            closing = asyncio.create_task(stream.aclose())
            done, _ = await asyncio.wait([closing], timeout=0.1)
            assert not done
            held.may_end.set()
            await closing
            assert session.token_ids == prompt
            await session.append([11, 12])
            assert session.token_ids == [*prompt, 11, 12]

    asyncio.run(main())


def test_a_session_may_be_closed_after_its_engine(tiny_folder: Path) -> None:
    async def main() -> None:
        async with AsyncEngine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0079) as engine:
            session = engine.session()
            await session.append("abc")
        await session.close()

    asyncio.run(main())


def test_a_session_that_generates_refuses_the_rest(view: AsyncEngine) -> None:
    async def main() -> None:
        async with view.session() as session:
            await session.append("abc")
            stream = session.stream(LONG)
            await anext(stream)
            with pytest.raises(SessionError, match="generating"):
                await session.append("more")
            with pytest.raises(SessionError, match="generating"):
                await session.generate(FREE)
            await stream.aclose()
            await session.append("more")

    asyncio.run(main())


def test_of_many_generations_at_once_one_runs_and_the_others_are_told(view: AsyncEngine) -> None:
    async def main() -> None:
        async with view.session() as session:
            await session.append("abc")
            results = await asyncio.gather(*(session.generate(FREE) for _ in range(4)), return_exceptions=True)
            assert {type(result) for result in results if isinstance(result, Exception)} <= {SessionError}
            assert any(not isinstance(result, Exception) for result in results)

    asyncio.run(main())


def test_a_fork_goes_its_own_way(view: AsyncEngine) -> None:
    async def main() -> None:
        async with view.session() as session:
            await session.append("abc")
            async with await session.fork() as fork:
                first, second = await asyncio.gather(session.generate(FREE), fork.generate(FREE))
                assert first.token_ids == second.token_ids
                await fork.append("x")
                assert len(fork) == len(session) + 1

    asyncio.run(main())


def test_a_saved_session_comes_back(view: AsyncEngine, tmp_path: Path) -> None:
    async def main() -> None:
        async with view.session() as session, view.session() as again:
            await session.append("abc")
            await session.generate(FREE)
            await session.save(tmp_path / "s", with_kv=True)
            assert await again.load(tmp_path / "s") == session.num_cached_tokens
            assert again.token_ids == session.token_ids

    asyncio.run(main())


def test_errors_arrive_and_closing_ends_what_runs(view: AsyncEngine) -> None:
    async def main() -> None:
        session = view.session()
        with pytest.raises(SessionError, match="empty"):
            await session.generate(FREE)
        await session.append("abc")
        with pytest.raises(ConfigError, match="Fork it"):
            await session.generate(SamplingParams(n=2, temperature=1))
        stream = session.stream(LONG)
        await anext(stream)
        await session.close()
        assert (await stream.read_output()).finish_reason == "abort"
        with pytest.raises(SessionError, match="closed"):
            await session.append("more")

    asyncio.run(main())


def test_a_function_gets_the_session_itself_on_a_thread(view: AsyncEngine) -> None:
    async def main() -> None:
        async with view.session() as session:
            await session.append("abc")
            ids, thread = await session.call(lambda own: (own.token_ids, threading.current_thread()))
            assert ids == session.token_ids
            assert thread is not threading.current_thread()

    asyncio.run(main())
