import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from sureact.agent.approval import Allow, Deny, Edit, PendingCall, Verdict
from sureact.agent.react import ReAct
from sureact.agent.recorded_run import RecordedRun, run_of
from sureact.agent.resume import SKIPPED
from sureact.agent.scripted_model import ScriptedModel
from sureact.cli.recorded_display import show_recorded
from sureact.cli.step_display import StepDisplay

SCRIPT = [
    " I look.\n",
    'Action: search\nArguments: {"q": "a"}\n',
    " Once more.\n",
    'Action: search\nArguments: {"q": "a"}\n',
    'Action: pay\nArguments: {"n": 5}\n',
    " And more.\n",
    'Action: pay\nArguments: {"n": 6}\n',
    " Done.\n",
    "Action: finish\nArguments: {}\n",
    '{"reasoning": "r", "answer": "x"}',
]


def search(q: str) -> str:
    """Search."""
    return f"found {q}"


def pay(n: int) -> str:
    """Pay."""
    return f"paid {n}"


def approve(call: PendingCall) -> Verdict:
    if call.tool_name != "pay":
        return Allow()
    return Edit({"n": 1}) if call.args["n"] == 5 else Deny("no more")


def screen_display() -> tuple[StepDisplay, io.StringIO]:
    screen = io.StringIO()
    return StepDisplay(Console(file=screen, width=80, markup=False, highlight=False, soft_wrap=True)), screen


def shown(run: RecordedRun) -> str:
    display, screen = screen_display()
    show_recorded(run, display)
    return screen.getvalue()


def run_with(*records: Mapping[str, Any]) -> RecordedRun:
    run = RecordedRun("a")
    for record in records:
        run.add(dict(record))
    return run


def test_a_run_is_shown_as_it_was_shown_live(tmp_path: Path) -> None:
    display, screen = screen_display()
    path = tmp_path / "t.jsonl"
    agent = ReAct("q -> answer", [search, pay], lm=ScriptedModel(SCRIPT), prompt_format="fields", trace=path)
    agent.on_event = display
    agent(q="?")
    live = screen.getvalue()
    assert "Taken back" in live
    assert shown(run_of(path)) == live


def test_approvals_stand_between_call_and_observation(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lm = ScriptedModel(SCRIPT)
    ReAct("q -> answer", [search, pay], lm=lm, prompt_format="fields", trace=path, approve=approve)(q="?")
    text = shown(run_of(path))
    assert '  Arguments: {"q": "a"}\n  Allowed: the call\n  Observation: found a\n' in text
    assert '  Arguments: {"n": 5}\n  Edited: {"n": 1}\n  Observation: ' in text
    assert '  Arguments: {"n": 6}\n  Denied: no more\n  Error: ' in text


def generation(text: str, **more: object) -> dict[str, Any]:
    usage = dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens"), 0)
    start = {"text": text, "token_ids": [1], "forced": [], "finish_reason": "stop", "stop_reason": None}
    return {**start, "usage": usage, "timings": {"prefill_s": 0.0, "decode_s": 0.0, "mask_s": 0.0}, **more}


def test_what_was_ended_early_or_cut_off_is_told_and_so_is_thinking() -> None:
    early = [{"reason": "string_length", "num_tokens": 9, "pointer": "/q"}]
    cut = {"type": "call", "step": 1, "tool_name": None, "tool_args": None, "refusal": None}
    run = run_with(
        {"type": "thought", "step": 0, "text": "I look.", "thinking": "Hm."},
        {"type": "call", "step": 0, "tool_name": "f", "tool_args": {}, "refusal": None}
        | {"generation": generation("f()", early_ends=early)},
        {"type": "thought", "step": 1, "text": "Again."},
        cut | {"generation": generation("f(")},
    )
    assert shown(run) == (
        "Step 1\n  Thinking: Hm.\n  Thought: I look.\n  f()\n  Ended early: /q: string length\n"
        "Step 2\n  Thought: Again.\n  f(\n  Cut off: it did not end within its tokens\n"
    )


def test_where_a_run_went_on_is_told_with_what_became_of_an_interrupted_call() -> None:
    for answer, told in (
        (None, ""),
        ("run", "; the call that was interrupted is run again"),
        (SKIPPED, "; the call that was interrupted is skipped"),
        ("paid", "; the call that was interrupted is given the result 'paid'"),
    ):
        run = run_with({"type": "resumed", "step": 1, "unfinished": answer})
        assert shown(run) == f"  Resumed: with step 2{told}\n"


def test_the_first_version_told_calls_when_they_started() -> None:
    step = {"index": 0, "thought": "", "tool_name": "f", "tool_args": {}, "observation": "\ud800"}
    run = run_with(
        {"type": "call_started", "step": 0, "tool_name": "f", "tool_args": {"a": 1}},
        {"type": "observation", "step": 0, "finished": json.loads(json.dumps(step))},
    )
    assert shown(run) == 'Step 1\n  f {"a": 1}\n  Observation: ?\n'
