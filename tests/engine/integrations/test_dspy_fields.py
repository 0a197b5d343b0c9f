"""Output fields: how they travel, and what they are as JSON."""

import json
from typing import Any

import pytest

from sureact.errors import ConfigError
from sureact.integrations.dspy_fields import Field, FieldLayout, with_definitions_on_top

SEARCH: dict[str, Any] = {"type": "object", "properties": {"query": {"const": "x"}}, "required": ["query"]}
FINISH: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
REACT = FieldLayout((Field("next_thought", {"type": "string", "maxLength": 9}),), {"search": SEARCH, "finish": FINISH})


def test_a_layout_comes_back_from_json_as_it_was() -> None:
    assert FieldLayout.read(json.loads(json.dumps(REACT.write()))) == REACT


@pytest.mark.parametrize("notation", [None, [], {"fields": [1]}, {"fields": [["a", 1]]}, {"fields": [], "tools": 3}])
def test_what_constrain_does_not_write_is_refused(notation: object) -> None:
    with pytest.raises(ConfigError, match=r"what constrain\(\.\.\.\) writes"):
        FieldLayout.read(notation)


@pytest.mark.parametrize(
    ("schema", "is_text", "choices"),
    [
        ({"type": "string"}, True, ()),
        ({"type": "string", "maxLength": 3}, True, ()),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True, ()),
        ({"type": "string", "pattern": "a"}, False, ()),
        ({"type": "integer"}, False, ()),
        ({"enum": ["a", "b c"]}, False, ("a", "b c")),
        ({"enum": [" a"]}, False, ()),
        ({"enum": ["a", 1]}, False, ()),
    ],
)
def test_text_and_choices_are_bare_and_all_else_is_json(
    schema: dict[str, Any], is_text: bool, choices: tuple[str, ...]
) -> None:
    field = Field("f", schema)
    assert (field.is_text, field.choices) == (is_text, choices)


def test_arguments_are_of_the_tool_that_is_named() -> None:
    constraint = REACT.json_constraint()
    good = {"next_thought": "go", "next_tool_name": "search", "next_tool_args": {"query": "x"}}
    assert constraint.parse(json.dumps(good)) == good
    for wrong in ({"next_tool_name": "finish"}, {"next_tool_name": "look"}, {"next_tool_args": {}}):
        assert list(constraint.faults({**good, **wrong})), wrong


def test_definitions_of_fields_move_to_where_their_references_point() -> None:
    schema = {"$ref": "#/$defs/Size", "$defs": {"Size": {"type": "object", "properties": {"w": {"const": 1}}}}}
    constraint = FieldLayout((Field("a", schema), Field("b", schema)), {}).json_constraint()
    assert constraint.parse('{"a": {"w": 1}, "b": {}}') == {"a": {"w": 1}, "b": {}}
    assert list(constraint.faults({"a": {"w": 2}, "b": {}}))


def test_two_definitions_of_one_name_are_refused() -> None:
    fields = tuple(Field(name, {"$ref": "#/$defs/S", "$defs": {"S": {"const": name}}}) for name in "ab")
    with pytest.raises(ConfigError, match="'S' and differ"):
        FieldLayout(fields, {}).json_constraint()


def test_native_calls_take_the_place_of_their_field() -> None:
    layout = FieldLayout((Field("next_thought", {"type": "string"}), Field("tool_calls", {"type": "object"})), {})
    assert [field.name for field in layout.without_calls().fields] == ["next_thought"]


def test_definitions_are_found_wherever_they_are_but_not_in_data() -> None:
    inner = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"const": 1}}}
    moved = with_definitions_on_top({"anyOf": [{"items": inner}, {"const": {"$defs": {"A": 2}}}]})
    assert moved == {
        "anyOf": [
            {"items": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
            {"const": {"$defs": {"A": 2}}},
        ],
        "$defs": {"A": {"const": 1}},
    }
    assert "$defs" in inner
