from typing import Any

import pytest

from sureact.server.answer_constraint import only_one, read_response_format, read_structured_outputs, read_text_format
from sureact.server.api_error import ApiError

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


def test_text_is_no_constraint() -> None:
    assert read_response_format({"type": "text"}, "response_format") is None


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"type": "json_object"}, "response_format"),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}},
            "response_format.json_schema.schema",
        ),
    ],
)
def test_formats_are_constraints(given: Any, param: str) -> None:
    asked = read_response_format(given, "response_format")
    assert asked is not None
    assert asked.param == param
    assert asked.make().cache_key.startswith("json")


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"type": "text"}, None),
        ({"type": "json_object"}, "text.format"),
        (
            {"type": "json_schema", "name": "n", "description": None, "strict": True, "schema": SCHEMA},
            "text.format.schema",
        ),
    ],
)
def test_flat_formats_are_the_same_constraints(given: Any, param: str | None) -> None:
    asked = read_text_format(given, "text.format")
    assert (asked and asked.param) == param
    assert asked is None or asked.make().cache_key.startswith("json")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"json": SCHEMA}, '{"a": 3}'),
        ({"json": '{"type": "object"}'}, "{}"),
        ({"json": True}, "3"),
        ({"regex": "[ab]+"}, "abba"),
        ({"choice": ["yes", "no"]}, "no"),
        ({"grammar": 'start: "x"+'}, "xx"),
        ({"json_object": True}, "{}"),
    ],
)
def test_structured_outputs_are_constraints(given: Any, text: str) -> None:
    read_structured_outputs(given, "structured_outputs").make().parse(text)


@pytest.mark.parametrize(
    ("read", "given", "param"),
    [
        (read_response_format, {}, "f.type"),
        (read_response_format, {"type": "xml"}, "f.type"),
        (read_response_format, {"type": ["text"]}, "f.type"),
        (read_response_format, {"type": "text", "json_schema": {}}, "f.json_schema"),
        (read_response_format, {"type": "json_schema"}, "f.json_schema"),
        (read_response_format, {"type": "json_schema", "json_schema": {"name": "n"}}, "f.json_schema.schema"),
        (read_text_format, {"type": "xml"}, "f.type"),
        (read_text_format, {"type": "text", "schema": {}}, "f.schema"),
        (read_text_format, {"type": "json_schema", "name": "n"}, "f.schema"),
        (read_text_format, {"type": "json_schema", "json_schema": {"schema": {}}}, "f.json_schema"),
        (read_structured_outputs, {}, "f"),
        (read_structured_outputs, {"regex": "a", "choice": ["a"]}, "f"),
        (read_structured_outputs, {"json": "{"}, "f.json"),
        (read_structured_outputs, {"json": 3}, "f.json"),
        (read_structured_outputs, {"choice": [3]}, "f.choice[0]"),
        (read_structured_outputs, {"structural_tag": "x"}, "f.structural_tag"),
    ],
)
def test_what_is_none_is_refused_with_its_place(read: Any, given: Any, param: str) -> None:
    with pytest.raises(ApiError) as refused:
        read(given, "f")
    assert refused.value.param == param


def test_two_constraints_are_refused() -> None:
    one = read_structured_outputs({"regex": "a"}, "structured_outputs")
    other = read_response_format({"type": "json_object"}, "response_format")
    assert only_one(None, one) is one
    assert only_one(None, None) is None
    with pytest.raises(ApiError, match="both constrain"):
        only_one(one, other)
