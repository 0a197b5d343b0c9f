"""The drafts of JSON Schema that are served, and which of them a schema is written in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from sureact.constraints.schema.keywords import Schema
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

Draft: TypeAlias = Literal[4, 6, 7, 2019, 2020]

_DRAFTS: dict[str, Draft] = {
    "json-schema.org/draft-04/schema": 4,
    "json-schema.org/draft-06/schema": 6,
    "json-schema.org/draft-07/schema": 7,
    "json-schema.org/draft/2019-09/schema": 2019,
    "json-schema.org/draft/2020-12/schema": 2020,
    "json-schema.org/schema": 2020,
}
_TOO_OLD = frozenset(f"json-schema.org/draft-0{number}/schema" for number in range(4))

_VOCABULARIES: dict[str, frozenset[str]] = {
    "applicator": frozenset(
        {"prefixItems", "items", "contains", "properties", "patternProperties", "additionalProperties"}
        | {"propertyNames", "dependentSchemas", "if", "then", "else", "allOf", "anyOf", "oneOf", "not"}
        | {"additionalItems"}
    ),
    "unevaluated": frozenset({"unevaluatedItems", "unevaluatedProperties"}),
    "validation": frozenset(
        {"type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
        | {"minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains"}
        | {"minProperties", "maxProperties", "required", "dependentRequired"}
    ),
}
"""The keywords that a metaschema can leave out, by the last part of their vocabulary's address."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """A draft, less the keywords of the vocabularies that a metaschema of one's own leaves out."""

    draft: Draft
    without: frozenset[str] = frozenset()

    @property
    def id_keyword(self) -> str:
        """The keyword that gives a schema its address."""
        return "id" if self.draft == 4 else "$id"

    @property
    def ignores_ref_siblings(self) -> bool:
        """Whether a `$ref` is all that counts in its schema."""
        return self.draft <= 7

    def identifier(self, schema: Schema) -> str | None:
        """Return the address that `schema` declares; None if it has none, or one that only names an anchor."""
        if not isinstance(schema, dict) or (self.ignores_ref_siblings and "$ref" in schema):
            return None
        declared = schema.get(self.id_keyword)
        return declared if isinstance(declared, str) and not declared.startswith("#") else None


LATEST = Dialect(2020)
"""What a schema is read as that names no draft, or one that nobody knows."""


def dialect_of(
    schema: Schema,
    default: Dialect = LATEST,
    documents: Mapping[str, Schema] | None = None,
    place: str = "",
) -> Dialect:
    """Return the dialect that the `$schema` of `schema` names.

    Args:
        schema: a schema or a part of one.
        default: what is returned if it names none, or one that is not known.
        documents: the metaschemas that are known beside the official ones, by address.
        place: where `schema` lies, for errors.

    Raises:
        ConstraintCompileError: `$schema` is not text.
        UnsupportedSchemaError: a draft before 4, or a vocabulary that is required and not known.
    """
    if not isinstance(schema, dict) or "$schema" not in schema:
        return default
    address, place = schema["$schema"], f"{place}/$schema"
    if not isinstance(address, str):
        raise ConstraintCompileError(
            f"Not a valid JSON schema at {place}: {address!r} is not the address of a draft. "
            'Write one such as "https://json-schema.org/draft/2020-12/schema", or leave it out.'
        )
    address = address.removesuffix("#")
    name = address.split("://", 1)[-1]
    if name in _TOO_OLD:
        raise _unsupported(place, f"names {address!r}; the drafts that are served are 4, 6, 7, 2019-09 and 2020-12.")
    if name in _DRAFTS:
        return Dialect(_DRAFTS[name])
    metaschema = (documents or {}).get(address)
    return default if metaschema is None else _described(metaschema, default, address, place)


def _described(metaschema: Schema, default: Dialect, address: str, place: str) -> Dialect:
    """Return the dialect that a metaschema of one's own describes."""
    dialect = dialect_of(metaschema, default)
    vocabularies: Any = metaschema.get("$vocabulary") if isinstance(metaschema, dict) else None
    if not isinstance(vocabularies, dict) or dialect.draft < 2019:
        return dialect
    spoken: set[str] = set()
    for vocabulary, is_required in vocabularies.items():
        host, _, name = vocabulary.rpartition("/vocab/")
        if host.startswith("https://json-schema.org/draft/"):
            spoken.add(name)
        elif is_required is True:
            raise _unsupported(place, f"names {address!r}, which requires the unknown vocabulary {vocabulary!r}.")
    if dialect.draft == 2019 and "applicator" in spoken:
        spoken.add("unevaluated")  # 2019-09 has these keywords among its applicators
    silent = (keywords for name, keywords in _VOCABULARIES.items() if name not in spoken)
    return Dialect(dialect.draft, frozenset().union(*silent))


def _unsupported(place: str, why: str) -> UnsupportedSchemaError:
    return UnsupportedSchemaError(f'"$schema" at {place} {why}', keyword="$schema", pointer=place)
