"""A generation read piece by piece."""

from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

from sureact.errors import InternalError, RequestAbortedError
from sureact.execution.engine_loop import EngineLoop
from sureact.outputs import StepOutput, StreamDelta
from sureact.scheduling.request import Request


class DeltaStream(Iterator[StreamDelta]):
    """The deltas of a running request. Closing it, leaving its `with` block or forgetting it cancels the request."""

    def __init__(self, loop: EngineLoop, request: Request, *, keep_alive: object) -> None:
        """Start the request; it runs whether or not anybody reads.

        Args:
            loop: runs it.
            request: not submitted yet.
            keep_alive: the engine, which must not be closed as forgotten while the stream is read.
        """
        self._keep_alive = keep_alive
        self._loop = loop
        self._request = request
        self._deltas: Iterator[StreamDelta] = request.deltas()
        loop.submit(request)

    def __iter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __next__(self) -> StreamDelta:
        """Wait for the next delta.

        Raises:
            SureactError: the request failed.
            StopIteration: the last delta was read, or the stream was closed.
        """
        try:
            return next(self._deltas)
        except BaseException:  # an interrupt too must free the request
            self.close()
            raise

    def read_output(self) -> StepOutput:
        """Read to the end and return the output, with the value that a constrained text stands for.

        Raises:
            ConstraintError: a validator of the user's own type, or Python's limits, refuse the value.
            SureactError: the request failed.
        """
        output = next((delta.output for delta in self if delta.output is not None), None)
        if output is None:
            raise RequestAbortedError("The stream was closed before its text ended.")
        return judged_output(self._loop, self._request, output)

    def close(self) -> None:
        """Cancel the request if it still runs. What was generated stays in a session's context."""
        self._deltas = iter(())
        self._loop.abort(self._request)

    def __enter__(self) -> Self:
        """Enter a `with` block that closes the stream."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close the stream."""
        self.close()

    def __del__(self) -> None:
        """Cancel a request that nobody will read; the garbage collector must not be made to wait for a lock."""
        if hasattr(self, "_deltas"):
            self._loop.forget(self._request)


def judged_output(loop: EngineLoop, request: Request, output: StepOutput) -> StepOutput:
    """Return the output of a request with the value that a complete constrained text stands for.

    Raises:
        ConstraintError: a validator of the user's own type, or Python's limits, refuse the value.
        InternalError: the text is none that the constraint allows.
    """
    if request.judge is None or output.finish_reason != "stop":
        return output
    try:
        return replace(output, value=request.judge(output.text))
    except InternalError:
        loop.count_late_refusal()
        raise
