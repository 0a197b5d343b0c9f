from collections.abc import Mapping
from typing import Any

import pytest

from sureact.agent.agent_run import AgentRun
from sureact.agent.call_rules import CallChoice
from sureact.agent.cancellation import Cancellation
from sureact.agent.events import CallWithdrawn, Event, ObservationReady
from sureact.agent.module_scope import cancelled_by
from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel, encode
from sureact.agent.token_limits import TokenLimits
from sureact.agent.trajectory import Step, Trajectory
from sureact.constraints.llguidance_state import GrammarState
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintStateError, PromptTooLongError, RequestAbortedError
from sureact.sampling_params import RunawayLimits


def run_on(lm: ScriptedModel, limits: TokenLimits | None = None) -> AgentRun:
    events: list[Event] = []
    react = ReAct("q -> a", [], lm=lm, prompt_format="fields")
    return AgentRun(lm, react.prompt_format, {"q": "?"}, limits or TokenLimits(), events.append)


@pytest.mark.parametrize("name", ["thought", "call", "observation", "outputs"])
def test_limits_below_one_are_refused(name: str):
    with pytest.raises(ConfigError, match=name):
        TokenLimits(**{name: 0})  # pyright: ignore[reportArgumentType]


def test_an_open_step_can_be_dropped():
    lm = ScriptedModel([" Hm.\n"])
    run = run_on(lm)
    before = list(lm.sessions[0].token_ids)
    run.begin_step()
    assert run.think(0).text == "Hm."
    run.drop_open_step()
    assert lm.sessions[0].token_ids == before


def test_a_session_that_cannot_hold_the_opening_is_closed():
    lm = ScriptedModel([], context_len=10)
    with pytest.raises(PromptTooLongError):
        run_on(lm)
    assert lm.sessions[0].is_closed


def test_a_cancelled_run_fails_at_its_next_move():
    cancellation = Cancellation()
    with cancelled_by(cancellation):
        run = run_on(ScriptedModel([" Hm.\n"]))
    cancellation.cancel()
    with pytest.raises(RequestAbortedError, match="cancelled"):
        run.think(0)


def test_a_run_that_is_cancelled_while_it_drops_steps_opens_no_other_session():
    lm, cancellation = ScriptedModel([], context_len=3700), Cancellation()
    with cancelled_by(cancellation):
        run = run_on(lm)
    for index in range(2):
        run.trajectory.append(Step(index=index, thought="x" * 1000, tool_name="a", tool_args={}, observation="o"))
    lm.sessions[0].append("y" * 1000)

    def cancel_and_drop(trajectory: Trajectory) -> Trajectory:
        cancellation.cancel()
        trajectory.drop_oldest()
        return trajectory

    with cancelled_by(cancellation), pytest.raises(RequestAbortedError, match="cancelled"):
        run.make_room_for_step(cancel_and_drop)
    run.close()
    assert all(session.is_closed for session in lm.sessions)


def drop_all_but_one(trajectory: Trajectory) -> Trajectory:
    if len(trajectory.steps) == 1:
        raise PromptTooLongError("the last one")
    trajectory.drop_oldest()
    return trajectory


def test_a_truncation_that_fails_or_makes_nothing_shorter_changes_nothing():
    lm = ScriptedModel([" Hm.\n", "Action: finish\nArguments: {}\n"], context_len=3700)
    run = run_on(lm)
    for index in range(2):
        run.trajectory.append(Step(index=index, thought="x" * 1000, tool_name="a", tool_args={}, observation="o"))
    run.begin_step()
    lm.sessions[0].append("y" * 1000)
    with pytest.raises(PromptTooLongError, match="truncate_trajectory left"):
        run.make_room_for_step(lambda trajectory: trajectory)
    with pytest.raises(PromptTooLongError, match="the last one"):
        run.make_room_for_step(drop_all_but_one)
    assert len(run.trajectory.steps) == 2
    assert len(lm.sessions) == 1


def test_thoughts_calls_and_outputs_are_ended_where_they_run_on():
    limits = TokenLimits(runaway=RunawayLimits(repeated_tokens=200))
    run = run_on(ScriptedModel([" Hm.\n", "Action: finish\nArguments: {}\n"]), limits)
    run.begin_step()
    run.think(0)
    (thought,) = run.generations
    run.decide_call(0)
    (call,) = run.generations
    for generation in (thought, call):
        assert (generation.params.on_max_tokens, generation.params.runaway) == ("close", limits.runaway)


@pytest.mark.parametrize("prompt_format", ["fields", "qwen_tool_call", "qwen_react"])
def test_where_a_step_could_begin_there_is_room_for_the_outputs_after_it(prompt_format: str):
    texts = {
        "fields": 'Action: look\nArguments: {"q": "%s"}\n',
        "qwen_react": 'Action: look\nAction Input: {"q": "%s"}\n',
        "qwen_tool_call": '<tool_call>\n{"name": "look", "arguments": {"q": "%s"}}\n</tool_call>',
    }
    call = texts[prompt_format]
    call %= "q" * (TokenLimits().call - len(encode(call)))
    script = [" " + "t" * 199, call, '{"reasoning": "r", "answer": "x"}']

    def look(q: str) -> str:
        """Look."""
        return "z" * 5000

    opening = ReAct("q -> answer", [look], lm=ScriptedModel([]), prompt_format=prompt_format).prompt_format.opening
    opening_len = len(encode(opening({"q": "?"}).text))
    num_refused = num_done = 0
    for context_len in range(opening_len + 1000, opening_len + 4000, 31):
        lm, events = ScriptedModel(script, context_len=context_len), list[Event]()
        react = ReAct("q -> answer", [look], lm=lm, prompt_format=prompt_format, on_event=events.append)
        try:
            prediction = react(q="?", max_iters=1)
        except PromptTooLongError:
            num_refused += 1
            assert not any(isinstance(event, ObservationReady) for event in events), context_len
        else:
            num_done += 1
            assert prediction.answer == "x"
    assert num_refused
    assert num_done > num_refused


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def on_engine(engine: Engine, events: list[Event]) -> AgentRun:
    react = ReAct("q -> a", [add], lm=engine, prompt_format="fields")
    limits = TokenLimits(thought=8, call=80, outputs=40)
    run = AgentRun(engine, react.prompt_format, {"q": "?"}, limits, events.append)
    run.begin_step()
    run.think(0)
    return run


@pytest.mark.parametrize("name", ["add", "finish"])
def test_a_model_can_call_what_it_may_name_only(roomy_engine: Engine, name: str):
    run = on_engine(roomy_engine, [])
    call = run.decide_call(0, CallChoice((name,)))
    assert call is not None
    assert call.tool_name == name
    run.close()


def test_on_a_model_a_masked_call_is_taken_back_and_leaves_nothing(roomy_engine: Engine):
    events: list[Event] = []
    run = on_engine(roomy_engine, events)
    start = len(run.token_ids)
    seen: list[str] = []

    def is_masked(name: str, args: Mapping[str, Any]) -> bool:
        seen.append(name)
        return len(seen) == 1

    call = run.decide_call(0, CallChoice(("add", "finish"), is_masked))
    assert call is not None
    assert sorted(seen) == ["add", "finish"]
    assert call.tool_name == seen[1]
    (withdrawn,) = [event for event in events if isinstance(event, CallWithdrawn)]
    assert withdrawn.tool_name == seen[0]
    assert list(run.token_ids[start:]) == list(call.output.token_ids)
    assert len(run.generations) == 2
    run.close()


def test_on_a_model_a_dead_end_refuses_the_call_and_leaves_the_thought(
    roomy_engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    def dead_end(self: GrammarState, bitmask: object, row: int) -> None:
        raise ConstraintStateError("No token of this vocabulary can continue the constrained text.")

    run = on_engine(roomy_engine, [])
    before = list(run.token_ids)
    with monkeypatch.context() as patched:
        patched.setattr(GrammarState, "fill_bitmask", dead_end)
        call = run.decide_call(0, CallChoice(("add", "finish")))
    assert call is not None
    assert isinstance(call.refusal, ConstraintStateError)
    assert (call.tool_name, list(run.token_ids)) == ("", before)
    after = run.decide_call(0)  # the session goes on
    assert after is not None
    assert after.tool_name in ("add", "finish")
    run.close()
