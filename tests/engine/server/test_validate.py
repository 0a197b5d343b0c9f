from typing import Any

import pytest
from tests.engine.server.conftest import Client

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def format_of(schema: Any) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}


def judged(client: Client, text: str, schema: Any = SCHEMA) -> tuple[str, int, list[str]]:
    answer = client.post("/validate", {**format_of(schema), "text": text})
    assert answer.status_code == 200, answer.text
    told = answer.json()
    return told["status"], told["num_valid_chars"], [fault["pointer"] for fault in told["faults"]]


def test_a_schema_that_can_be_enforced_is_told_so(client: Client) -> None:
    answer = client.post("/validate", format_of(SCHEMA))
    assert answer.status_code == 200
    assert answer.json() == {"object": "validation", "status": None, "num_valid_chars": 0, "faults": []}


def test_one_that_cannot_is_refused_as_it_is_where_it_is_used(client: Client) -> None:
    schema = {"properties": {"a": {"pattern": r"(a)\1"}}}
    answers = [
        client.post("/validate", format_of(schema)),
        client.chat("hi", **format_of(schema)),
    ]
    assert [answer.status_code for answer in answers] == [400, 400]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["error"]["pointer"] == "/properties/a/pattern"


@pytest.mark.parametrize(
    ("text", "status", "num_chars"),
    [
        ("", "incomplete", 0),
        ('{"na', "incomplete", 4),
        ('{"name": ', "incomplete", 9),
        ('{\n  "age": 20,   ', "incomplete", 17),
        ('{"age": 1', "incomplete", 9),
        ('{"name": "é', "incomplete", 11),
        ('{"name": "x", "age": 20}', "valid", 24),
        ('{ "age" : 20 , "name":"x" }', "valid", 27),
        ('{"age": 20.0, "name": "x"}', "valid", 26),
        ("```json\n", "invalid", 0),
        ('{"nome"', "invalid", 3),
        ('{"age": 1}', "invalid", 10),
        ('{"age": -3', "invalid", 8),
        ('{"name": "x"} and', "invalid", 12),
    ],
)
def test_a_text_is_valid_so_far_until_it_is_invalid(client: Client, text: str, status: str, num_chars: int) -> None:
    assert judged(client, text)[0] == status
    if status != "invalid":
        assert judged(client, text)[1] == num_chars


def test_what_is_wrong_is_told_with_its_place(client: Client) -> None:
    assert judged(client, '{"name": "x", "age": 3}') == ("invalid", 22, ["/age"])
    assert judged(client, '{"name": 1, "age": 3}')[2] == ["/name", "/age"]


def test_where_a_text_leaves_a_schema_is_told_to_the_character(client: Client) -> None:
    assert judged(client, '{"name": "x", "zip": 1')[:2] == ("invalid", 15)
    assert judged(client, '{"name": tr')[:2] == ("invalid", 9)


def test_other_constraints_judge_as_well(client: Client) -> None:
    for constraint, text, status in (
        ({"regex": "a+b"}, "aa", "incomplete"),
        ({"regex": "a+b"}, "aab", "valid"),
        ({"regex": "a+b"}, "ac", "invalid"),
        ({"choice": ["yes ", "no"]}, "yes ", "valid"),
        ({"grammar": 'start: "x" | "y"'}, "z", "invalid"),
    ):
        answer = client.post("/validate", {"structured_outputs": constraint, "text": text})
        assert answer.json()["status"] == status, (constraint, answer.text)


def test_a_text_of_the_deepest_nesting_is_judged(client: Client) -> None:
    deep = {"$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}, "$ref": "#/$defs/a"}
    assert judged(client, "[" * 900 + "]" * 900, deep)[0] == "valid"
    assert judged(client, "[" * 2000, deep)[0] == "incomplete"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "missing_parameter"),
        ({"response_format": {"type": "text"}}, "missing_parameter"),
        ({**format_of(SCHEMA), "text": 1}, "invalid_value"),
        ({**format_of(SCHEMA), "text": " " * 5000}, "context_length_exceeded"),
        ({**format_of(SCHEMA), "texts": ""}, "unknown_parameter"),
        ({**format_of(SCHEMA), "model": "x"}, "model_not_found"),
        ({**format_of({"type": "objekt"})}, "invalid_constraint"),
        ({**format_of({"enum": list(range(6000))})}, "constraint_too_large"),
        ({**format_of(SCHEMA), "structured_outputs": {"regex": "a"}}, "invalid_value"),
    ],
)
def test_what_cannot_be_judged_is_refused(client: Client, body: dict[str, Any], code: str) -> None:
    import json

    answer = client.post("/validate", json.dumps(body).encode())
    assert (answer.status_code, answer.json()["error"]["code"]) in ((400, code), (404, code))
