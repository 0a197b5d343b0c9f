from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sureact.constraints.call_grammar import ControlToken, ToolCallBranch, ToolCallConstraint, tool_call_grammar
from sureact.constraints.constraint import Constraint
from sureact.constraints.guards.guarded_state import GuardedConstraint
from sureact.constraints.narrowed_call import NarrowedCall, narrowed_call, num_possible_arguments
from sureact.errors import ConfigError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]

TOOLS = [
    ToolCallBranch("search", {"properties": {"q": {"type": "string"}}, "required": ["q"]}),
    ToolCallBranch("search_web", {"properties": {"q": {"type": "string"}}, "required": ["q"]}),
    ToolCallBranch("even", {"properties": {"n": {"type": "integer", "multipleOf": 2}}, "required": ["n"]}),
]


def call_of(tools: list[ToolCallBranch] = TOOLS, **options: Any) -> ToolCallConstraint:
    return tool_call_grammar(tools, prefix="Action: ", delimiter="\nArguments: ", suffix="\n", **options)


TEXTS = {
    "search": 'Action: search\nArguments: {"q": "a"}\n',
    "search_web": 'Action: search_web\nArguments: {"q": "a"}\n',
    "even": 'Action: even\nArguments: {"n": 4}\n',
    "finish": "Final Answer:\n",
}


@pytest.mark.parametrize("names", [("search",), ("search_web",), ("search", "even"), ("finish",), tuple(TEXTS)])
@pytest.mark.parametrize("tools", [TOOLS, TOOLS[:2]])
def test_only_the_names_that_are_left_can_be_called(
    tools: list[ToolCallBranch], names: tuple[str, ...], spells: Spells
) -> None:
    call = call_of(tools, endings={"finish": TEXTS["finish"]})
    names = tuple(name for name in names if name in call.all_names)
    narrowed = narrowed_call(call, names)
    assert {name for name in call.all_names if spells(narrowed, TEXTS[name])} == set(names)
    if "search" in names:
        assert narrowed.parse(TEXTS["search"]) == ("search", {"q": "a"})


def test_arguments_are_judged_as_before(spells: Spells) -> None:
    narrowed = narrowed_call(call_of(), ["even", "search"])
    assert not spells(narrowed, 'Action: even\nArguments: {"n": 3}\n')


@pytest.mark.parametrize(("names", "is_left"), [(["search", "even"], True), (["even"], False)])
def test_control_tokens_of_the_format_stay(named_vocabulary: Vocabulary, names: list[str], is_left: bool) -> None:
    call = tool_call_grammar(
        TOOLS,
        prefix=(ControlToken("<tool_call>"), '\n{"name": "'),
        delimiter='", "arguments": ',
        suffix=("}\n", ControlToken("</tool_call>")),
    )
    state = narrowed_call(call, names).compile(named_vocabulary).new_state()
    ids = (257, *b'\n{"name": "search", "arguments": {"q": "a"}}\n', 258)
    assert (state.accept_tokens(ids) == len(ids)) == is_left
    assert state.is_terminated == is_left


def test_all_names_leave_the_constraint_as_it_is() -> None:
    call = call_of()
    assert narrowed_call(call, ["even", "search_web", "search"]) is call


def test_the_grammar_is_that_of_all_tools(vocabulary: Vocabulary) -> None:
    call = call_of(TOOLS[:2])
    narrowed = narrowed_call(call, ["search"]).compile(vocabulary)
    assert isinstance(narrowed, GuardedConstraint)
    assert narrowed.grammar is call.compile(vocabulary)


def test_what_is_left_is_told_apart_by_its_key() -> None:
    call = call_of()
    keys = {narrowed_call(call, names).cache_key for names in (["search"], ["even"], ["search", "even"])}
    assert len({*keys, call.cache_key}) == 4
    assert isinstance(narrowed_call(call, ["search"]), NarrowedCall)


@pytest.mark.parametrize("names", [[], ["nothing"], ["search", "nothing"]])
def test_no_name_and_unknown_names_are_refused(names: list[str]) -> None:
    with pytest.raises(ConfigError, match="must be among search, search_web, even"):
        narrowed_call(call_of(), names)


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({}, None),
        ({"properties": {}}, 1),
        ({"properties": {"a": {"enum": [1, 2, 1.0]}}, "required": ["a"]}, 2),
        ({"properties": {"a": {"enum": [1, 2]}}}, 3),
        ({"properties": {"a": {"type": "boolean"}, "b": {"const": "x"}}, "required": ["a", "b"]}, 2),
        ({"properties": {"a": {"anyOf": [{"type": "boolean"}, {"type": "null"}]}}, "required": ["a"]}, 3),
        ({"properties": {"a": {"type": "string"}}}, None),
        ({"properties": {"a": {"type": "boolean"}, "b": {"type": "string"}}}, None),
        ({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"const": 1}}}, None),
        ({"properties": {}, "additionalProperties": True}, None),
        ({"patternProperties": {"x": {}}}, None),
    ],
)
def test_the_possible_arguments_are_counted_where_they_can_be(schema: Mapping[str, Any], count: int | None) -> None:
    assert num_possible_arguments(schema) == count
