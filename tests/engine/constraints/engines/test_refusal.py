from typing import Any

import pytest

from sureact.constraints.engines.refusal import (
    Fault,
    constraining,
    first_beside,
    refuse_spelling,
    refuse_unenforced,
    types_of,
    values_fit,
)
from sureact.constraints.prepared_schema import JsonSpelling
from sureact.errors import ConfigError, UnsupportedSchemaError


def no_minimum(schema: dict[str, Any]) -> Fault | None:
    return Fault("minimum", "it cannot count") if "minimum" in schema else None


def test_the_refusal_names_keyword_pointer_and_engine() -> None:
    schema = {"properties": {"a/b": {"items": {"minimum": 3}}}}
    with pytest.raises(UnsupportedSchemaError, match="cannot be enforced by some: it cannot count") as refused:
        refuse_unenforced("some", schema, no_minimum)
    assert (refused.value.keyword, refused.value.pointer) == ("minimum", "/properties/a~1b/items/minimum")
    refuse_unenforced("some", {"properties": {"minimum": True}}, no_minimum)


def test_a_keyword_that_is_missing_is_not_pointed_at() -> None:
    def no_type(schema: dict[str, Any]) -> Fault | None:
        return None if "type" in schema else Fault("type", "it is needed", is_missing=True)

    with pytest.raises(UnsupportedSchemaError, match="The schema without 'type' at the root cannot") as refused:
        refuse_unenforced("some", {}, no_type)
    assert (refused.value.keyword, refused.value.pointer) == ("type", "")
    with pytest.raises(UnsupportedSchemaError, match="The schema without 'type' at /items cannot"):
        refuse_unenforced("some", {"type": "array", "items": {}}, no_type)


def test_names_are_quoted_in_one_way() -> None:
    with pytest.raises(UnsupportedSchemaError, match=r"^'minimum' at /minimum .*: beside 'enum' it is ignored\. Use"):
        refuse_unenforced("some", {"enum": [1], "minimum": 1}, lambda schema: first_beside(schema, "enum"))


def test_annotations_and_names_constrain_nothing() -> None:
    assert constraining({"title": "t", "$defs": {}, "x-a": 1, "type": "string"}) == ["type"]
    assert first_beside({"enum": [1], "title": "t"}, "enum") is None
    assert first_beside({"enum": [1], "type": "string"}, "enum", allowed=frozenset({"type"})) is None
    fault = first_beside({"enum": [1], "minimum": 1}, "enum")
    assert fault is not None
    assert fault.keyword == "minimum"


def test_types_are_read_in_both_forms() -> None:
    assert types_of({"type": "string"}) == {"string"}
    assert types_of({"type": ["string", "null"]}) == {"string", "null"}
    assert types_of({}) == frozenset()


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"enum": [1, "a"], "type": "string"}, False),
        ({"enum": ["b", "a"], "type": "string"}, True),
        ({"const": None, "type": ["null", "string"]}, True),
        ({"const": 1}, True),
    ],
)
def test_values_fit_when_each_is_of_the_type(schema: dict[str, Any], fits: bool) -> None:
    assert values_fit(schema) == fits


def test_escapes_cannot_be_asked_for() -> None:
    refuse_spelling("some", JsonSpelling())
    with pytest.raises(ConfigError, match="ensure_ascii is True; some"):
        refuse_spelling("some", JsonSpelling(ascii_only=True))
