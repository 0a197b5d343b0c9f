"""A generation of an engine in another process, read piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Self

from sureact.errors import InternalError, RequestAbortedError
from sureact.isolation.messages import Cancel, End, Failure, unpack_failure
from sureact.outputs import StreamDelta

if TYPE_CHECKING:
    from types import TracebackType

    from sureact.constraints.constraint import Constraint
    from sureact.isolation.channel import Channel, Piece
    from sureact.isolation.messages import Generate
    from sureact.outputs import StepOutput


class Mailbox:
    """Takes the pieces of one generation from the reader's thread; the stream may be forgotten."""

    def __init__(self, on_piece: Callable[[StreamDelta | End | Failure], object] | None = None) -> None:
        self.call_id = 0
        """Number of the call; 0 until it is made."""
        self.is_cancelled = False
        self.end = Event()
        """Set once the process has told the end."""
        self._pieces: SimpleQueue[StreamDelta | End | Failure] = SimpleQueue()
        self._on_piece = on_piece

    def put(self, piece: Piece) -> None:
        """Take a piece."""
        assert isinstance(piece, (StreamDelta, End, Failure)), "a generation is answered by deltas"
        if self._on_piece is not None:
            self._on_piece(piece)
        if not isinstance(piece, StreamDelta):
            self.end.set()
        self._pieces.put(piece)

    def cancel(self, channel: Channel) -> None:
        """End the generation, if it runs, after the step that runs now; return at once."""
        if self.call_id and not self.is_cancelled and not self.end.is_set():
            self.is_cancelled = True
            channel.send(Cancel(self.call_id))

    def forget(self, channel: Channel) -> None:
        """Like `cancel`, a little later and without a lock."""
        if self.call_id and not self.is_cancelled and not self.end.is_set():
            self.is_cancelled = True
            channel.forget(Cancel(self.call_id))

    def take(self) -> list[StreamDelta | End | Failure]:
        """Wait for a piece, and return it with all that have come by then."""
        pieces = [self._pieces.get()]
        with suppress(Empty):
            while True:
                pieces.append(self._pieces.get_nowait())
        return pieces


class ProcessStream(Iterator[StreamDelta]):
    """The deltas of a running request; closing it, leaving its `with` block or forgetting it cancels the request.

    Deltas that came faster than they were read are joined. What is wrong with the request is raised when it is first
    read.
    """

    def __init__(
        self,
        channel: Channel,
        mailbox: Mailbox,
        message_of: Callable[[int], Generate],
        constraint: Constraint | None,
        *,
        keep_alive: object,
    ) -> None:
        """Start the request; it runs whether or not anybody reads.

        Args:
            channel: to the process.
            mailbox: for its pieces.
            message_of: from the number of the call to what is asked.
            constraint: judges the complete text.
            keep_alive: the engine or session, which must not be closed as forgotten while the stream is read.
        """
        self._keep_alive = keep_alive
        self._channel = channel
        self._mailbox = mailbox
        self._constraint = constraint
        self._failure: Failure | None = None
        self._is_over = False
        mailbox.call_id = channel.start(mailbox, message_of)

    def __iter__(self) -> Self:
        """Return the stream itself."""
        return self

    def __next__(self) -> StreamDelta:
        """Wait for the next delta.

        Raises:
            SureactError: the request is refused or failed, or the process is gone.
            StopIteration: the last delta was read, or the stream was closed.
        """
        if self._is_over:
            raise StopIteration
        if self._failure is not None:
            self._is_over = True
            raise unpack_failure(self._failure)
        try:
            pieces = self._mailbox.take()
        except BaseException:  # an interrupt too must free the request
            self.close()
            raise
        if isinstance(pieces[-1], Failure):
            self._failure = pieces.pop()  # pyright: ignore[reportAttributeAccessIssue]  just told
            if not pieces:
                return next(self)
        self._is_over = isinstance(pieces[-1], End)
        return _joined([piece.delta if isinstance(piece, End) else piece for piece in pieces])  # pyright: ignore[reportArgumentType]  a failure comes last

    def read_output(self) -> StepOutput:
        """Read to the end and return the output, with the value that a constrained text stands for.

        Raises:
            ConstraintError: a validator of the user's own type, or Python's limits, refuse the value.
            SureactError: the request is refused or failed, or the process is gone.
        """
        output = next((delta.output for delta in self if delta.output is not None), None)
        if output is None:
            raise RequestAbortedError("The stream was closed before its text ended.")
        if self._constraint is None or output.finish_reason != "stop":
            return output
        try:
            return replace(output, value=self._constraint.parse(output.text))
        except InternalError:
            self._channel.ask("count_late_refusal")
            raise

    def cancel(self) -> None:
        """End the request, after the step that runs now; return at once."""
        self._is_over = True
        self._mailbox.cancel(self._channel)

    def close(self) -> None:
        """Cancel the request if it still runs, and wait until it has ended. A session keeps what was generated."""
        self.cancel()
        self._mailbox.end.wait()

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
        self._mailbox.forget(self._channel)


def _joined(deltas: list[StreamDelta]) -> StreamDelta:
    if len(deltas) == 1:
        return deltas[0]
    return StreamDelta(
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        logprobs=tuple(logprob for delta in deltas for logprob in delta.logprobs),
        output=deltas[-1].output,
    )
