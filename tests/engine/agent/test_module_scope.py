import contextvars
import threading
from collections import deque

import pytest

from sureact.agent.call_history import LmCall
from sureact.agent.callback import Callback
from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import (
    Scope,
    active_callbacks,
    cancelled_by,
    current_cancellation,
    entered,
    note_generation,
    tool_cancellation,
    track_usage,
)
from sureact.agent.predict import Predict
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.transcript import Transcript
from sureact.agent.usage_tracker import UsageTracker
from sureact.outputs import StepOutput, TokenUsage
from sureact.sampling_params import SamplingParams

OUTPUT = StepOutput(
    text="x",
    token_ids=(1,),
    finish_reason="stop",
    usage=TokenUsage(prompt_tokens=3, cached_tokens=0, completion_tokens=1),
)
CALL = LmCall("id", 0.0, "m", SamplingParams(), False, OUTPUT, 0.1, Transcript())


def test_a_generation_is_noted_by_all_that_are_being_called_each_once():
    outer, inner = UsageTracker(), UsageTracker()
    history: deque[LmCall] = deque()
    with entered(Scope(outer, history)):
        with entered(Scope(inner, history)):
            note_generation(CALL, OUTPUT)
        note_generation(CALL, OUTPUT)
    note_generation(CALL, OUTPUT)
    assert list(history) == [CALL, CALL]
    assert (outer.total_tokens()["m"]["total_tokens"], inner.total_tokens()["m"]["total_tokens"]) == (8, 4)


def test_an_error_leaves_the_scope():
    usage = UsageTracker()
    with pytest.raises(KeyError), entered(Scope(usage)):
        raise KeyError
    note_generation(CALL, OUTPUT)
    assert usage.total_tokens() == {}


def test_callbacks_come_outermost_first_and_each_once():
    first, second, third = Callback(), Callback(), Callback()
    with entered(Scope(UsageTracker(), callbacks=(first, second))), entered(Scope(UsageTracker(), callbacks=(second,))):
        assert active_callbacks([third, first]) == [first, second, third]
    assert active_callbacks() == []


def test_a_block_counts_what_is_called_in_it():
    predict = Predict("q -> a", lm=ScriptedModel(['{"a": "x"}'] * 3))
    with track_usage() as usage:
        predict(q="?")
        with track_usage() as inner:
            predict(q="?")
    predict(q="?")
    assert usage.total_tokens()["scripted"]["num_generations"] == 2
    assert inner.total_tokens()["scripted"]["num_generations"] == 1


def test_a_thread_counts_only_with_a_copy_of_the_context():
    with track_usage() as usage:
        bare = threading.Thread(target=note_generation, args=(CALL, OUTPUT))
        copied = threading.Thread(target=contextvars.copy_context().run, args=(note_generation, CALL, OUTPUT))
        for thread in (bare, copied):
            thread.start()
            thread.join()
    assert usage.total_tokens()["m"]["num_generations"] == 1


def test_the_innermost_cancellation_counts():
    outer, inner = Cancellation(), Cancellation()
    assert current_cancellation() is None
    with cancelled_by(outer):
        with cancelled_by(inner):
            assert current_cancellation() is inner
        assert current_cancellation() is outer
    assert current_cancellation() is None


def test_tools_are_given_up_only_where_that_is_asked_for():
    assert tool_cancellation() is None
    with cancelled_by(Cancellation()):
        assert tool_cancellation() is None
    with cancelled_by(Cancellation(gives_up_tools=True)):
        assert tool_cancellation() is current_cancellation() is not None
