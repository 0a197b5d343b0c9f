"""Keeps two from going on with one run of a trace file at the same time; other runs may share the file."""

from __future__ import annotations

import errno
import hashlib
import os
import struct
import sys
from pathlib import Path

from sureact.errors import TraceError

# The lock of an open file, of Linux, ends with that file, and holds against other threads too; that of a process does
# not. Elsewhere there is none, and runs are not locked.
_HAS_LOCKS = sys.platform == "linux"
_FLOCK = "hhqqi4x"
# Far beyond the end of any trace, where a byte stands for each run.
_FIRST_BYTE = 1 << 60


class RunLock:
    """Held from its making until `release`, by whoever works on a run."""

    def __init__(self, path: str | Path, run_id: str) -> None:
        """Take the lock.

        Args:
            path: the trace file; there already. One that is no regular file cannot be locked, nor gone on with.
            run_id: the run.

        Raises:
            TraceError: another one has it.
        """
        self._descriptor: int | None = None
        if not _HAS_LOCKS or not Path(path).is_file():
            return
        import fcntl

        byte = _FIRST_BYTE + int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:7])
        self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.fcntl(
                self._descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
            )
        except OSError as error:
            self.release()
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                return  # a file system without locks
            raise TraceError(
                f"Trace file {path}: the run {run_id} is at work in another process or thread. Wait for its end, or "
                "end that process."
            ) from error

    def release(self) -> None:
        """Give the lock back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
