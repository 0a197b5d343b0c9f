from typing import Any

import pytest

from sureact.server.api_error import ApiError
from sureact.server.field_values import integer, read_text, text
from sureact.server.request_fields import MISSING, ignored, markdown_table, neutral, read_fields, refused, shown

FIELDS = (
    text("prompt", MISSING),
    integer("max_tokens", 16, least=1),
    neutral("store", False),
    neutral("best_of", 1),
    neutral("suffix"),
    ignored("user", "a text", read_text, note="Not looked at."),
    refused("audio", "It speaks text."),
)


def error_of(**body: Any) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        read_fields(body, FIELDS)
    return refusal.value


def test_defaults_stand_for_what_is_not_given_or_null() -> None:
    values = read_fields({"prompt": "a", "max_tokens": None, "store": None, "audio": None, "suffix": None}, FIELDS)
    assert values["max_tokens"] == 16
    assert values["store"] is None


@pytest.mark.parametrize("body", [{"store": False}, {"best_of": 1}, {"user": "me"}])
def test_neutral_values_of_known_fields_are_accepted(body: dict[str, Any]) -> None:
    read_fields({"prompt": "a", **body}, FIELDS)


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"prompt": "a", "store": True}, "store", "unsupported_value"),
        ({"prompt": "a", "best_of": True}, "best_of", "unsupported_value"),
        ({"prompt": "a", "suffix": "b"}, "suffix", "unsupported_value"),
        ({"prompt": "a", "user": 3}, "user", "invalid_value"),
        ({"prompt": "a", "audio": {}}, "audio", "unsupported_parameter"),
        ({"prompt": "a", "max_tokens": 0}, "max_tokens", "invalid_value"),
        ({"prompt": "a", "max_token": 3}, "max_token", "unknown_parameter"),
        ({}, "prompt", "missing_parameter"),
    ],
)
def test_what_is_not_honored_is_refused_by_name(body: dict[str, Any], param: str, code: str) -> None:
    error = error_of(**body)
    assert (error.status, error.param, error.code) == (400, param, code)
    assert param in str(error)


def test_a_misspelled_field_is_told_the_right_one() -> None:
    assert "Did you mean 'max_tokens'?" in str(error_of(prompt="a", max_token=3))


def test_a_field_inside_an_object_is_told_with_its_path() -> None:
    with pytest.raises(ApiError) as refusal:
        read_fields({"prompt": 3}, FIELDS, path="options")
    assert refusal.value.param == "options.prompt"


def test_a_long_value_is_shortened() -> None:
    assert len(shown("x" * 1000)) == 80
    assert len(str(error_of(prompt="a", **{"x" * 10_000: 1}))) < 400


def test_the_table_tells_every_field_once() -> None:
    table = markdown_table(FIELDS).splitlines()
    assert len(table) == 2 + len(FIELDS)
    assert "| `max_tokens` | honored | a whole number, at least 1 | `16` |  |" in table
    assert "| `audio` | refused | `null` |  | It speaks text. |" in table
