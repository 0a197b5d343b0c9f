"""Agents over HTTP: what is answered, and that the events of a stream add up to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.engine.server.agent_servers import ANSWER, FINISH, PATH, AgentClient, add, step
from tests.engine.server.scripted_engine import ScriptedEngine

Make = Callable[..., AgentClient]


@pytest.fixture
def agents(engine: ScriptedEngine) -> AgentClient:
    return AgentClient(engine)


def test_a_run_is_answered_with_its_outputs_and_steps(agents: AgentClient) -> None:
    agents.say([*step("add", a=1), *step("fail", reason="no"), *FINISH])
    answer = agents.ask()
    assert answer["object"] == "agent.run"
    assert answer["id"].startswith("run_")
    assert (answer["model"], answer["outputs"], answer["reasoning"]) == ("tiny", {"answer": "42"}, "So it is.")
    assert (answer["termination_reason"], answer["early_ends"]) == ("finish", [])
    steps = answer["trajectory"]
    assert [(s["step_index"], s["tool_name"], s["outcome"], s["is_error"]) for s in steps] == [
        (0, "add", "done", False),
        (1, "fail", "error", True),
        (2, "finish", "done", False),
    ]
    assert (steps[0]["thought"], steps[0]["thinking"], steps[0]["tool_args"]) == ("I use add.", "", {"a": 1})
    assert steps[0]["observation"] == "3"
    assert "no" in steps[1]["observation"]
    usage = answer["usage"]
    assert usage["num_generations"] == 7
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    assert 0 < usage["prompt_tokens_details"]["cached_tokens"] < usage["prompt_tokens"]
    assert 0 < usage["completion_tokens_details"]["reasoning_tokens"] < usage["completion_tokens"]
    assert usage["tool_seconds"] > 0


def test_a_stream_tells_each_step_and_ends_with_the_answer(agents: AgentClient) -> None:
    agents.say([*step("add", a=1), *FINISH])
    events = agents.events(PATH, {"question": "?", "format": "fields"})
    kinds = [event["type"] for event in events]
    assert list(dict.fromkeys(kinds)) == [
        "run.started",
        "thought.delta",
        "call.delta",
        "call.started",
        "step.completed",
        "output.delta",
        "run.completed",
    ]
    assert len({event["id"] for event in events}) == 1
    assert events[0]["inputs"] == {"question": "?"}
    assert events[0]["tools"] == ["add", "fail", "finish"]
    assert (events[0]["max_iters"], events[0]["model"]) == (20, "tiny")
    assert events[-1]["run"]["outputs"] == {"answer": "42"}
