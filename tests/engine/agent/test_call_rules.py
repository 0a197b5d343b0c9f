from dataclasses import replace
from typing import Any, Literal

import pytest

from sureact.agent.call_rules import CallRules, EarlierCalls, call_key
from sureact.agent.tool import FINISH, Tool
from sureact.agent.trajectory import Step, Trajectory
from sureact.errors import ConfigError


def now() -> str:
    """Tell the time."""
    return "noon"


def paint(color: Literal["red", "blue"]) -> str:
    """Paint."""
    return color


def search(q: str) -> str:
    """Search."""
    return q


def finish() -> str:
    """End."""
    return ""


TOOLS = {tool.name: tool for tool in (Tool(now), Tool(paint), Tool(search), Tool(finish))}
ALL = ("now", "paint", "search", FINISH)


def step(tool_name: str, is_error: bool = False, outcome: str = "done", **args: Any) -> Step:
    return Step(
        index=0,
        thought="",
        tool_name=tool_name,
        tool_args=args,
        observation="",
        is_error=is_error,
        outcome=outcome,
    )


def after(*steps: Step) -> EarlierCalls:
    earlier = EarlierCalls()
    for done in steps:
        earlier.add(done)
    return earlier


def names(rules: CallRules, *steps: Step, index: int = 0) -> tuple[str, ...]:
    return rules.choice(index, Trajectory(list(steps)), after(*steps)).names


def test_at_first_everything_may_be_called():
    assert names(CallRules(TOOLS)) == ALL


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([step("now")], ("paint", "search", FINISH)),
        ([step("now", is_error=True)], ("paint", "search", FINISH)),
        ([step("paint", color="red")], ALL),
        ([step("paint", color="red"), step("paint", color="red")], ALL),
        ([step("paint", color="red"), step("paint", color="blue")], ("now", "search", FINISH)),
        ([step("search", q="x"), step("now")], ("paint", "search", FINISH)),
    ],
)
def test_a_tool_is_out_by_its_name_once_each_of_its_calls_was_made(steps: list[Step], left: tuple[str, ...]):
    assert names(CallRules(TOOLS), *steps) == left
    assert names(CallRules(TOOLS, on_repeat="remind"), *steps) == ALL
    assert names(CallRules(TOOLS, on_repeat="run"), *steps) == ALL


def test_a_call_of_the_same_values_is_masked():
    rules, earlier = CallRules(TOOLS), after(step("search", q="x"))
    choice = rules.choice(1, Trajectory(), earlier)
    assert choice.is_masked("search", {"q": "x"})
    assert not choice.is_masked("search", {"q": "y"})
    assert not CallRules(TOOLS, on_repeat="remind").choice(1, Trajectory(), earlier).is_masked("search", {"q": "x"})


@pytest.mark.parametrize(
    ("args", "others", "is_same"),
    [
        ({"a": 1, "b": [1.0]}, {"b": [1], "a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 1}, {}, False),
    ],
)
def test_calls_are_the_same_where_their_values_are(args: dict[str, Any], others: dict[str, Any], is_same: bool):
    assert (call_key("t", args) == call_key("t", others)) == is_same
    assert call_key("t", args) != call_key("u", args)


def test_a_call_that_the_user_changed_counts_as_both():
    earlier = after(replace(step("search", q="x"), edited_args={"q": "y"}))
    assert [earlier.find("search", {"q": q}) is not None for q in "xyz"] == [True, True, False]
    assert names(CallRules(TOOLS), replace(step("paint", color="red"), edited_args={"color": "blue"})) == (
        "now",
        "search",
        FINISH,
    )


def test_a_call_that_was_skipped_counts_as_none():
    skipped = step("now", is_error=True, outcome="skipped")
    assert names(CallRules(TOOLS), skipped) == ALL
    assert names(CallRules(TOOLS, finish_after_error=False), skipped) == ALL
    assert names(CallRules(TOOLS, require_tools=["now"]), skipped) == ("now", "paint", "search")


def test_repeatable_tools_are_never_masked():
    tools = {**TOOLS, "now": Tool(now, repeatable=True)}
    rules = CallRules(tools)
    assert names(rules, step("now")) == ALL
    assert not rules.choice(1, Trajectory(), after(step("now"))).is_masked("now", {})
    assert rules.repeated("now", {}, after(step("now"))) is None


@pytest.mark.parametrize(
    ("steps", "may_finish"),
    [
        ([], False),
        ([step("search", is_error=True, q="x")], False),
        ([step("search", q="x")], False),
        ([step("search", q="x"), step("paint", color="red")], True),
        ([step("search", is_error=True, q="x"), step("search", q="y"), step("paint", color="red")], True),
    ],
)
def test_finish_waits_for_the_tools_that_must_come_first(steps: list[Step], may_finish: bool):
    assert (FINISH in names(CallRules(TOOLS, require_tools=("search", "paint")), *steps)) == may_finish


def test_something_is_always_left():
    tools = {name: TOOLS[name] for name in ("now", FINISH)}
    failed = step("now", is_error=True)
    # Its only call was made and failed, so it may come again, for a reminder.
    assert names(CallRules(tools, require_tools=["now"]), failed) == ("now",)
    assert names(CallRules(TOOLS, require_tools=["now"], allowed_tools=lambda index, trajectory: [])) == (FINISH,)


FAILED = step("search", is_error=True, q="x")
DENIED = replace(FAILED, outcome="denied")
LATER = replace(FAILED, index=3)


@pytest.mark.parametrize(
    ("steps", "may_finish"),
    [
        ([], True),
        ([step("search", q="x")], True),
        ([FAILED], False),
        ([step("now"), FAILED], False),
        ([FAILED, step("now")], True),
        ([FAILED, FAILED], True),
        ([FAILED, step("now"), FAILED], False),
        ([DENIED], True),
        ([DENIED, FAILED], False),
        ([LATER], True),  # the step before it was dropped
    ],
)
def test_an_error_can_be_mended_before_the_end(steps: list[Step], may_finish: bool):
    assert (FINISH in names(CallRules(TOOLS, finish_after_error=False), *steps)) == may_finish
    assert FINISH in names(CallRules(TOOLS, finish_after_error=True), *steps)
    assert (FINISH in names(CallRules(TOOLS, finish_after_error=False, on_repeat="run"), *steps)) == may_finish


def test_after_an_error_the_end_is_possible_where_nothing_else_is_left():
    tools = {name: TOOLS[name] for name in ("now", FINISH)}
    failed = step("now", is_error=True)
    assert names(CallRules(tools, finish_after_error=False), failed) == (FINISH,)
    assert names(CallRules(tools, finish_after_error=False, on_repeat="run"), failed) == ("now",)
    assert names(CallRules(TOOLS, finish_after_error=False, allowed_tools={0: []}), failed) == (FINISH,)


def test_a_step_has_the_tools_that_are_allowed_then():
    by_index = CallRules(TOOLS, allowed_tools={0: ["search"], 2: []})
    assert [names(by_index, index=index) for index in range(3)] == [("search", FINISH), ALL, (FINISH,)]
    seen: list[tuple[int, int]] = []

    def allowed(index: int, trajectory: Trajectory) -> set[str]:
        seen.append((index, len(trajectory.steps)))
        return {"now", "search"}

    assert names(CallRules(TOOLS, allowed_tools=allowed), step("search", q="x"), index=1) == ("now", "search", FINISH)
    assert seen == [(1, 1)]


def test_a_step_that_can_only_finish_comes_after_the_tools_that_must_come_first():
    for index in range(2):
        with pytest.raises(ConfigError, match=f"leaves step {index} nothing but 'finish'.*now, search"):
            CallRules(TOOLS, require_tools=["search", "now"], allowed_tools={index: [FINISH]})
    rules = CallRules(TOOLS, require_tools=["search", "now"], allowed_tools={2: []})
    assert names(rules, step("search", q="x"), step("now"), index=2) == (FINISH,)


@pytest.mark.parametrize(
    "options",
    [
        {"on_repeat": "stop"},
        {"require_tools": ["subtract"]},
        {"require_tools": "search"},
        {"require_tools": [FINISH]},
        {"require_tools": 3},
        {"finish_after_error": None},
        {"allowed_tools": ["search"]},
        {"allowed_tools": {0: ["subtract"]}},
        {"allowed_tools": {0: "search"}},
        {"allowed_tools": {-1: ["search"]}},
        {"allowed_tools": {"0": ["search"]}},
    ],
)
def test_rules_that_cannot_be_held_are_refused(options: dict[str, Any]):
    with pytest.raises(ConfigError, match=next(iter(options))):
        CallRules(TOOLS, **options)


@pytest.mark.parametrize("given", [["subtract"], "search", None, [3]])
def test_a_function_that_allows_what_there_is_not_is_refused(given: Any):
    with pytest.raises(ConfigError, match="allowed_tools"):
        names(CallRules(TOOLS, allowed_tools=lambda index, trajectory: given))
