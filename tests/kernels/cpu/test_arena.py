import subprocess
import sys

import pytest

from sureact_kernels.cpu import arena as module
from sureact_kernels.cpu.arena import Arena
from sureact_kernels.cpu.library import library

pytestmark = pytest.mark.skipif(library() is None, reason="no C++ ops here")


@pytest.fixture(autouse=True)
def ops() -> None:
    """These run once, not for each version of the ops."""


def test_pieces_begin_on_lines_side_by_side_and_do_not_overlap() -> None:
    arena = Arena()
    pieces = [arena.empty(size) for size in (100, 1, 64, 4000, 7)]
    for number, piece in enumerate(pieces):
        piece.fill_(number)
    starts = [piece.data_ptr() for piece in pieces]
    assert all(start % 64 == 0 for start in starts)
    assert starts == sorted(starts)
    assert starts[-1] - starts[0] < 2 * sum(map(len, pieces)) + 64 * len(pieces)
    assert all((piece == number).all() for number, piece in enumerate(pieces))


def test_chunks_begin_on_large_pages_and_hold_what_does_not_fit_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHUNK_BYTES", 1000)
    arena = Arena()
    small, large, next_one = arena.empty(900), arena.empty(5000), arena.empty(900)
    assert [len(piece) for piece in (small, large, next_one)] == [900, 5000, 900]
    assert all(piece.data_ptr() % (2 << 20) == 0 for piece in (small, large, next_one))


def test_a_chunk_goes_with_the_last_tensor_in_it() -> None:
    """In a process of its own: one that has freed as much before would take it from there, and keep it."""
    program = """
import resource
from sureact_kernels.cpu.arena import CHUNK_BYTES, Arena

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()

arena = Arena()
piece = arena.empty(CHUNK_BYTES - 100)
piece.fill_(1)
arena.empty(CHUNK_BYTES - 100)
before = resident()
del piece
print(before - resident() > CHUNK_BYTES // 2)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
