"""A session on an event loop keeps its context over turns, forks, cancellations and files."""

import asyncio
from pathlib import Path

import pytest

from sureact.async_engine import AsyncEngine
from sureact.engine import Engine
from sureact.errors import ConfigError, SessionError
from sureact.sampling_params import SamplingParams

FREE = SamplingParams(max_tokens=8, ignore_eos=True)
LONG = SamplingParams(max_tokens=800, ignore_eos=True)


@pytest.fixture
def view(tiny_engine: Engine) -> AsyncEngine:
    return AsyncEngine.of(tiny_engine)


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
