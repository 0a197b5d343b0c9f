"""A generation read piece by piece on an event loop, which is never blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sureact.errors import RequestAbortedError
from sureact.stream import judged_output

if TYPE_CHECKING:
    from sureact.async_workers import AsyncWorkers
    from sureact.engine import Engine
    from sureact.outputs import StepOutput, StreamDelta
    from sureact.scheduling.request import Request

Attach = Callable[["Request"], None]
"""Called with a request before it is submitted, so that its reader gets its deltas and can cancel it.

It raises `RequestAbortedError` if the reader has left, so that a request that nobody wants is not begun.
"""


class AsyncDeltaStream(AsyncIterator["StreamDelta"]):
    """The deltas of a request. Cancelling the task that reads, closing or forgetting the stream cancels the request.

    The request starts when the stream is first read or entered; what is wrong with it is raised there.
    """

    def __init__(self, engine: Engine, workers: AsyncWorkers, submit: Callable[[Attach], object]) -> None:
        """Prepare a stream.

        Args:
            engine: runs the request.
            workers: make it, and judge its text.
            submit: makes the request, attaches it to this stream, and submits it; called once, on a worker thread,
                since tokenizing and compiling may take seconds.
        """
        self._engine = engine
        self._workers = workers
        self._submit = submit
        self._mailbox: _Mailbox | None = None
        self._request: Request | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the request, if that was not done, without waiting."""
        if self._mailbox is None:
            mailbox = _Mailbox(asyncio.get_running_loop())
            self._workers.start(self._submit_to, mailbox)
            self._mailbox = mailbox

    def cancel(self) -> None:
        """End the request without waiting; its memory is free after the step that runs now.

        One that was not submitted yet is never begun. What was generated stays in a session's context.
        """
        self._is_closed = True
        if self._request is not None:
            self._engine.loop.forget(self._request)

    async def aclose(self) -> None:
        """Cancel the request if it is being made or runs, and wait until its memory is free."""
        self.cancel()
        if self._mailbox is not None:
            await asyncio.shield(asyncio.wrap_future(self._mailbox.end))

    async def read_output(self) -> StepOutput:
        """Read to the end and return the output, with the value that a constrained text stands for.

        Raises:
            ConstraintError: a validator of the user's own type, or Python's limits, refuse the value.
            SureactError: the request failed.
        """
        output: StepOutput | None = None
        async for delta in self:
            output = delta.output or output
        if output is None or self._request is None:
            raise RequestAbortedError("The stream was closed before its text ended.")
        if self._request.judge is None:
            return output
        return await self._workers.run(judged_output, self._engine.loop, self._request, output)

    def __aiter__(self) -> Self:
        """Return the stream itself."""
        return self

    async def __anext__(self) -> StreamDelta:
        """Wait for the next delta.

        Raises:
            SureactError: the request is refused or failed.
            StopAsyncIteration: the last delta was read, or the stream was closed.
        """
        if self._is_closed:
            raise StopAsyncIteration
        self.start()
        assert self._mailbox is not None, "a started stream has a mailbox"
        try:
            delta = await self._mailbox.deltas.get()
            if isinstance(delta, BaseException):
                raise delta
        except BaseException:  # a cancelled task too must free the request
            self.cancel()
            raise
        self._is_closed = delta.output is not None
        return delta

    async def __aenter__(self) -> Self:
        """Start the request and enter an `async with` block that closes the stream."""
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the stream."""
        await self.aclose()

    def __del__(self) -> None:
        """Cancel a request that nobody will read; the garbage collector may run this wherever a lock is held."""
        if not self._is_closed:
            self.cancel()

    def _submit_to(self, mailbox: _Mailbox) -> None:
        def attach(request: Request) -> None:
            request.deliver = mailbox.deliver
            self._request = request
            self._require_open()  # who leaves later finds the request here

        try:
            self._require_open()
            self._submit(attach)
        except BaseException as error:  # whatever it is, its reader waits for it on another thread
            mailbox.deliver(error)

    def _require_open(self) -> None:
        if self._is_closed:
            raise RequestAbortedError("The stream was closed before its request began.")


class _Mailbox:
    """Takes deltas from the engine's thread to an event loop. It does not know the stream, which may be forgotten."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.deltas: asyncio.Queue[StreamDelta | BaseException] = asyncio.Queue()
        # Done once the request has ended; who waits for it may do so on another event loop.
        self.end: Future[None] = Future()
        self._loop = loop

    def deliver(self, delta: StreamDelta | BaseException) -> None:
        """Hand over a delta or an error; neither blocks nor raises."""
        with suppress(RuntimeError):  # the event loop is closed, so nobody reads
            self._loop.call_soon_threadsafe(self.deltas.put_nowait, delta)
        is_last = isinstance(delta, BaseException) or delta.output is not None
        if is_last and not self.end.done():
            self.end.set_result(None)
