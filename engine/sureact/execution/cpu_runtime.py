"""What the C libraries below torch must be told, so that thousands of short CPU ops run at full speed."""

import ctypes
import re
import sys
from functools import cache
from pathlib import Path

_PAUSE_HARD = 2
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BUFFER_BYTES = 64 << 20
_KEPT_HEAP_BYTES = 512 << 20
_SWITCH_INTERVAL_S = 1e-4


def release_thread_pool() -> None:
    """End the OpenMP workers of the calling thread, which is about to wait.

    GNU's libgomp lets workers spin between parallel regions only while there are no more of them than cores. Each
    thread that ever ran torch keeps workers of its own, so a caller that only waits for the engine would halve its
    speed (measured on two cores, 0.5B int8: 34 tokens per second before, 45 after). The workers come back when the
    caller runs torch again.
    """
    library = _libgomp()
    if library is not None:
        library.omp_pause_resource_all(_PAUSE_HARD)


def keep_freed_buffers() -> None:
    """Let glibc keep the buffers of one pass for the next, up to half a gigabyte.

    By default it returns each large one to the system and takes it back page by page: normalizing 512 rows of 896
    took 1.2 ms so, and 0.13 ms with kept buffers.
    """
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(_M_MMAP_THRESHOLD, _KEPT_BUFFER_BYTES)
        libc.mallopt(_M_TRIM_THRESHOLD, _KEPT_HEAP_BYTES)


def hand_over_interpreter_quickly() -> None:
    """Let a busy Python thread give the interpreter away every 0.1 ms, if it may keep it longer now (5 ms by default).

    Each of the thousand torch calls of a pass gives it up and needs it back. Beside one spinning thread, 120 products
    took 620 ms with the default and 27 ms so (two cores; 5 ms alone).
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_INTERVAL_S))


@cache
def _libgomp() -> ctypes.CDLL | None:
    """Return the libgomp that torch has loaded; None on systems where it uses another OpenMP."""
    maps = Path("/proc/self/maps")
    match = re.search(r"/\S*libgomp\S*", maps.read_text()) if maps.exists() else None
    library = ctypes.CDLL(match.group(0)) if match else None
    return library if library is not None and hasattr(library, "omp_pause_resource_all") else None
