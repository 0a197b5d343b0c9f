"""The settings below torch change speed only: results stay, and calling twice or without them does no harm."""

import sys
import threading

import pytest
import torch

from sureact.execution.cpu_runtime import hand_over_interpreter_quickly, keep_freed_buffers, release_thread_pool


def test_torch_computes_the_same_after_its_workers_were_released() -> None:
    x = torch.randn(600, 600)
    before = x @ x
    release_thread_pool()
    release_thread_pool()
    assert torch.equal(x @ x, before)


def test_a_thread_that_never_ran_torch_may_release_too() -> None:
    errors: list[BaseException] = []

    def release() -> None:
        try:
            release_thread_pool()
        except BaseException as error:  # reported by the assertion below
            errors.append(error)

    thread = threading.Thread(target=release)
    thread.start()
    thread.join()
    assert errors == []


def test_buffers_are_kept_any_number_of_times() -> None:
    keep_freed_buffers()
    keep_freed_buffers()
    assert torch.ones(1000, 1000).sum() == 1_000_000


def test_a_shorter_switch_interval_of_the_user_stays() -> None:
    before = sys.getswitchinterval()
    try:
        for asked, expected in ((5e-3, 1e-4), (5e-5, 5e-5)):
            sys.setswitchinterval(asked)
            hand_over_interpreter_quickly()
            assert sys.getswitchinterval() == pytest.approx(expected, abs=2e-6)
    finally:
        sys.setswitchinterval(before)
