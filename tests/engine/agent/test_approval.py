from typing import Any

import pytest

from sureact.agent.approval import Allow, Deny, Edit, PendingCall, ask
from sureact.agent.tool import Tool
from sureact.errors import ConfigError, ToolExecutionError


def pay(amount: int, items: list[str]) -> str:
    """Pay."""
    return f"{amount} for {items}"


TOOL = Tool(pay)
ARGS: dict[str, Any] = {"amount": 5, "items": ["tea"]}


def test_the_hook_sees_a_copy_of_the_call():
    def approve(call: PendingCall) -> Allow:
        assert (call.tool_name, call.args) == ("pay", ARGS)
        call.args["items"].append("cake")
        return Allow()

    assert ask(approve, TOOL, ARGS, None) == Allow()
    assert ARGS["items"] == ["tea"]


def test_a_denial_keeps_its_reason():
    assert ask(lambda _: Deny("too much"), TOOL, ARGS, None) == Deny("too much")


def test_edited_arguments_are_judged():
    edited = {"amount": 4, "items": []}
    assert ask(lambda _: Edit(edited), TOOL, ARGS, None) == Edit(edited)
    with pytest.raises(ToolExecutionError, match="edited arguments do not fit: pay refuses"):
        ask(lambda _: Edit({"amount": "4"}), TOOL, ARGS, None)


def test_arguments_can_be_judged_before_they_are_returned():
    with pytest.raises(ToolExecutionError):
        PendingCall(TOOL, ARGS).check({"amount": None})
    PendingCall(TOOL, ARGS).check(ARGS)


def test_the_hook_may_be_async():
    async def approve(call: PendingCall) -> Deny:
        return Deny(call.tool_name)

    assert ask(approve, TOOL, ARGS, None) == Deny("pay")


@pytest.mark.parametrize("answer", [None, True, "yes", Allow])
def test_any_other_answer_is_refused(answer: Any):
    with pytest.raises(ConfigError, match="approve returned"):
        ask(lambda _: answer, TOOL, ARGS, None)


def test_what_the_hook_raises_passes_through():
    def approve(call: PendingCall) -> Allow:
        raise LookupError(call.tool_name)

    with pytest.raises(LookupError):
        ask(approve, TOOL, ARGS, None)


@pytest.mark.parametrize("make", [lambda: Deny(5), lambda: Edit([])])  # pyright: ignore
def test_verdicts_of_other_types_are_refused(make: Any):
    with pytest.raises(ConfigError):
        make()
