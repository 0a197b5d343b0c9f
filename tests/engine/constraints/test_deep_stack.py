"""Calls nest as deeply as the stack they are given has room for, and nothing is left changed."""

import sys
import threading

import pytest

from sureact.constraints.deep_stack import call_on_deep_stack, call_with_room
from sureact.errors import OutOfMemoryError


def _depth(count: int) -> int:
    return 0 if count == 0 else 1 + _depth(count - 1)


def test_calls_nest_deeper_than_python_lets_them() -> None:
    before = sys.getrecursionlimit(), threading.stack_size()
    with pytest.raises(RecursionError):
        _depth(10_000)
    assert call_on_deep_stack(lambda: _depth(10_000), stack_bytes=128 << 20) == 10_000
    assert (sys.getrecursionlimit(), threading.stack_size()) == before


def test_calls_that_nest_too_deeply_here_get_room() -> None:
    assert call_with_room(lambda: _depth(10)) == 10
    assert call_with_room(lambda: _depth(10_000)) == 10_000
    with pytest.raises(RecursionError):
        call_with_room(lambda: _depth(100_000))


def test_what_is_raised_there_is_raised_here() -> None:
    with pytest.raises(RecursionError):
        call_on_deep_stack(lambda: _depth(100_000), stack_bytes=16 << 20)
    with pytest.raises(KeyboardInterrupt):
        call_on_deep_stack(_interrupt, stack_bytes=1 << 20)


def test_a_stack_that_the_system_does_not_give_is_told() -> None:
    before = threading.stack_size()
    with pytest.raises(OutOfMemoryError, match="a stack of 1,073,741,824 MiB"):
        call_on_deep_stack(lambda: 1, stack_bytes=1 << 50)
    assert threading.stack_size() == before


def _interrupt() -> None:
    raise KeyboardInterrupt
