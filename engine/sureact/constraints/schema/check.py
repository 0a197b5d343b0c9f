"""What is refused before a grammar is built: malformed schemas, unknown keywords, keywords no grammar can hold."""

from __future__ import annotations

import json
from difflib import get_close_matches
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeGuard

from sureact.constraints.schema.disjointness import are_disjoint, tagged_branches
from sureact.constraints.schema.keywords import (
    ENFORCED,
    NOT_ENFORCED,
    Schema,
    is_annotation,
    is_vacuous,
    map_subschemas,
)
from sureact.constraints.schema.pointer import child_pointer
from sureact.errors import ConstraintCompileError, UnsupportedSchemaError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_KNOWN_KEYWORDS = sorted(ENFORCED | NOT_ENFORCED | {"title", "description", "default", "examples", "nullable"})


def check_schema(schema: Schema) -> None:
    """Raise unless every keyword of `schema` can be enforced or ignored without loss.

    Raises:
        ConstraintCompileError: not a JSON schema of its draft.
        UnsupportedSchemaError: a keyword that is unknown or that no grammar can hold.
    """
    _check_metaschema(schema)
    _check_keywords(schema, "", root=schema, ids=_identifiers(schema))


def _check_metaschema(schema: Schema) -> None:
    if _names_draft(schema) and not isinstance(schema["$schema"], str):
        raise ConstraintCompileError(
            f"Not a valid JSON schema at /$schema: {schema['$schema']!r} is not the address of a draft."
        )
    from jsonschema.exceptions import best_match
    from jsonschema.validators import Draft3Validator, Draft202012Validator, validator_for

    # Draft 3 stands for "none of ours": it is not served, and jsonschema has it.
    draft = validator_for(schema, default=Draft3Validator if _names_draft(schema) else Draft202012Validator)
    if draft is Draft3Validator:
        raise _unsupported("$schema", "", "names no draft that is served: 4, 6, 7, 2019-09 or 2020-12.")
    error = best_match(draft(draft.META_SCHEMA).iter_errors(schema))
    if error is not None:
        raise ConstraintCompileError(_malformed(error)) from error


def _names_draft(schema: Schema) -> TypeGuard[dict[str, Any]]:
    return isinstance(schema, dict) and "$schema" in schema


def _malformed(error: ValidationError) -> str:
    path = child_pointer("", *(str(step) for step in error.absolute_path))
    return f"Not a valid JSON schema at {path or 'the root'}: {error.message}."


def _identifiers(schema: Schema) -> frozenset[str]:
    """Collect every `$id`, so that a reference to a part of the same document is not taken for an outside one."""
    if isinstance(schema, bool):
        return frozenset()
    found = {schema[key] for key in ("$id", "id") if isinstance(schema.get(key), str)}

    def collect(child: Schema, _: tuple[str, ...]) -> Schema:
        found.update(_identifiers(child))
        return child

    map_subschemas(schema, collect)
    return frozenset(found)


def _check_keywords(schema: Schema, pointer: str, *, root: Schema, ids: frozenset[str]) -> None:
    if isinstance(schema, bool):
        return
    for keyword in schema:
        _check_keyword(keyword, schema, pointer)
    _check_ref(schema, pointer, ids)
    _check_one_of(schema, pointer, root)
    _check_num_properties(schema, pointer)

    def check(child: Schema, path: tuple[str, ...]) -> Schema:
        _check_keywords(child, child_pointer(pointer, *path), root=root, ids=ids)
        return child

    map_subschemas(schema, check)


def _check_keyword(keyword: str, schema: dict[str, Any], pointer: str) -> None:
    if keyword in ENFORCED or keyword == "nullable" or is_annotation(keyword) or is_vacuous(keyword, schema):
        return
    if keyword in NOT_ENFORCED:
        raise _unsupported(keyword, pointer, "cannot be enforced while decoding. Remove it, or check it in the tool.")
    near = get_close_matches(keyword, _KNOWN_KEYWORDS, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else "Remove it, or start its name with 'x-' if it is an annotation."
    raise _unsupported(keyword, pointer, f"is not a known keyword. {hint}")


def _check_ref(schema: dict[str, Any], pointer: str, ids: frozenset[str]) -> None:
    ref = schema.get("$ref")
    if isinstance(ref, str) and not ref.startswith("#") and ref.split("#")[0] not in ids:
        raise _unsupported("$ref", pointer, f"points outside the schema, to {ref!r}. Copy it into '$defs'.")


def _check_one_of(schema: dict[str, Any], pointer: str, root: Schema) -> None:
    if "oneOf" not in schema:
        return
    for (i, left), (j, right) in combinations(enumerate(tagged_branches(schema, root)), 2):
        if not are_disjoint(left, right, root):
            raise _unsupported(
                "oneOf",
                pointer,
                f"has branches {i} and {j} that one value may match both. Use 'anyOf', give the branches different "
                "types, or require in each a property with its own 'const'.",
            )


def _check_num_properties(schema: dict[str, Any], pointer: str) -> None:
    """Refuse bounds on the number of properties where some declared property is optional: no grammar counts those."""
    required = set(schema.get("required", ()))
    if schema.get("properties", {}).keys() <= required:
        return
    for keyword in ("minProperties", "maxProperties"):
        if keyword in schema and not (keyword == "minProperties" and schema[keyword] <= len(required)):
            raise _unsupported(
                keyword, pointer, "cannot be counted beside optional properties. Require them all, or remove it."
            )


def _unsupported(keyword: str, pointer: str, why: str) -> UnsupportedSchemaError:
    place = child_pointer(pointer, keyword)
    return UnsupportedSchemaError(f"{json.dumps(keyword)} at {place} {why}", keyword=keyword, pointer=place)
