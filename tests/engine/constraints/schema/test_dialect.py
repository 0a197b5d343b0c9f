from typing import Any

import pytest

from sureact.constraints.schema.dialect import LATEST, Dialect, dialect_of
from sureact.constraints.schema.keywords import Schema
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError


@pytest.mark.parametrize(
    ("address", "draft"),
    [
        ("http://json-schema.org/draft-04/schema#", 4),
        ("http://json-schema.org/draft-04/schema", 4),
        ("http://json-schema.org/draft-06/schema#", 6),
        ("https://json-schema.org/draft-07/schema", 7),
        ("https://json-schema.org/draft/2019-09/schema", 2019),
        ("https://json-schema.org/draft/2020-12/schema#", 2020),
        ("http://json-schema.org/schema#", 2020),
        ("http://x/unknown", 2020),
    ],
)
def test_schema_names_the_draft(address: str, draft: int) -> None:
    assert dialect_of({"$schema": address}).draft == draft


def test_a_schema_that_names_no_draft_is_read_as_what_is_around_it() -> None:
    assert dialect_of({}) == dialect_of(True) == LATEST
    assert dialect_of({}, Dialect(7)) == dialect_of({"$schema": "http://x/unknown"}, Dialect(7)) == Dialect(7)


def test_old_drafts_and_addresses_that_are_no_text_are_refused() -> None:
    with pytest.raises(UnsupportedSchemaError, match="4, 6, 7, 2019-09 and 2020-12") as caught:
        dialect_of({"$schema": "http://json-schema.org/draft-03/schema#"}, place="/items")
    assert caught.value.pointer == "/items/$schema"
    with pytest.raises(ConstraintCompileError, match="leave it out"):
        dialect_of({"$schema": 7})


@pytest.mark.parametrize(
    ("draft", "schema", "identifier"),
    [
        (4, {"id": "a"}, "a"),
        (4, {"$id": "a"}, None),
        (7, {"$id": "a"}, "a"),
        (7, {"id": "a"}, None),
        (7, {"$id": "#a"}, None),
        (7, {"$id": "a", "$ref": "b"}, None),
        (2020, {"$id": "a", "$ref": "b"}, "a"),
        (2020, True, None),
    ],
)
def test_each_draft_has_its_own_keyword_for_an_address(draft: Any, schema: Schema, identifier: str | None) -> None:
    assert Dialect(draft).identifier(schema) == identifier


def test_a_metaschema_of_ones_own_names_the_draft_and_its_vocabularies() -> None:
    official = "https://json-schema.org/draft/2020-12"
    documents: dict[str, Schema] = {
        "http://x/seven": {"$schema": "http://json-schema.org/draft-07/schema#", "$vocabulary": {"http://x/a": True}},
        "http://x/applicators": {"$vocabulary": {f"{official}/vocab/applicator": True, "http://x/optional": False}},
        "http://x/required": {"$vocabulary": {"http://x/unknown": True}},
    }
    assert dialect_of({"$schema": "http://x/seven"}, documents=documents) == Dialect(7)
    dialect = dialect_of({"$schema": "http://x/applicators#"}, documents=documents)
    assert {"minimum", "type", "unevaluatedItems"} <= dialect.without
    assert "properties" not in dialect.without
    with pytest.raises(UnsupportedSchemaError, match="http://x/unknown"):
        dialect_of({"$schema": "http://x/required"}, documents=documents)
