"""The deltas of a run add up to its answer, however the model's texts fall into pieces."""

from __future__ import annotations

import json
import random
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.server.agent_servers import PATH, AgentClient, SaltedScript, add, step
from tests.engine.server.scripted_engine import ScriptedEngine

from sureact.agent.events import AnswerReady, CallDelta, CallWithdrawn, EndedEarly, OutputDelta, ThoughtDelta
from sureact.agent.react import ReAct
from sureact.outputs import EarlyEnd, StepOutput, TokenUsage
from sureact.server.agent_answer import RunAnswer

TEXTS = st.text(st.sampled_from("ab </tihnk>Observation:é😀\u00a0"), max_size=40)
PARTS: dict[type, Literal["thought", "call", "outputs"]] = {
    ThoughtDelta: "thought",
    CallDelta: "call",
    OutputDelta: "outputs",
}
PROPERTY = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def agents(engine: ScriptedEngine) -> AgentClient:
    return AgentClient(engine, [add])


def added_up(events: list[Any]) -> dict[int, dict[str, str]]:
    """Add up the deltas of each step as a client does."""
    steps: dict[int, dict[str, str]] = {}
    for event in events:
        if "step_index" in event:
            texts = steps.setdefault(event["step_index"], {"thought": "", "thinking": "", "call": ""})
            kind, _, is_delta = event["type"].partition(".")
            if is_delta == "delta":
                texts[kind] += event["delta"]
            elif event["type"] == "call.withdrawn":
                texts["call"] = ""
            elif event["type"] == "step.dropped":
                del steps[event["step_index"]]
    return steps


def without_what_differs(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without ids and times."""
    usage = {name: value for name, value in answer["usage"].items() if name != "tool_seconds"}
    steps = [{name: value for name, value in s.items() if name != "tool_seconds"} for s in answer["trajectory"]]
    kept = {name: value for name, value in answer.items() if name not in ("id", "created")}
    return kept | {"usage": usage, "trajectory": steps}


def check_sums(agents: AgentClient, script: list[str], prompt_format: str, seed: int) -> dict[str, Any]:
    """Ask the same at once and as a stream, in other pieces; return the answer, which must be the same."""
    body = {"question": "?", "format": prompt_format}
    agents.say(script, split=random.Random(seed))
    whole = agents.ask(**body)
    agents.say(script, split=random.Random(seed + 1))
    events = agents.events(PATH, body)
    answer = events[-1]["run"]
    assert answer["id"] == events[0]["id"]
    assert without_what_differs(answer) == without_what_differs(whole)
    sums = added_up(events)
    assert list(sums) == [s["step_index"] for s in answer["trajectory"]]
    for told in answer["trajectory"]:
        texts = sums[told["step_index"]]
        assert (texts["thought"], texts["thinking"]) == (told["thought"], told["thinking"])
        assert told["tool_name"] in texts["call"] or prompt_format == "qwen_react"
        for value in told["tool_args"].values():
            assert str(value) in texts["call"]
    outputs = "".join(event["delta"] for event in events if event["type"] == "output.delta")
    assert json.loads(outputs) == {"reasoning": answer["reasoning"], **answer["outputs"]}
    prediction = ReAct("question -> answer", [add], lm=SaltedScript(script), prompt_format=prompt_format)(question="?")
    assert [(s.thought, s.thinking) for s in prediction.trajectory.steps] == [
        (s["thought"], s["thinking"]) for s in answer["trajectory"]
    ]
    usage = answer["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["num_generations"]) == (
        prediction.usage.prompt_tokens,
        prediction.usage.completion_tokens,
        prediction.usage.num_generations,
    )
    return answer


def outputs_of(answer: str) -> str:
    return json.dumps({"reasoning": "So.", "answer": answer}, ensure_ascii=False)


@PROPERTY
@given(TEXTS, TEXTS, TEXTS, st.integers(0, 99))
def test_plain_lines(agents: AgentClient, thought: str, other: str, answer: str, seed: int) -> None:
    script = [*step("add", f" {thought}", a=seed), *step("finish", f" {other}"), outputs_of(answer)]
    told = check_sums(agents, script, "fields", seed)
    assert [s["thought"] for s in told["trajectory"]] == [thought.strip(), other.strip()]


@PROPERTY
@given(TEXTS, TEXTS, st.sampled_from(["", "Observation:"]), st.integers(0, 99))
def test_thoughts_that_make_up_an_observation(
    agents: AgentClient, thought: str, answer: str, end: str, seed: int
) -> None:
    script = [
        f" {thought}{end}" if end else f" {thought}\n",
        f'Action: add\nAction Input: {{"a": {seed}}}\n',
        " I know it.\n",
        "Final Answer:\n",
        outputs_of(answer),
    ]
    told = check_sums(agents, script, "qwen_react", seed)
    assert told["trajectory"][0]["thought"] == thought.partition("Observation:")[0].strip()


@PROPERTY
@given(st.lists(TEXTS, min_size=1, max_size=2), TEXTS, st.booleans(), st.integers(0, 99))
def test_thoughts_with_parts_between_tags(
    agents: AgentClient, inside: list[str], thought: str, is_closed: bool, seed: int
) -> None:
    end = "</think>" if is_closed else ""
    parts = [text for part in inside for text in ("<think>", f"{part}{end} ignored" if end else part)]
    call = f'<tool_call>\n{{"name": "add", "arguments": {{"a": {seed}}}}}\n</tool_call>'
    finish = '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>'
    script = [*parts, f"{thought}\n", call, "Done.\n", finish, outputs_of("x")]
    told = check_sums(agents, script, "qwen_tool_call", seed)
    expected = [part.partition("</think>")[0].strip() for part in inside]
    assert told["trajectory"][0]["thinking"] == "\n".join(filter(None, expected))


def output(text: str = "x") -> StepOutput:
    usage = TokenUsage(prompt_tokens=10, cached_tokens=4, completion_tokens=2)
    return StepOutput(text=text, token_ids=(1, 2), finish_reason="stop", usage=usage)


def test_what_was_ended_early_is_told_with_its_place() -> None:
    answer = RunAnswer("run_1", "tiny", {"question": "?"}, "")
    told: list[Any] = []

    def say(event: Any, end: EarlyEnd) -> None:
        told.extend(answer.add(event))
        is_constrained = not isinstance(event, ThoughtDelta)
        told.extend(answer.add_output(output("x"), is_constrained=is_constrained))
        told.extend(answer.add(EndedEarly(PARTS[type(event)], getattr(event, "step_index", None), end)))

    say(ThoughtDelta(0, "again again"), EarlyEnd("repetition", 7, None))
    say(CallDelta(0, "taken back"), EarlyEnd("string_length", 9, "/a"))
    told.extend(answer.add(CallWithdrawn(0, "add", {"a": 1})))
    say(CallDelta(0, "another"), EarlyEnd("max_tokens", 5, ""))
    say(OutputDelta("{"), EarlyEnd("string_length", 3, "/answer"))
    told.extend(answer.add(AnswerReady({"reasoning": "", "answer": ""}, "finish")))
    assert answer.whole["early_ends"] == [
        {"part": "thought", "step_index": 0, "reason": "repetition", "num_tokens": 7, "pointer": None},
        {"part": "call", "step_index": 0, "reason": "max_tokens", "num_tokens": 5, "pointer": ""},
        {"part": "outputs", "step_index": None, "reason": "string_length", "num_tokens": 3, "pointer": "/answer"},
    ]
    usage = answer.whole["usage"]
    assert (usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]) == (8, 2)
