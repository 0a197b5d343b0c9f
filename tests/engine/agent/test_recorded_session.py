from collections import deque
from typing import Any

import pytest

from sureact.agent.call_history import LmCall
from sureact.agent.callback import Callback
from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import Scope, cancelled_by, entered
from sureact.agent.prompt_format import plain_text
from sureact.agent.recorded_session import RecordedSession
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.usage_tracker import UsageTracker
from sureact.constraints.choice import choice
from sureact.errors import ContextWindowExceededError, RequestAbortedError, SessionError
from sureact.outputs import StepOutput
from sureact.sampling_params import SamplingParams


class Recorder(Callback):
    def __init__(self) -> None:
        self.inputs: list[dict[str, Any]] = []
        self.ends: list[tuple[Any, type[Any]]] = []

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.inputs.append(inputs)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        self.ends.append((outputs, type(exception)))


def scope() -> tuple[Scope, deque[LmCall], Recorder]:
    history: deque[LmCall] = deque()
    recorder = Recorder()
    return Scope(UsageTracker(), history, (recorder,)), history, recorder


def test_generations_are_kept_with_what_the_model_read():
    here, history, recorder = scope()
    session = RecordedSession(ScriptedModel(["yes", "no"]))
    session.append("Is it? ".strip())
    with entered(here):
        session.generate(SamplingParams(), choice(["yes", "no"]))
        session.append(plain_text("\nSure?\n"))
        session.generate(SamplingParams(max_tokens=9))
    assert [call.prompt for call in history] == ["Is it?", "Is it?yes\nSure?\n"]
    assert [call.output.text for call in history] == ["yes", "no"]
    assert [call.is_constrained for call in history] == [True, False]
    assert history[1].params.max_tokens == 9
    assert [inputs["prompt"] for inputs in recorder.inputs] == [call.prompt for call in history]
    assert [type(outputs) for outputs, _ in recorder.ends] == [StepOutput, StepOutput]


def test_cut_text_is_not_in_the_prompt():
    here, history, _ = scope()
    session = RecordedSession(ScriptedModel(["a", "b"]))
    session.append("Q")
    session.append("gone")
    session.truncate(1)
    session.append([65, 66])
    with entered(here):
        session.generate(SamplingParams())
    assert history[0].prompt == "Q[2 tokens that were generated before]"
    assert (session.token_ids, session.num_cached_tokens) == ([81, 65, 66, 97], 4)


def test_what_does_not_fit_is_an_error_of_the_context():
    session = RecordedSession(ScriptedModel([], context_len=3))
    with pytest.raises(ContextWindowExceededError, match=r"does not fit; shorten the inputs, .* 4 tokens; at most 3\."):
        session.append("abcd")
    session.append("abc")
    session.close()
    with pytest.raises(SessionError):
        session.append("d")


def test_a_failed_generation_is_told_and_not_kept():
    here, history, recorder = scope()
    session = RecordedSession(ScriptedModel([KeyboardInterrupt()]))
    with entered(here), pytest.raises(KeyboardInterrupt):
        session.generate(SamplingParams())
    assert (list(history), recorder.ends) == ([], [(None, KeyboardInterrupt)])


def test_a_reader_that_gives_up_is_no_error():
    here, history, recorder = scope()
    session = RecordedSession(ScriptedModel(["a long text", "b"]))
    with entered(here):
        stream = session.stream(SamplingParams())
        next(iter(stream))
        stream.close()  # pyright: ignore[reportAttributeAccessIssue]  it is a generator
        session.generate(SamplingParams())
    assert recorder.ends[0] == (None, type(None))
    assert [call.prompt for call in history] == ["[a part of this text was cut]"]


def test_cancelling_closes_what_was_opened_under_it():
    cancellation = Cancellation()
    model = ScriptedModel([])
    with cancelled_by(cancellation):
        session, closed = RecordedSession(model), RecordedSession(model)
        closed.close()
        assert not model.sessions[0].is_closed
        cancellation.cancel()
        assert model.sessions[0].is_closed
        with pytest.raises(RequestAbortedError):
            RecordedSession(model)
    session.close()
    assert len(model.sessions) == 2


def test_what_is_asked_of_a_session_that_a_cancellation_closed_says_so():
    cancellation = Cancellation()
    with cancelled_by(cancellation):
        session = RecordedSession(ScriptedModel(["a"]))
    session.append("Q")
    cancellation.cancel()
    for ask in (
        lambda: session.append("x"),
        lambda: session.truncate(0),
        lambda: session.generate(SamplingParams(max_tokens=1)),
    ):
        with pytest.raises(RequestAbortedError, match="cancelled"):
            ask()
