"""What runs of steps and turns of a conversation have in common."""

import pytest
from tests.engine.agent.test_agent_run import run_on
from tests.engine.agent.test_turn_session import ALL, CALL, SUBMIT, opened

from sureact.agent.call_rules import CallChoice
from sureact.agent.events import CallWithdrawn, Event
from sureact.agent.scripted_model import ScriptedModel, decode
from sureact.agent.token_limits import TokenLimits
from sureact.errors import RequestAbortedError


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
