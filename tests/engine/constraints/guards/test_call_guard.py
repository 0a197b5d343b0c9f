"""The call that is named decides which guard judges; names that begin one another stay in question together."""

import pytest

from sureact.constraints.guards.call_guard import CallGuard, GuardedCall
from sureact.constraints.guards.guard import GuardState
from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema


def call(opening: str, arguments: Schema | None) -> GuardedCall:
    guard = None if arguments is None else JsonGuard(NormalSchema(arguments, {}))
    return GuardedCall(opening.encode(), guard)


CALLS = (
    call("search\n", {"required": ["q"]}),
    call("search\n[", {"type": "integer", "multipleOf": 2}),  # as odd as an opening can be: it begins like a call
    call("add\n", {"properties": {"x": {"not": {"const": 1}}}}),
    call("stop\n", None),
)


def after(*tokens: str) -> GuardState:
    state = CallGuard(CALLS).new_state()
    for token in tokens:
        assert state.feed(token.encode()), token
    return state


@pytest.mark.parametrize("num_bytes", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("text", "is_valid"),
    [
        ('search\n{"q":1}', True),
        ("search\n{}", False),
        ("search\n[4", True),
        ('add\n{"x":2}', True),
        ('add\n{"x":1}', False),
        ("add\n{}", True),
        ("stop\nanything", True),
        ("find\n{}", False),
        ("sea", False),
    ],
)
def test_the_tool_that_is_named_judges_its_arguments(text: str, is_valid: bool, num_bytes: int) -> None:
    state = CallGuard(CALLS).new_state()
    data = text.encode()
    parts = [data[start : start + num_bytes] for start in range(0, len(data), num_bytes)]
    assert (all(map(state.feed, parts)) and state.can_end()) == is_valid


def test_a_name_that_no_tool_has_is_refused_at_its_first_wrong_character() -> None:
    state = after("s", "e")
    assert not state.feed(b"x")


@pytest.mark.parametrize("opening", ["add\n", "a"])
def test_the_only_tool_in_question_has_the_last_word(opening: str) -> None:
    state = CallGuard([call(opening, {"type": "object", "maxProperties": 0})]).new_state()
    assert state.feed(opening.encode() + b"{")
    assert not state.feed(b'"x"')


def test_a_tool_whose_opening_begins_anothers_leaves_when_its_arguments_fail() -> None:
    state = after("search\n[", "3")
    assert state.feed(b"6")
    assert state.can_end()
    state = after("search\n[", "3")
    assert not state.can_end()


def test_empty_tokens_change_nothing() -> None:
    state = after("", "ad", "", "d\n", "", '{"x":2', "", "}", "")
    assert state.can_end()


def test_going_back_brings_back_the_tools_that_were_in_question() -> None:
    state = after("sea")
    start = state.position()
    assert state.feed(b"rch\n")
    opened = state.position()
    assert state.feed(b'{"q":1}')
    assert state.can_end()
    state.go_back(opened)
    assert not state.feed(b"{}")
    state.go_back(opened)
    assert state.feed(b"[4")
    state.go_back(start)
    assert not state.feed(b"rch_web\n")
    state.go_back(start)
    assert state.feed(b'rch\n{"q":2}')
    assert state.can_end()


def test_what_is_held_back_begins_inside_the_arguments() -> None:
    state = after('add\n{"x":')
    assert state.num_settled_bytes == len('add\n{"x":')
    assert state.feed(b"2")
    assert state.num_settled_bytes == len('add\n{"x":')
    assert after("stop\nanything").num_settled_bytes == len("stop\nanything")
