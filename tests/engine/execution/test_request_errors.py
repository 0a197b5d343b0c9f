from collections.abc import Callable
from typing import Any

import pytest

from sureact.constraints.constraint import Constraint
from sureact.engine import Engine
from sureact.errors import InternalError, OutOfMemoryError
from sureact.execution.request_errors import as_exception, as_pass_error
from sureact.sampling_params import SamplingParams


@pytest.mark.parametrize("error", [ValueError("x"), InternalError("y")])
def test_an_exception_stays_itself(error: Exception) -> None:
    assert as_exception(error) is error
    assert as_pass_error(error) is error


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_what_would_end_a_process_becomes_an_error_of_the_request(error: BaseException) -> None:
    failed = as_exception(error)
    assert isinstance(failed, InternalError)
    assert failed.__cause__ is error


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory"), RuntimeError("can't allocate 9")])
def test_lack_of_memory_in_a_pass_is_told_as_such(error: BaseException) -> None:
    failed = as_pass_error(error)
    assert isinstance(failed, OutOfMemoryError)
    assert failed.__cause__ is error
    assert not isinstance(as_exception(error), OutOfMemoryError)


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), ZeroDivisionError("bug")])
def test_whatever_a_constraint_raises_ends_its_own_request(
    error: BaseException,
    tiny_engine: Engine,
    finite_constraint: Callable[..., Constraint],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: Any) -> None:
        raise error

    free = SamplingParams(max_tokens=12, ignore_eos=True)
    alone = tiny_engine.generate("neighbor", free).token_ids
    beside = tiny_engine.stream("neighbor", free)
    constraint = finite_constraint({b"x", b"y"})
    with monkeypatch.context() as patch:
        patch.setattr(type(constraint.compile(tiny_engine.vocabulary).new_state()), "fill_bitmask", fail)
        with pytest.raises((InternalError, ZeroDivisionError)):
            tiny_engine.generate("abc", SamplingParams(max_tokens=3), constraint)
    assert beside.read_output().token_ids == alone
