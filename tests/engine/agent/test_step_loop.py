"""The guards of the loop, on whole runs; also replayed, and resumed from every record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from sureact.agent import token_limits
from sureact.agent.events import CallStarted, CallWithdrawn, ContextTruncated, Event
from sureact.agent.prediction import Prediction
from sureact.agent.react import ReAct
from sureact.agent.recorded_run import run_of
from sureact.agent.replay import recorded_agent, replay
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.agent.trace import read_trace
from sureact.agent.trajectory import Trajectory
from sureact.engine import Engine
from sureact.errors import ConfigError, ConstraintStateError, TraceError

ANSWER = '{"reasoning": "", "answer": "yes"}'


def search(query: str) -> str:
    """Search."""
    if query == "?":
        raise ValueError("no query")
    return f"found {query}"


def now() -> str:
    """Tell the time."""
    return "noon"


def _fails(query: str) -> str:
    raise ValueError(query)


def call(name: str, **args: object) -> str:
    return f"Action: {name}\nArguments: {json.dumps(args)}\n"


def step(name: str, **args: object) -> list[str]:
    return [f" I use {name}.\n", call(name, **args)]


FINISH = [*step("finish"), ANSWER]


def agent(script: Sequence[str | BaseException], **options: Any) -> ReAct:
    given: dict[str, Any] = {"tools": [search, now], "lm": ScriptedModel(script), "prompt_format": "fields", **options}
    return ReAct("question -> answer", **given)


def made(prediction: Prediction) -> list[tuple[str, dict[str, Any]]]:
    return [(done.tool_name, done.tool_args) for done in prediction.trajectory.steps]


SCRIPTS: dict[str, tuple[list[str], list[tuple[str, dict[str, Any]]]]] = {
    "a repeated call is taken back": (
        [*step("search", query="a"), *step("search", query="a"), call("now"), *FINISH],
        [("search", {"query": "a"}), ("now", {}), ("finish", {})],
    ),
    "other arguments are another call": (
        [*step("search", query="a"), *step("search", query="b"), *FINISH],
        [("search", {"query": "a"}), ("search", {"query": "b"}), ("finish", {})],
    ),
    "a call that failed is taken back too": (
        [*step("search", query="?"), *step("search", query="?"), call("finish"), ANSWER],
        [("search", {"query": "?"}), ("finish", {})],
    ),
    "the name comes back at the next step": (
        [
            *step("search", query="a"),
            *[*step("search", query="a"), call("now")],
            *step("search", query="b"),
            *FINISH,
        ],
        [("search", {"query": "a"}), ("now", {}), ("search", {"query": "b"}), ("finish", {})],
    ),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_repeated_call_never_comes_out(name: str) -> None:
    script, calls = SCRIPTS[name]
    prediction = agent(script)(question="?")
    assert made(prediction) == calls
    assert not any(done.is_repeat for done in prediction.trajectory.steps)


@pytest.mark.parametrize("name", SCRIPTS)
def test_with_repeats_masked_a_run_is_replayed_and_resumed_alike(tmp_path: Path, name: str) -> None:
    script, _ = SCRIPTS[name]
    path, lm = tmp_path / "t.jsonl", ScriptedModel(script)
    prediction = agent(script, lm=lm, trace=path)(question="?")
    report = replay(recorded_agent(run_of(path), ScriptedModel(script)), path)
    assert (report.difference, report.is_whole, report.changed_masks) == (None, True, [])
    lines = path.read_text().splitlines(keepends=True)
    for num_records in range(1, len(lines)):
        cut = tmp_path / f"{num_records}.jsonl"
        cut.write_text("".join(lines[:num_records]))
        records = [json.loads(line) for line in lines[:num_records]]
        done = sum(len(record.get("earlier_generations", ())) + ("generation" in record) for record in records)
        again = ScriptedModel(script[done:])
        resumed = agent([], lm=again).resume(cut, on_unfinished=lambda unfinished: "run")
        assert dict(resumed.trajectory) == dict(prediction.trajectory), num_records
        assert again.sessions[-1].token_ids == lm.sessions[-1].token_ids
        assert resumed.usage.num_generations == prediction.usage.num_generations


def test_a_call_that_is_taken_back_is_told_and_leaves_no_text(tmp_path: Path) -> None:
    events: list[Event] = []
    lm, path = ScriptedModel(SCRIPTS["a repeated call is taken back"][0]), tmp_path / "t.jsonl"
    agent([], lm=lm, on_event=events.append, trace=path)(question="?")
    told = [event for event in events if isinstance(event, CallWithdrawn | CallStarted)]
    assert told[1] == CallWithdrawn(1, "search", {"query": "a"})
    assert [event.tool_name for event in told if isinstance(event, CallStarted)] == ["search", "now", "finish"]
    assert lm.sessions[0].text.count('{"query": "a"}') == 1
    records = [record for record in read_trace(path) if record["type"] == "call"]
    assert [record["names"] for record in records] == [["search", "now", "finish"]] * 2 + [["search", "finish"]]
    assert [len(record.get("earlier_generations", ())) for record in records] == [0, 1, 0]


def test_a_tool_whose_only_call_was_made_cannot_be_named() -> None:
    prediction = agent([*step("now"), *step("now"), *FINISH])(question="?")
    assert made(prediction) == [("now", {}), ("", {}), ("finish", {})]
    assert prediction.trajectory.steps[1].observation.startswith("Execution error in the call: ConstraintStateError")


def test_where_no_other_tool_is_left_a_repeat_gets_a_reminder() -> None:
    script = [*step("search", query="?"), *step("search", query="?"), *step("search", query="b"), *FINISH]
    prediction = agent(script, tools=[search], require_tools=["search"])(question="?")
    assert [name for name, _ in made(prediction)] == ["search", "search", "search", "finish"]
    assert [done.is_repeat for done in prediction.trajectory.steps] == [False, True, False, False]
    assert "repeats step 1" in prediction.trajectory["observation_1"]


def test_a_run_without_tokens_for_another_call_reminds() -> None:
    limits = TokenLimits(thought=20, call=70, outputs=40, run=200)
    script = [*step("search", query="a"), *step("search", query="a"), ANSWER]
    prediction = agent(script, limits=limits)(question="?")
    assert [done.is_repeat for done in prediction.trajectory.steps] == [False, True]
    assert prediction.termination_reason == "token_budget"
    assert prediction.usage.completion_tokens <= 200


@pytest.mark.parametrize("form", ["qwen_tool_call", "qwen_react"])
def test_the_other_formats_mask_alike(form: str) -> None:
    if form == "qwen_react":
        look = 'Action: search\nAction Input: {"query": "a"}\n'
        script = [" Hm.\n", look, " Hm.\n", look, "Final Answer:\n", ANSWER]
    else:
        look = '<tool_call>\n{"name": "search", "arguments": {"query": "a"}}\n</tool_call>'
        script = ["Hm.", look, "Hm.", look, look.replace("search", "finish").replace('"query": "a"', ""), ANSWER]
    prediction = agent(script, prompt_format=form)(question="?")
    assert made(prediction) == [("search", {"query": "a"}), ("finish", {})]


def test_finish_is_impossible_before_a_required_tool_was_called() -> None:
    script = [*step("finish"), *step("search", query="?"), *step("finish"), *step("search", query="a"), *FINISH]
    prediction = agent(script, require_tools=("search",))(question="?")
    assert [name for name, _ in made(prediction)] == ["", "search", "", "search", "finish"]
    assert prediction.termination_reason == "finish"


def test_a_run_that_never_calls_a_required_tool_ends_by_its_steps() -> None:
    prediction = agent([*step("now"), ANSWER], require_tools=("search",), max_iters=1)(question="?")
    assert (prediction.termination_reason, prediction.answer) == ("max_iters", "yes")


def test_finish_is_impossible_right_after_an_error_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = [*step("search", query="?"), " I finish.\n", call("search", query="a"), *FINISH]
    react = agent(script, finish_after_error=False, trace=path)
    prediction = react(question="?")
    assert made(prediction) == [("search", {"query": "?"}), ("search", {"query": "a"}), ("finish", {})]
    assert [record["names"] for record in read_trace(path) if record["type"] == "call"][1] == ["search", "now"]
    assert read_trace(path)[0]["finish_after_error"] is False
    replayed = recorded_agent(run_of(path), ScriptedModel(script))
    assert not replayed.rules.finish_after_error
    assert replay(replayed, path).difference is None
    twice = [*step("search", query="?"), *step("search", query="??"), *FINISH]
    failing = agent(twice, tools=[Tool(_fails, name="search")], finish_after_error=False)
    assert made(failing(question="?"))[-1] == ("finish", {})


def test_a_trace_without_the_rule_for_errors_is_one_in_which_they_might_end_a_run(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    agent([*step("now"), *FINISH], finish_after_error=False, trace=path)(question="?")
    header, *others = path.read_text().splitlines()
    old = {name: value for name, value in json.loads(header).items() if name != "finish_after_error"}
    path.write_text("\n".join([json.dumps(old), *others]) + "\n")
    assert recorded_agent(run_of(path), ScriptedModel([])).rules.finish_after_error


def test_a_step_has_the_tools_that_are_allowed_then(tmp_path: Path) -> None:
    def allowed(index: int, trajectory: Trajectory) -> list[str]:
        return ["now"] if index == 0 else ["search"]

    script = [*step("search", query="a"), *step("search", query="a"), *FINISH]
    path = tmp_path / "t.jsonl"
    prediction = agent(script, allowed_tools=allowed, trace=path)(question="?")
    assert [name for name, _ in made(prediction)] == ["", "search", "finish"]
    # The names of a call that could be decoded stand in the trace, so the function is not asked again.
    lines = path.read_text().splitlines(keepends=True)
    assert json.loads(lines[-2])["type"] == "observation"
    good = [*step("now"), *step("search", query="a"), *FINISH]
    agent(good, allowed_tools=allowed, trace=path)(question="?")
    run_id = read_trace(path)[-1]["run_id"]
    report = replay(recorded_agent(run_of(path, run_id), ScriptedModel(good)), path, run_id=run_id)
    assert (report.difference, report.is_whole, report.changed_masks) == (None, True, [])


def test_a_token_budget_ends_a_run_between_steps_and_the_outputs_are_given() -> None:
    limits = TokenLimits(thought=20, call=60, outputs=40, run=250)
    script = [text for index in range(5) for text in step("search", query=str(index))]
    prediction = agent([*script[:6], ANSWER], limits=limits)(question="?")
    assert prediction.termination_reason == "token_budget"
    assert prediction.answer == "yes"
    assert prediction.usage.completion_tokens <= 250


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.mark.parametrize(("in_tool", "in_thought", "num_steps"), [(6.0, 0.0, 1), (0.0, 12.0, 0), (0.0, 0.0, 3)])
def test_a_time_budget_ends_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_tool: float, in_thought: float, num_steps: int
) -> None:
    clock, path = Clock(), tmp_path / "t.jsonl"
    monkeypatch.setattr(token_limits, "time", clock)

    def work(number: int) -> int:
        """Work."""
        clock.now += in_tool
        return number

    def on_event(event: Event) -> None:
        if type(event).__name__ == "ThoughtDelta":
            clock.now += in_thought

    script = [text for index in range(num_steps) for text in step("work", number=index)]
    script += [" Zzz.\n"] * bool(in_thought) + [ANSWER] * (num_steps < 3) + FINISH * (num_steps == 3)
    react = agent(script, tools=[work], limits=TokenLimits(max_seconds=10), on_event=on_event, trace=path)
    prediction = react(question="?")
    assert prediction.termination_reason == ("finish" if num_steps == 3 else "time_budget")
    assert len(prediction.trajectory.steps) == num_steps + (num_steps == 3)
    assert isinstance(react.lm, ScriptedModel)
    assert "Zzz" not in react.lm.sessions[-1].text
    report = replay(recorded_agent(run_of(path), ScriptedModel(script)), path)
    assert (report.difference, report.is_whole) == (None, True)


@pytest.mark.parametrize("form", ["fields", "qwen_tool_call", "qwen_react"])
def test_decoding_that_comes_to_no_call_is_an_observation_and_no_end(tmp_path: Path, form: str) -> None:
    refused = ConstraintStateError("a dead end again and again")
    ends = {
        "fields": step("finish"),
        "qwen_tool_call": ["Hm.", '<tool_call>\n{"name": "finish", "arguments": {}}\n</tool_call>'],
        "qwen_react": [" Hm.\n", "Final Answer:\n"],
    }
    path, lm = tmp_path / "t.jsonl", ScriptedModel([" Hm.\n", refused, *ends[form], ANSWER])
    prediction = agent([], lm=lm, prompt_format=form, trace=path)(question="?")
    first = prediction.trajectory.steps[0]
    assert (first.tool_name, first.is_error, first.outcome) == ("", True, "refused")
    assert first.observation == "Execution error in the call: ConstraintStateError: a dead end again and again"
    assert prediction.termination_reason == "finish"
    # A run that goes on has the same context.
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    assert json.loads(lines[3])["type"] == "observation"
    again = ScriptedModel([*ends[form], ANSWER])
    resumed = agent([], lm=again, prompt_format=form).resume(path)
    assert dict(resumed.trajectory) == dict(prediction.trajectory)
    assert again.sessions[-1].token_ids == lm.sessions[-1].token_ids


def test_a_full_context_cuts_old_observations_before_it_drops_a_step(tmp_path: Path) -> None:
    def long(size: int) -> str:
        """Return a long text."""
        return "x" * size

    limits = TokenLimits(thought=60, call=60, observation=600, kept_observation=80, outputs=60)
    script = [*(text for size in (500, 510, 520) for text in step("long", size=size)), *FINISH]
    opening = len(agent([], tools=[long]).prompt_format.opening({"question": "?"}).text)
    events: list[Event] = []
    options: dict[str, Any] = {"tools": [long], "limits": limits}
    lm, path = ScriptedModel(script, context_len=opening + 2300), tmp_path / "t.jsonl"
    prediction = agent([], lm=lm, on_event=events.append, trace=path, **options)(question="?")
    (truncated,) = [event for event in events if isinstance(event, ContextTruncated)]
    assert truncated.dropped_steps == ()
    assert truncated.trimmed_steps
    assert len(prediction.trajectory.steps) == 4
    assert prediction.trajectory["observation_0"].endswith("of 500 characters shown]")
    (record,) = [record for record in read_trace(path) if record["type"] == "truncated"]
    assert record["trimmed_steps"] == list(truncated.trimmed_steps)
    model = ScriptedModel(script, context_len=opening + 2300)
    report = replay(recorded_agent(run_of(path), model), path)
    assert (report.difference, report.is_whole) == (None, True)


def test_outcomes_of_errors_are_kept() -> None:
    prediction = agent([*step("search", query="?"), *FINISH])(question="?")
    assert [done.outcome for done in prediction.trajectory.steps] == ["error", "done"]
    dry = agent([*step("now"), *FINISH], dry_run=True)(question="?")
    assert [done.outcome for done in dry.trajectory.steps] == ["dry_run", "done"]


def test_a_repeatable_tool_is_replayed_although_the_trace_does_not_tell_that_it_is(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = [*step("now"), *step("now"), *FINISH]
    agent(script, tools=[Tool(now, repeatable=True)], trace=path)(question="?")
    report = replay(recorded_agent(run_of(path), ScriptedModel(script)), path)
    assert (report.difference, report.is_whole) == (None, True)


def test_changed_demos_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    demos: list[Mapping[str, Any]] = [{"question": "a", "trajectory": "", "next_thought": "b"}]
    react = agent([*step("now"), KeyboardInterrupt()], trace=path)
    react.react.demos = demos
    with pytest.raises(KeyboardInterrupt):
        react(question="?")
    with pytest.raises(ConfigError, match="demos"):
        agent(FINISH).resume(path)
    same = agent(FINISH)
    same.react.demos = demos
    assert same.resume(path).answer == "yes"
    whole = [*step("now"), *FINISH]
    report = replay(recorded_agent(run_of(path), ScriptedModel(whole)), path)
    assert (report.difference, report.is_whole) == (None, True)


def test_a_run_is_not_resumed_while_it_is_at_work(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    seen: list[str] = []

    def meddle() -> str:
        """Resume the run from inside."""
        with pytest.raises(TraceError) as caught:
            agent(FINISH, tools=[meddle]).resume(path, on_unfinished=lambda call: "skip")
        seen.append(str(caught.value))
        return "ok"

    agent([*step("meddle"), *FINISH], tools=[meddle], trace=path)(question="?")
    assert "is at work in another process or thread" in seen[0]


@pytest.mark.model
def test_a_real_model_that_repeats_itself_is_led_elsewhere(model_folder: Any, tmp_path: Path) -> None:
    from sureact.evaluation.tasks.task_set import all_tasks
    from sureact.evaluation.tasks.tools import tools_named

    (task,) = [task for task in all_tasks() if task.id == "arithmetic-05"]
    path = tmp_path / "t.jsonl"
    with Engine(str(model_folder), max_model_len=8192, kv_cache_gb=0.2) as engine:
        options: dict[str, Any] = {"tools": tools_named(task.tools), "lm": engine, "max_iters": 3}
        reminded = ReAct(task.signature, **options, prompt_format="fields", on_repeat="remind")(question=task.question)
        masked = ReAct(task.signature, **options, prompt_format="fields", trace=path)(question=task.question)
        report = replay(recorded_agent(run_of(path), engine), path)
    assert any(done.is_repeat for done in reminded.trajectory.steps)
    calls = [json.dumps(called) for called in made(masked)]
    assert len(set(calls)) == len(calls)
    assert (report.difference, report.is_whole, report.changed_masks) == (None, True, [])
