"""Runs in which somebody decides on a call, or on one that was interrupted: what is recorded, masked and resumed."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from sureact.agent.approval import Allow, Deny, Edit, PendingCall, Verdict
from sureact.agent.events import CallStarted, Event
from sureact.agent.module_scope import current_cancellation
from sureact.agent.prediction import Prediction
from sureact.agent.react import ReAct
from sureact.agent.resume import SKIPPED, UnfinishedCall
from sureact.agent.scripted_model import ScriptedModel
from sureact.agent.trace import read_trace

ANSWER = '{"reasoning": "", "answer": "yes"}'


def search(query: str) -> str:
    """Search."""
    return f"found {query}"


def now() -> str:
    """Tell the time."""
    return "noon"


def call(name: str, **args: object) -> str:
    return f"Action: {name}\nArguments: {json.dumps(args)}\n"


def step(name: str, **args: object) -> list[str]:
    return [f" I use {name}.\n", call(name, **args)]


FINISH = [*step("finish"), ANSWER]


def agent(script: Sequence[str], **options: Any) -> ReAct:
    given: dict[str, Any] = {"tools": [search, now], "lm": ScriptedModel(script), "prompt_format": "fields", **options}
    return ReAct("question -> answer", **given)


def made(prediction: Prediction) -> list[tuple[str, dict[str, Any]]]:
    return [(done.tool_name, done.tool_args) for done in prediction.trajectory.steps]


@pytest.mark.parametrize(
    ("verdict", "decision", "started", "outcome"),
    [
        (Allow(), "allow", True, "done"),
        (Deny("not now"), "deny", False, "denied"),
        (Edit({"query": "b"}), "edit", True, "done"),
    ],
)
def test_an_approval_is_recorded_before_the_call_starts(
    tmp_path: Path, verdict: Verdict, decision: str, started: bool, outcome: str
) -> None:
    path, seen = tmp_path / "t.jsonl", list[str]()

    def approve(pending: PendingCall) -> Verdict:
        seen.extend(record["type"] for record in read_trace(path))
        return verdict

    prediction = agent([*step("search", query="a"), *FINISH], approve=approve, trace=path)(question="?")
    assert seen == ["header", "prompt", "thought", "call"]
    types = [record["type"] for record in read_trace(path)]
    assert types[4:7] == (
        ["approval", "call_started", "observation"] if started else ["approval", "observation", "thought"]
    )
    approval = read_trace(path)[4]
    assert (approval["decision"], approval["reason"]) == (decision, "not now" if decision == "deny" else None)
    assert approval["tool_args"] == {"query": "b" if decision == "edit" else "a"}
    assert prediction.trajectory.steps[0].outcome == outcome
    first = next(record for record in read_trace(path) if record["type"] == "observation")
    assert first["finished"]["outcome"] == outcome


def test_a_denied_call_is_masked_too_and_after_a_resume(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    script = [*step("search", query="a"), *step("search", query="a"), call("now"), *FINISH]
    answers: list[Verdict] = [Deny(), Allow()]

    def approve(pending: PendingCall) -> Verdict:
        return answers.pop(0) if answers else Allow()

    prediction = agent(script, approve=approve, trace=path)(question="?")
    assert [name for name, _ in made(prediction)] == ["search", "now", "finish"]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:6]))
    resumed = agent(script[2:], approve=approve).resume(path)
    assert dict(resumed.trajectory) == dict(prediction.trajectory)


class Pending:
    """An approval that is given once the run is cancelled; the async one waits for ever."""

    def __init__(self) -> None:
        self.is_asked, self.may_answer, self.was_cancelled = threading.Event(), threading.Event(), threading.Event()

    def sync(self, pending: PendingCall) -> Verdict:
        cancellation = current_cancellation()
        assert cancellation is not None
        cancellation.add_callback(self.may_answer.set)
        self.is_asked.set()
        assert self.may_answer.wait(30)
        return Allow()

    async def waiting(self, pending: PendingCall) -> Verdict:
        self.is_asked.set()
        try:
            return await asyncio.Future[Verdict]()
        finally:
            self.was_cancelled.set()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_is_not_run_when_the_run_is_cancelled_while_it_is_decided_on(tmp_path: Path, is_async: bool) -> None:
    path, ran, pending = tmp_path / "t.jsonl", list[str](), Pending()

    def pay(to: str) -> str:
        """Pay."""
        ran.append(to)
        return "paid"

    async def main() -> None:
        approve = pending.waiting if is_async else pending.sync
        react = agent([*step("pay", to="a"), *FINISH], tools=[pay], approve=approve, trace=path)
        task = asyncio.create_task(react.acall(question="?"))
        assert await asyncio.to_thread(pending.is_asked.wait, 30)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    for thread in threading.enumerate():
        if thread.name == "sureact-acall":
            thread.join(30)
    assert pending.was_cancelled.wait(30 if is_async else 0) == is_async
    assert ran == []
    last = read_trace(path)[-1]
    assert [record["type"] for record in read_trace(path)] == ["header", "prompt", "thought", "call", "aborted"]
    assert last["error"] == "RequestAbortedError"
    assert last["message"].startswith("The run was cancelled")


class Till:
    """A tool that pays, and can be interrupted after it did."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.is_interrupted = False

    def pay(self, amount: int) -> str:
        """Pay."""
        self.paid.append(amount)
        if self.is_interrupted:
            raise KeyboardInterrupt
        return f"paid {amount}"


NOTE = 'The user changed the arguments of this call to {"amount": 1}. It gave: '


def test_an_edited_call_is_told_and_recorded_as_it_runs(tmp_path: Path) -> None:
    path, till, told = tmp_path / "t.jsonl", Till(), list[Event]()

    def approve(pending: PendingCall) -> Verdict:
        return Edit({"amount": 1})

    react = agent(
        [*step("pay", amount=1000), *FINISH], tools=[till.pay], approve=approve, trace=path, on_event=told.append
    )
    prediction = react(question="?")
    done = prediction.trajectory.steps[0]
    assert till.paid == [1]
    assert (done.tool_args, done.edited_args) == ({"amount": 1000}, {"amount": 1})
    assert done.observation == f"{NOTE}paid 1"
    assert next(event for event in told if isinstance(event, CallStarted)).tool_args == {"amount": 1}
    types = ("call", "approval", "call_started")
    args = [record["tool_args"] for record in read_trace(path) if record["type"] in types]
    assert args[:3] == [{"amount": 1000}, {"amount": 1}, {"amount": 1}]


def test_a_call_that_was_edited_counts_as_made_both_ways(tmp_path: Path) -> None:
    path, till = tmp_path / "t.jsonl", Till()
    answers: list[Verdict] = [Edit({"amount": 1})]

    def approve(pending: PendingCall) -> Verdict:
        return answers.pop() if answers else Allow()

    options: dict[str, Any] = {"tools": [till.pay, now], "approve": approve}
    rest = [*step("pay", amount=1), call("now"), *step("pay", amount=1000), call("finish"), ANSWER]
    prediction = agent([*step("pay", amount=1000), *rest], trace=path, **options)(question="?")
    assert [name for name, _ in made(prediction)] == ["pay", "now", "finish"]
    assert till.paid == [1]
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:7]))
    assert json.loads(lines[6])["type"] == "observation"
    assert dict(agent(rest, **options).resume(path).trajectory) == dict(prediction.trajectory)


@pytest.mark.parametrize(
    ("answer", "paid", "observation"),
    [
        ("run", [1], f"{NOTE}paid 1"),
        ("skip", [], NOTE + SKIPPED),
        ("It was paid.", [], f"{NOTE}It was paid."),
    ],
)
def test_an_edited_call_that_was_interrupted_is_asked_about_and_run_as_it_was_edited(
    tmp_path: Path, answer: str, paid: list[int], observation: str
) -> None:
    path, till, asked = tmp_path / "t.jsonl", Till(), list[dict[str, Any]]()
    till.is_interrupted = True

    def approve(pending: PendingCall) -> Verdict:
        asked.append(pending.args)
        return Edit({"amount": 1}) if pending.args["amount"] > 1 else Allow()

    def on_unfinished(unfinished: UnfinishedCall) -> str:
        asked.append(unfinished.args)
        return answer

    options: dict[str, Any] = {"tools": [till.pay], "approve": approve}
    with pytest.raises(KeyboardInterrupt):
        agent(step("pay", amount=1000), trace=path, **options)(question="?")
    till.__init__()
    asked.clear()
    done = agent(FINISH, **options).resume(path, on_unfinished=on_unfinished).trajectory.steps[0]
    assert asked == [{"amount": 1}] * (2 if answer == "run" else 1)
    assert till.paid == paid
    assert (done.tool_args, done.edited_args, done.observation) == ({"amount": 1000}, {"amount": 1}, observation)


def test_a_call_that_is_skipped_counts_as_one_that_was_not_made(tmp_path: Path) -> None:
    path, till = tmp_path / "t.jsonl", Till()
    till.is_interrupted = True
    options: dict[str, Any] = {"tools": [till.pay], "require_tools": ["pay"]}
    with pytest.raises(KeyboardInterrupt):
        agent(step("pay", amount=1), trace=path, **options)(question="?")
    till.__init__()
    script = [*step("pay", amount=1), *FINISH]
    prediction = agent(script, **options).resume(path, on_unfinished=lambda unfinished: "skip")
    steps = prediction.trajectory.steps
    assert [(done.tool_name, done.outcome, done.is_error) for done in steps] == [
        ("pay", "skipped", True),
        ("pay", "done", False),
        ("finish", "done", False),
    ]
    names = [record["names"] for record in read_trace(path) if record["type"] == "call"]
    assert names[1:] == [["pay"], ["pay", "finish"]]
    assert till.paid == [1]
