"""A generation read piece by piece on an event loop, which is never blocked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from sureact.errors import RequestAbortedError
from sureact.stream import judged_output

if TYPE_CHECKING:
    from sureact.engine import Engine
    from sureact.outputs import StepOutput, StreamDelta
    from sureact.scheduling.request import Request

Attach = Callable[["Request"], None]
"""Called with a request before it is submitted, so that its reader gets its deltas and can cancel it."""


class AsyncDeltaStream(AsyncIterator["StreamDelta"]):
    """The deltas of a request. Cancelling the task that reads, closing or forgetting the stream cancels the request.

    The request starts when the stream is first read or entered; what is wrong with it is raised there.
    """

    def __init__(self, engine: Engine, submit: Callable[[Attach], object]) -> None:
        """Prepare a stream.

        Args:
            engine: runs the request.
            submit: makes the request, attaches it to this stream, and submits it; called once, on a worker thread,
                since tokenizing and compiling may take seconds.
        """
        self._engine = engine
        self._submit = submit
        self._mailbox: _Mailbox | None = None
        self._request: Request | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the request, if that was not done, without waiting."""
        if self._mailbox is None:
            loop = asyncio.get_running_loop()
            self._mailbox = _Mailbox(loop)
            loop.run_in_executor(None, self._submit_to, self._mailbox)

    def cancel(self) -> None:
        """End the request without waiting; its memory is free after the step that runs now.

        What was generated stays in a session's context.
        """
        self._is_closed = True
        if self._request is not None:
            self._engine.loop.cancel(self._request)

    async def aclose(self) -> None:
        """Cancel the request if it still runs, and wait until its memory is free."""
        self.cancel()
        if self._request is not None:
            await asyncio.to_thread(self._engine.loop.abort, self._request)

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
        return await asyncio.to_thread(judged_output, self._engine.loop, self._request, output)

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
        """Cancel a request that nobody will read."""
        if not self._is_closed:
            self.cancel()

    def _submit_to(self, mailbox: _Mailbox) -> None:
        def attach(request: Request) -> None:
            request.deliver = mailbox.deliver
            self._request = request
            if self._is_closed:  # the reader left while the request was made; who leaves later finds it here
                self.cancel()

        try:
            self._submit(attach)
        except Exception as error:  # whatever it is, its reader waits for it on another thread
            mailbox.deliver(error)


class _Mailbox:
    """Takes deltas from the engine's thread to an event loop. It does not know the stream, which may be forgotten."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.deltas: asyncio.Queue[StreamDelta | BaseException] = asyncio.Queue()
        self._loop = loop

    def deliver(self, delta: StreamDelta | BaseException) -> None:
        """Hand over a delta or an error; neither blocks nor raises."""
        with suppress(RuntimeError):  # the event loop is closed, so nobody reads
            self._loop.call_soon_threadsafe(self.deltas.put_nowait, delta)
