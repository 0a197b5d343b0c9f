"""Work that Ctrl-C does not stop in the middle: the interrupt comes when it is done."""

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Generator[None]:
    """Put SIGINT off until the block ends, which must be soon.

    Python raises `KeyboardInterrupt` after any call of the main thread, so also between two lines that change books
    together. On other threads there is nothing to do, nor where SIGINT is handled outside of Python.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    put_off: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: put_off.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if put_off:
            handler(*put_off[0])
