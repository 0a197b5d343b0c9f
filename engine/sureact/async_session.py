"""A session for event loops: the verbs of `Session`, awaitable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from sureact.async_stream import AsyncDeltaStream
from sureact.tokens.chat_template import PromptText

if TYPE_CHECKING:
    from sureact.async_workers import AsyncWorkers
    from sureact.engine import Engine
    from sureact.outputs import StepOutput
    from sureact.sampling_params import SamplingParams
    from sureact.session import Session

T = TypeVar("T")


class AsyncSession:
    """A `Session`, which describes each verb, that never blocks an event loop. Made by `AsyncEngine.session`.

    One generation at a time; what follows a cancelled one waits until the engine has let go of it.
    """

    def __init__(self, engine: Engine, session: Session, workers: AsyncWorkers) -> None:
        self._engine = engine
        self._session = session
        self._workers = workers

    @property
    def token_ids(self) -> list[int]:
        """A copy of all token ids of the context."""
        return self._session.token_ids

    @property
    def num_cached_tokens(self) -> int:
        """Tokens whose keys and values are in the cache now; fewer than all after an eviction."""
        return self._session.num_cached_tokens

    def __len__(self) -> int:
        """Tokens in the context."""
        return len(self._session)

    async def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add to the end of the context and return the number of tokens added; nothing is computed yet."""
        return await self._workers.run(self._session.append, text, parse_control_tokens=parse_control_tokens)

    async def generate(self, params: SamplingParams | None = None, constraint: object = None) -> StepOutput:
        """Generate from the end of the context and keep what was generated in it."""
        return await self.stream(params, constraint).read_output()

    def stream(self, params: SamplingParams | None = None, constraint: object = None) -> AsyncDeltaStream:
        """Like `generate`, piece by piece. Closing the stream cancels; what was generated stays in the context."""
        return AsyncDeltaStream(self._engine, self._workers, partial(self._session.submit, params, constraint))

    async def call(self, function: Callable[[Session], T]) -> T:
        """Have a thread do something with the session itself, and wait for it; nothing else may use it meanwhile."""
        return await self._workers.run(function, self._session)

    async def fork(self) -> AsyncSession:
        """Return a session with the same context that goes its own way."""
        return AsyncSession(self._engine, await self._workers.run(self._session.fork), self._workers)

    async def truncate(self, num_tokens: int) -> None:
        """Keep the first `num_tokens` tokens."""
        await self._workers.run(self._session.truncate, num_tokens)

    async def save(self, path: str | PathLike[str], *, with_kv: bool = False) -> None:
        """Write the context to a file."""
        await self._workers.run(self._session.save, path, with_kv=with_kv)

    async def load(self, path: str | PathLike[str]) -> int:
        """Read a context that `save` wrote into this empty session; return how many tokens need not be computed."""
        return await self._workers.run(self._session.load, path)

    async def close(self) -> None:
        """Cancel what runs and give the memory back."""
        await self._workers.run(self._session.close)

    async def __aenter__(self) -> Self:
        """Enter an `async with` block that closes the session."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the session."""
        await self.close()
