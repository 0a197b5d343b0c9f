"""What runs of steps and turns of a conversation have in common."""

from dataclasses import replace
from typing import Any

import pytest
from tests.engine.agent.test_agent_run import run_on
from tests.engine.agent.test_turn_session import ALL, CALL, SUBMIT, opened

from sureact.agent import agent_context
from sureact.agent.call_rules import CallChoice
from sureact.agent.events import CallWithdrawn, EndedEarly, Event
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel, decode
from sureact.agent.streaming import stream_text
from sureact.agent.token_limits import TokenLimits
from sureact.errors import RequestAbortedError
from sureact.outputs import EarlyEnd, StepOutput


def test_observations_take_at_most_a_quarter_of_the_context():
    assert run_on(ScriptedModel([], context_len=3000)).observation_limit == 750
    assert run_on(ScriptedModel([]), TokenLimits(observation=10)).observation_limit == 10


def test_closing_stops_the_clock():
    run = run_on(ScriptedModel([]))
    run.close()
    assert run.usage.seconds > 0


def test_a_call_that_is_masked_is_taken_back_and_another_tool_decided_on():
    events: list[Event] = []
    session = opened("I look.\n", CALL, SUBMIT, emit=events.append)
    session.think(0)
    call = session.decide_call(0, "call_0_0", CallChoice(("look", "submit"), lambda name, args: name == "look"))
    assert call is not None
    assert call.tool_name == "submit"
    assert CallWithdrawn(0, "look", {}) in events
    assert decode(session.token_ids).endswith(f"I look.\n{SUBMIT}")


def test_a_masked_call_stands_where_nothing_else_may_be_called():
    session = opened("I look.\n", CALL)
    session.think(0)
    call = session.decide_call(0, "call_0_0", CallChoice(("look",), lambda name, args: True))
    assert call is not None
    assert call.tool_name == "look"


def test_an_error_inside_a_generation_passes_on():
    with pytest.raises(RequestAbortedError):
        opened(RequestAbortedError("")).think(0)


def test_every_generation_is_ended_as_the_limits_say():
    session = opened("I look.\n", CALL, limits=TokenLimits(on_max_tokens="cut", runaway=None))
    session.think(0)
    (thought,) = session.generations
    session.decide_call(0, "call_0_0", ALL)
    (call,) = session.generations
    assert [(g.params.on_max_tokens, g.params.runaway) for g in (thought, call)] == [("cut", None)] * 2


def test_what_was_ended_early_is_told_with_its_part(monkeypatch: pytest.MonkeyPatch):
    end = EarlyEnd("repetition", 6, None)

    def ended(*arguments: Any) -> StepOutput:
        return replace(stream_text(*arguments), early_ends=(end,))

    monkeypatch.setattr(agent_context, "stream_text", ended)
    events: list[Event] = []
    script = [" Done.\n", "Action: finish\nArguments: {}\n", '{"reasoning": "r", "answer": "x"}']
    ReAct("question -> answer", [], lm=ScriptedModel(script), on_event=events.append)(question="?")
    told = [event for event in events if isinstance(event, EndedEarly)]
    assert told == [EndedEarly("thought", 0, end), EndedEarly("call", 0, end), EndedEarly("outputs", None, end)]
