from collections.abc import Callable
from typing import Any

import pytest

from sureact.constraints.call_grammar import (
    ControlToken,
    ToolCallBranch,
    ToolCallConstraint,
    tool_call_grammar,
)
from sureact.constraints.constraint import Constraint
from sureact.errors import ConfigError, ConstraintCompileError, InternalError, UnsupportedSchemaError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]

SEARCH = ToolCallBranch("search", {"properties": {"q": {"type": "string"}}, "required": ["q"]})
SEARCH_WEB = ToolCallBranch("search_web", {"type": "object", "properties": {"url": {"type": "string"}}})
NOTHING = ToolCallBranch("now", {"type": "object", "properties": {}})
TOOLS = [SEARCH, SEARCH_WEB, NOTHING]


def lines(tools: list[ToolCallBranch] = TOOLS, **options: Any) -> ToolCallConstraint:
    return tool_call_grammar(tools, prefix="Action: ", delimiter="\nArguments: ", suffix="\n", **options)


def hermes() -> ToolCallConstraint:
    return tool_call_grammar(
        TOOLS,
        prefix=(ControlToken("<tool_call>"), '\n{"name": "'),
        delimiter='", "arguments": ',
        suffix=("}\n", ControlToken("</tool_call>")),
    )


CALLS = [
    ('Action: search\nArguments: {"q": "a"}\n', ("search", {"q": "a"})),
    ('Action: search_web\nArguments: {"url": "u"}\n', ("search_web", {"url": "u"})),
    ("Action: search_web\nArguments: {}\n", ("search_web", {})),
    ("Action: now\nArguments: {}\n", ("now", {})),
]


@pytest.mark.parametrize(("text", "call"), CALLS)
def test_each_tool_is_called_with_its_own_arguments(text: str, call: object, spells: Spells) -> None:
    assert spells(lines(), text)
    assert lines().parse(text) == call


NO_CALLS = [
    'Action: search\nArguments: {"url": "u"}\n',
    "Action: search\nArguments: {}\n",
    'Action: now\nArguments: {"x": 1}\n',
    "Action: sear\nArguments: {}\n",
    'Action: search\nArguments: {"q": "a"}',
    'Action: search\nArguments: {"q":"a"}\n',
    "Action: search\n",
]


@pytest.mark.parametrize("text", NO_CALLS)
def test_what_is_no_call_cannot_be_spelled(text: str, spells: Spells) -> None:
    assert not spells(lines(), text)


@pytest.mark.parametrize("text", [text for text in NO_CALLS if '{"q":"a"}' not in text])
def test_what_is_no_call_is_an_internal_error_when_finished(text: str) -> None:
    with pytest.raises(InternalError):
        lines().parse(text)


def test_extra_arguments_are_allowed_only_when_asked_for(spells: Spells) -> None:
    text = 'Action: search\nArguments: {"q": "a", "x": 1}\n'
    assert not spells(lines(), text)
    assert spells(lines(additional_properties="schema"), text)


def test_arguments_are_an_object_whatever_the_schema_leaves_out(spells: Spells) -> None:
    free = lines([ToolCallBranch("free", {})])
    assert spells(free, 'Action: free\nArguments: {"anything": [1]}\n')
    assert not spells(free, "Action: free\nArguments: 7\n")


def test_control_tokens_are_tokens_and_not_text(named_vocabulary: Vocabulary) -> None:
    state = hermes().compile(named_vocabulary).new_state()
    assert not state.check_token(ord("<"))
    for token_id in (257, *b'\n{"name": "now", "arguments": {}}\n', 258):
        assert state.check_token(token_id)
        state.accept_token(token_id)
    assert state.is_terminated


def test_a_string_is_text_even_when_it_spells_a_control_token(named_vocabulary: Vocabulary) -> None:
    constraint = tool_call_grammar(TOOLS, prefix="<tool_call>", delimiter=" ", suffix="")
    state = constraint.compile(named_vocabulary).new_state()
    assert state.check_token(ord("<"))
    assert not state.check_token(257)


@pytest.mark.parametrize(
    "text", ['\n{"name": "now", "arguments": {}}\n', '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>']
)
def test_a_finished_call_parses_with_and_without_the_names_of_control_tokens(text: str) -> None:
    assert hermes().parse(text) == ("now", {})


def test_the_suffix_may_occur_in_an_argument() -> None:
    text = '\n{"name": "search", "arguments": {"q": "}\\n</tool_call>"}}\n'
    assert hermes().parse(text) == ("search", {"q": "}\n</tool_call>"})


def test_what_stands_between_name_and_arguments_is_forced(named_vocabulary: Vocabulary) -> None:
    state = hermes().compile(named_vocabulary).new_state()
    assert state.forced_tokens()[0] == 257
    for token_id in (257, *b'\n{"name": "n'):
        state.accept_token(token_id)
    assert state.forced_tokens() == [*b'ow", "arguments": {}}\n', 258]


def test_an_unknown_control_token_is_a_compile_error(named_vocabulary: Vocabulary) -> None:
    constraint = tool_call_grammar(TOOLS, prefix=[ControlToken("<call>")], delimiter=" ", suffix="")
    with pytest.raises(ConstraintCompileError, match="no control token '<call>'"):
        constraint.compile(named_vocabulary)


def test_the_tool_with_the_faulty_schema_is_named(vocabulary: Vocabulary) -> None:
    unsupported = ToolCallBranch("bad", {"properties": {"a": {"pattern": r"(a)\1"}}})
    with pytest.raises(UnsupportedSchemaError, match="the tool 'bad'") as caught:
        lines([SEARCH, unsupported]).compile(vocabulary)
    assert (caught.value.keyword, caught.value.pointer) == ("pattern", "/properties/a/pattern")
    impossible = ToolCallBranch("never", {"properties": {"a": False}, "required": ["a"]})
    with pytest.raises(ConstraintCompileError, match=r"the tool 'never'.*No JSON value can satisfy"):
        lines([SEARCH, impossible]).compile(vocabulary)


@pytest.mark.parametrize(
    ("tools", "delimiter"),
    [
        ([], " "),
        ([SEARCH, SEARCH], " "),
        ([ToolCallBranch("", {})], " "),
        ([ToolCallBranch("a", {"type": "array"})], " "),
        ([SEARCH], ""),
    ],
)
def test_tools_that_make_no_grammar_are_refused(tools: list[ToolCallBranch], delimiter: str) -> None:
    with pytest.raises(ConfigError):
        tool_call_grammar(tools, prefix="", delimiter=delimiter, suffix="")


@pytest.mark.parametrize("tools", [TOOLS, [], [ToolCallBranch("unique", {"properties": {"x": {"uniqueItems": True}}})]])
def test_an_ending_may_stand_in_place_of_a_call(tools: list[ToolCallBranch], spells: Spells) -> None:
    call = lines(tools, endings={"finish": "Final Answer:\n"})
    assert spells(call, "Final Answer:\n")
    assert call.parse("Final Answer:\n") == ("finish", {})
    assert not spells(call, "Final Answer:")
    assert not spells(call, "Action: finish\nArguments: {}\n")
    assert not spells(call, "Final Answer:\nAction: now\nArguments: {}\n")
    assert [spells(call, text) for text, _ in CALLS] == [tools is TOOLS] * len(CALLS)
    assert call.cache_key != lines(tools or [NOTHING]).cache_key


def test_an_ending_cannot_have_the_name_of_a_tool() -> None:
    with pytest.raises(ConfigError, match="'now' is given twice"):
        lines(endings={"now": "Done"})


def test_text_and_control_tokens_are_cached_apart() -> None:
    text = tool_call_grammar([SEARCH], prefix="<tool_call>", delimiter=" ", suffix="")
    control = tool_call_grammar([SEARCH], prefix=[ControlToken("<tool_call>")], delimiter=" ", suffix="")
    assert text.cache_key != control.cache_key


def test_each_tool_has_its_own_guard(spells: Spells) -> None:
    unique = ToolCallBranch("unique", {"properties": {"x": {"type": "array", "uniqueItems": True}}})
    number = ToolCallBranch("number", {"properties": {"x": {"type": "number"}}})
    call = lines([SEARCH, unique, number])
    assert spells(call, 'Action: unique\nArguments: {"x": [1, 2]}\n')
    assert not spells(call, 'Action: unique\nArguments: {"x": [1, 1]}\n')
    assert spells(call, 'Action: number\nArguments: {"x": 1e99}\n')
    assert not spells(call, 'Action: number\nArguments: {"x": 1e999}\n')
    assert spells(call, 'Action: search\nArguments: {"q": "a"}\n')
