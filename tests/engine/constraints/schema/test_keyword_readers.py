import logging
from typing import Any

import pytest

from sureact.constraints.schema.dialect import Dialect, Draft
from sureact.constraints.schema.keyword_readers import readers_of
from sureact.constraints.schema.normal_form import normalize
from sureact.errors import ConstraintCompileError

DRAFT_4 = "http://json-schema.org/draft-04/schema#"


@pytest.mark.parametrize(
    ("schema", "root"),
    [
        ({"minimum": 1, "exclusiveMinimum": True, "$schema": DRAFT_4}, {"exclusiveMinimum": 1}),
        ({"maximum": 1, "exclusiveMaximum": True, "$schema": DRAFT_4}, {"exclusiveMaximum": 1}),
        ({"exclusiveMinimum": True, "$schema": DRAFT_4}, {}),
        ({"items": [{}, False], "additionalItems": {}, "$schema": DRAFT_4}, {"prefixItems": [{}, False], "items": {}}),
        ({"contains": {}, "minContains": 1, "maxContains": 2.0}, {"contains": {}, "maxContains": 2}),
        ({"contains": {}, "minContains": 0}, {"contains": {}, "minContains": 0}),
        ({"if": {}, "then": {}, "else": False}, {"if": {}, "else": False}),
        ({"if": {"type": "null"}}, {"if": {"type": "null"}}),
        ({"enum": [1, "a"], "const": {"a": [1]}}, {"enum": [1, "a"], "const": {"a": [1]}}),
        ({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": True}}, {"allOf": [{"$ref": "#/$defs/a"}]}),
        (
            {"$ref": "#/$defs/a", "$dynamicRef": "#/$defs/a", "allOf": [False], "$defs": {"a": True}},
            {"$ref": "#/$defs/a", "allOf": [{"$ref": "#/$defs/a"}, False]},
        ),
        ({"nullable": True, "minLength": 1}, {"anyOf": [{"minLength": 1}, {"type": "null"}]}),
        ({"nullable": False}, {}),
        (
            {"properties": {"$ref": {"type": "string"}, "not": {}}},
            {"properties": {"$ref": {"type": "string"}, "not": {}}},
        ),
    ],
)
def test_a_keyword_becomes_what_it_means(schema: dict[str, Any], root: object) -> None:
    assert normalize(schema).root == root


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"properties": {"a": {"minLength": -1}}}, "at /properties/a/minLength: -1 is not a whole number"),
        ({"items": [{}]}, "at /items: .*'prefixItems' since draft 2020-12"),
        ({"exclusiveMinimum": True}, "at /exclusiveMinimum: True is draft 4's way"),
        ({"exclusiveMinimum": 1, "$schema": DRAFT_4}, "at /exclusiveMinimum: 1 is not true or false"),
        ({"anyOf": []}, "at /anyOf: a list is not a list of at least one schema"),
        ({"anyOf": [{}, 3]}, "at /anyOf/1: 3 is not a schema"),
        ({"enum": []}, "at /enum: the list is empty"),
        ({"required": True}, "at /required: True is not a list of strings"),
        ({"type": "strin"}, "at /type: 'strin' is not a type"),
        ({"$id": 3}, "at /\\$id: 3 is not a string"),
        ({"contains": {}, "minContains": "1"}, "at /minContains: '1' is not a whole number"),
    ],
)
def test_a_malformed_keyword_is_refused_where_it_stands(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstraintCompileError, match=f"Not a valid JSON schema {message}"):
        normalize(schema)


def test_a_slip_of_the_pen_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "sureact"):
        normalize({"properties": {"a": {"minimun": 1}, "b": {"minimun": 2}, "c": {"color": 1, "x-minimun": 1}}})
    assert caplog.messages == [
        "'minimun' at /properties/a/minimun is not a keyword, so that it constrains nothing. Is 'minimum' meant?"
    ]


def test_a_keyword_of_another_draft_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "sureact"):
        assert normalize({"$schema": DRAFT_4, "const": 1, "$defs": {}, "title": "a"}).root == {}
    assert len(caplog.messages) == 1
    assert "'const' at /const is not a keyword of the draft" in caplog.messages[0]


def test_every_draft_reads_the_keywords_that_jsonschema_reads() -> None:
    from jsonschema import validators

    judges: dict[Draft, Any] = {
        4: validators.Draft4Validator,
        6: validators.Draft6Validator,
        7: validators.Draft7Validator,
        2019: validators.Draft201909Validator,
        2020: validators.Draft202012Validator,
    }
    beside = {"additionalItems", "minContains", "maxContains", "exclusiveMinimum", "exclusiveMaximum", "id", "$id"}
    for draft, judge in judges.items():
        readers = readers_of(Dialect(draft))
        read = {
            keyword
            for keyword, reader in readers.items()
            if reader and not reader.__name__.endswith(("foreign", "check_text"))
        }
        assert read - beside == judge.VALIDATORS.keys() - beside
