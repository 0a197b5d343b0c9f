"""Memory for packed matrices, side by side in large pages.

A matrix is read from end to end for every token. In pages of 4 KiB, looking up addresses takes a
twentieth of the time or more; a large page holds 2 MiB, more than many a matrix, so that matrices have to share them.
"""

import threading

import torch

from sureact_kernels.cpu.library import call

CHUNK_BYTES = 64 << 20
"""Taken from the system at once; a larger matrix gets a chunk of its own."""

_PAGE_BYTES, _LINE_BYTES = 2 << 20, 64


class Arena:
    """Hands out pieces of chunks. A chunk is freed with the last tensor that lies in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = torch.empty(0, dtype=torch.uint8)

    def empty(self, num_bytes: int) -> torch.Tensor:
        """Return `[num_bytes]`, uint8, that begins on a line of the cache."""
        with self._lock:
            if len(self._left) < num_bytes:
                self._left = _chunk(max(num_bytes, CHUNK_BYTES))
            piece = self._left[:num_bytes]
            self._left = self._left[-(-num_bytes // _LINE_BYTES) * _LINE_BYTES :]
            return piece


def _chunk(num_bytes: int) -> torch.Tensor:
    chunk = torch.empty(num_bytes + _PAGE_BYTES, dtype=torch.uint8)
    chunk = chunk[-chunk.data_ptr() % _PAGE_BYTES :][:num_bytes]
    call("ask_for_large_pages", chunk, num_bytes)
    return chunk


ARENA = Arena()
