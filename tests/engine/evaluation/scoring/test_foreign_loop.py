"""A loop of another project may fail in any way: that is how its run ended."""

import pytest
from typing_extensions import override

from sureact.evaluation.scoring.call_reading import ReadCall
from sureact.evaluation.scoring.foreign_loop import ForeignLoop, LoopTask
from sureact.evaluation.scoring.peer_loop import PeerRun

TASK = LoopTask(question="Q", output_type="str", tools=[], max_iters=1)


class FailingLoop(ForeignLoop):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    @override
    def prompt(self, task: LoopTask) -> str:
        return task.question

    @override
    def play(self, task: LoopTask, run: PeerRun) -> None:
        run.calls.append(ReadCall("search", {}))
        run.num_tokens = 3
        run.outputs = {"answer": "x"}
        raise self._error


def test_a_crash_is_an_outcome_that_keeps_what_came_before() -> None:
    run = FailingLoop(KeyError("next_thought")).run(TASK)
    assert (run.outputs, run.fault) == (None, "KeyError: 'next_thought'")
    assert (len(run.calls), run.num_tokens) == (1, 3)


def test_a_long_message_is_cut_and_one_line() -> None:
    assert FailingLoop(ValueError("a\n\n b")).run(TASK).fault == "ValueError: a b"
    assert len(FailingLoop(ValueError("x" * 9999)).run(TASK).fault) == 500


def test_an_interrupt_is_none() -> None:
    with pytest.raises(KeyboardInterrupt):
        FailingLoop(KeyboardInterrupt()).run(TASK)
