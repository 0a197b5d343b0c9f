"""Schemas become text if they are JSON and of a size that is served."""

import json
from typing import Any

import pytest

from sureact.constraints.schema.schema_text import resources_text, schema_text
from sureact.errors import ConfigError


def _nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


def _shared(doublings: int, keyword: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(doublings):
        schema = {keyword: [schema, schema]}
    return schema


def test_keys_keep_their_order() -> None:
    assert schema_text({"type": "object", "b": 1, "a": 2}) == '{"type": "object", "b": 1, "a": 2}'
    assert schema_text('{"b":1, "a":2}') == '{"b": 1, "a": 2}'
    assert schema_text(True) == "true"
    assert resources_text(None) == "{}"


@pytest.mark.parametrize("levels", [200, 250])
def test_hundreds_of_levels_are_read(levels: int) -> None:
    assert json.loads(schema_text(_nested(levels))) == _nested(levels)


@pytest.mark.parametrize("schema", [_nested(100_000), '{"items":' * 100_000 + "{}" + "}" * 100_000, "[" * 1_000_000])
def test_a_hundred_thousand_levels_are_refused(schema: object) -> None:
    with pytest.raises(ConfigError, match="nested deeper than Python reads"):
        schema_text(schema)


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "enum"])
def test_parts_that_are_shared_without_number_are_counted_and_never_written(keyword: str) -> None:
    assert schema_text(_shared(4, keyword)).count("integer") == 16
    with pytest.raises(ConfigError, match="The schema has 4,611,686,018,427,387,902 values"):
        schema_text(_shared(60, keyword))


def test_a_schema_inside_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["items"] = endless
    with pytest.raises(ConfigError, match="contains itself"):
        schema_text(endless)


@pytest.mark.parametrize(
    "schema", [{"enum": [None] * 100_000}, {"const": "x" * 2_000_000}, {"properties": {"x" * 2_000_000: {}}}]
)
def test_what_is_larger_than_served_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="at most 100,000 and 2,000,000 are served"):
        schema_text(schema)
    with pytest.raises(ConfigError, match="resources has"):
        resources_text({"urn:large": schema})


@pytest.mark.parametrize(
    "schema", [{"const": b"x"}, {"const": {1, 2}}, {"minimum": float("nan")}, '{"minimum": 1e999}']
)
def test_what_is_no_json_is_refused(schema: object) -> None:
    with pytest.raises(ConfigError, match="is not JSON"):
        schema_text(schema)


@pytest.mark.parametrize("schema", [None, 5, ["type"], b"{}", "[]"])
def test_what_is_no_schema_is_refused(schema: object) -> None:
    with pytest.raises(ConfigError, match="it must be a mapping, a boolean, or JSON text"):
        schema_text(schema)
