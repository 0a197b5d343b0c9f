import json
from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.constraint_cost import check_constraint_cost
from sureact.server.server_config import ServerConfig

CONFIG = ServerConfig(max_schema_nodes=20, max_enum_values=5, max_pattern_chars=10, max_grammar_chars=20)
MANY = {"properties": {f"p{number}": {"type": "string"} for number in range(20)}}
WIDE = {"enum": list("abcdef")}
LONG = {"type": "object", "properties": {"a": {"pattern": "a" * 11}}}


@pytest.mark.parametrize("schema", [MANY, WIDE, LONG, {"patternProperties": {"b" * 11: {}}}])
@pytest.mark.parametrize("place", ["tool", "flat tool", "response_format", "text", "structured_outputs", "as text"])
def test_large_schemas_are_refused_wherever_they_stand(schema: dict[str, Any], place: str) -> None:
    bodies: dict[str, Any] = {
        "tool": {"tools": [{"function": {"parameters": schema}}]},
        "flat tool": {"tools": [{"parameters": schema}]},
        "response_format": {"response_format": {"json_schema": {"schema": schema}}},
        "text": {"text": {"format": {"schema": schema}}},
        "structured_outputs": {"structured_outputs": {"json": schema}},
        "as text": {"structured_outputs": {"json": json.dumps(schema)}},
    }
    with pytest.raises(ApiError) as refused:
        check_constraint_cost(bodies[place], CONFIG)
    assert (refused.value.status, refused.value.code) == (400, "constraint_too_large")


@pytest.mark.parametrize(
    "structured", [{"regex": "a" * 11}, {"grammar": "a" * 21}, {"choice": list("abcdef")}, {"json": "[" * 5000}]
)
def test_large_texts_are_refused(structured: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        check_constraint_cost({"structured_outputs": structured}, CONFIG)
    assert refused.value.code == "constraint_too_large"


def test_a_schema_given_as_text_is_not_deeper_than_a_body() -> None:
    text = '{"not":' * 200 + "{}" + "}" * 200
    with pytest.raises(ApiError, match="deeper"):
        check_constraint_cost({"structured_outputs": {"json": text}}, ServerConfig())


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"tools": 5, "response_format": "x", "structured_outputs": [], "text": None},
        {"tools": [1, None, {"function": 2}], "structured_outputs": {"json": "no json", "regex": 4, "choice": 3}},
        {"response_format": {"json_schema": {"schema": {"enum": 3, "pattern": [], "patternProperties": "x"}}}},
        {"messages": [{"content": MANY}]},
    ],
)
def test_what_is_no_large_constraint_is_left_to_others(body: dict[str, Any]) -> None:
    check_constraint_cost(body, CONFIG)
