"""What each keyword of each draft becomes in the normal form."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote

from sureact.constraints.schema.dialect import Dialect
from sureact.constraints.schema.keyword_shapes import (
    TYPES,
    MalformedKeywordError,
    constant,
    constants,
    count,
    divisor,
    flag,
    members,
    names,
    number,
    schemas,
    text,
    type_names,
)
from sureact.constraints.schema.keywords import ANNOTATIONS, IDENTIFIERS, is_annotation
from sureact.constraints.schema.misspelling import meant_keyword

if TYPE_CHECKING:
    from sureact.constraints.schema.schema_node import SchemaNode

Reader: TypeAlias = Callable[["SchemaNode", str, Any], None]
"""Checks the value of a keyword and adds what it means to the node's result."""

_SAYS_NOTHING = (True, {})

_log = logging.getLogger("sureact")


def _read_type(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = value if isinstance(value, str) and value in TYPES else type_names(value)


def _read_enum(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = constants(value)


def _read_const(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = constant(value)


def _read_number(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = number(value)


def _read_exclusive_number(node: SchemaNode, keyword: str, value: Any) -> None:
    if isinstance(value, bool):
        raise MalformedKeywordError(f"{value} is draft 4's way; write the bound itself here, or name draft 4")
    node.result[keyword] = number(value)


def _read_bound_of_draft_4(node: SchemaNode, keyword: str, value: Any) -> None:
    exclusive = "exclusiveMinimum" if keyword == "minimum" else "exclusiveMaximum"
    node.result[exclusive if node.source.get(exclusive) is True else keyword] = number(value)


def _check_flag(node: SchemaNode, keyword: str, value: Any) -> None:
    flag(value)


def _read_divisor(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = divisor(value)


def _read_least_count(node: SchemaNode, keyword: str, value: Any) -> None:
    if (least := count(value)) > 0:
        node.result[keyword] = least


def _read_greatest_count(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = count(value)


def _read_text(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = text(value)


def _check_text(node: SchemaNode, keyword: str, value: Any) -> None:
    text(value)


def _read_format(node: SchemaNode, keyword: str, value: Any) -> None:
    if text(value) in node.normalizer.asserted_formats:
        node.result[keyword] = value


def _read_unique_items(node: SchemaNode, keyword: str, value: Any) -> None:
    if flag(value):
        node.result[keyword] = True


def _read_required(node: SchemaNode, keyword: str, value: Any) -> None:
    if required := names(value):
        node.result[keyword] = required


def _read_schema(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = node.child(value, keyword)


def _read_properties(node: SchemaNode, keyword: str, value: Any) -> None:
    children: dict[str, Any] = {}
    for name, child in members(value).items():
        children[name] = node.child(child, keyword, name)
    node.result[keyword] = children


def _read_schema_map(node: SchemaNode, keyword: str, value: Any) -> None:
    if members(value):
        _read_properties(node, keyword, value)


def _read_schema_list(node: SchemaNode, keyword: str, value: Any) -> None:
    node.result[keyword] = _children(node, keyword, value)


def _read_all_of(node: SchemaNode, keyword: str, value: Any) -> None:
    conjuncts = [child for child in _children(node, keyword, value) if child not in _SAYS_NOTHING]
    if conjuncts:
        node.conjoin(*conjuncts)


def _children(node: SchemaNode, keyword: str, value: Any) -> list[Any]:
    # A loop, as a comprehension takes one more frame for each level of nesting.
    children: list[Any] = []
    for index, child in enumerate(schemas(value)):
        children.append(node.child(child, keyword, index))
    return children


def _read_items(node: SchemaNode, keyword: str, value: Any) -> None:
    if isinstance(value, list):
        raise MalformedKeywordError(
            "a list of schemas is 'prefixItems' since draft 2020-12; rename it, or name an older draft in '$schema'"
        )
    _read_schema(node, keyword, value)


def _read_items_of_old_drafts(node: SchemaNode, keyword: str, value: Any) -> None:
    if not isinstance(value, list):
        _read_schema(node, keyword, value)
        return
    if value:
        node.result["prefixItems"] = _children(node, keyword, value)
    if "additionalItems" in node.source:
        node.result["items"] = node.child(node.source["additionalItems"], "additionalItems")


def _read_contains_bound(node: SchemaNode, keyword: str, value: Any) -> None:
    bound = count(value)
    if "contains" in node.source and (keyword, bound) != ("minContains", 1):
        node.result[keyword] = bound


def _read_property_names(node: SchemaNode, keyword: str, value: Any) -> None:
    child = node.child(value, keyword)
    if child not in (*_SAYS_NOTHING, {"type": "string"}):
        node.result[keyword] = child


def _read_dependent_required(node: SchemaNode, keyword: str, value: Any) -> None:
    dependent = {name: needed for name, needs in members(value).items() if (needed := names(needs))}
    if dependent:
        node.result[keyword] = dependent


def _read_dependencies(node: SchemaNode, keyword: str, value: Any) -> None:
    required: dict[str, list[str]] = {}
    applied: dict[str, Any] = {}
    for name, needs in members(value).items():
        if not isinstance(needs, list):
            applied[name] = node.child(needs, keyword, name)
        elif needed := names(needs):
            required[name] = needed
    if required:
        node.result["dependentRequired"] = required
    if applied:
        node.result["dependentSchemas"] = applied


def _read_if(node: SchemaNode, keyword: str, value: Any) -> None:
    branches: dict[str, Any] = {}
    for branch in ("then", "else"):
        if branch in node.source:
            child = node.child(node.source[branch], branch)
            if child not in _SAYS_NOTHING:
                branches[branch] = child
    # Without branches it still marks what it looked at as evaluated.
    if branches or node.context.dialect.draft >= 2019:
        node.result[keyword] = node.child(value, keyword)
        node.result.update(branches)


def _read_ref(node: SchemaNode, keyword: str, value: Any) -> None:
    context = node.context
    ref = context.references.get(text(value))
    if ref is None:
        target = node.normalizer.library.resolve(value, context.resource, context.dialect)
        ref = context.references[value] = node.normalizer.reference(context, target)
    _add_ref(node, ref)


def _read_dynamic_ref(node: SchemaNode, keyword: str, value: Any) -> None:
    """Follow the reference to the outermost schema of that dynamic anchor; `$recursiveRef` to the one without name."""
    normalizer, context = node.normalizer, node.context
    library = normalizer.library
    target = library.resolve(text(value), context.resource, context.dialect)
    name = unquote(value.partition("#")[2])
    anchored = library.dynamic_anchors(target.resource).get(name)
    if anchored is not None and anchored.schema is target.schema:
        outermost = dict(normalizer.scope_with(context.scope, context.resource)).get(name, target.resource)
        target = library.dynamic_anchors(outermost)[name]
    _add_ref(node, normalizer.reference(context, target))


def _add_ref(node: SchemaNode, ref: str) -> None:
    if "$ref" in node.result:
        node.conjoin({"$ref": ref})
    else:
        node.result["$ref"] = ref


def _read_foreign(node: SchemaNode, keyword: str, value: Any) -> None:
    _warn(node, keyword, "is not a keyword of the draft that the schema is written in, so that it constrains nothing")


def read_unknown(node: SchemaNode, keyword: str, value: Any) -> None:
    """Let a keyword that nobody knows pass as an annotation, with a warning if it looks like a slip."""
    if not is_annotation(keyword) and (meant := meant_keyword(keyword)) is not None:
        _warn(node, keyword, f"is not a keyword, so that it constrains nothing. Is {meant!r} meant?")


def _warn(node: SchemaNode, keyword: str, why: str) -> None:
    """Warn once per keyword: a file that has it has it often."""
    if keyword not in node.normalizer.warned:
        node.normalizer.warned.add(keyword)
        _log.warning("%r at %s %s", keyword, node.pointer(keyword), why)


_IN_ALL_DRAFTS: dict[str, Reader | None] = {
    **dict.fromkeys(ANNOTATIONS | IDENTIFIERS | {"$defs", "definitions", "nullable"}),
    # These are read with the keyword that gives them a meaning.
    **dict.fromkeys(("additionalItems", "then", "else")),
    "type": _read_type,
    "enum": _read_enum,
    "multipleOf": _read_divisor,
    "minimum": _read_number,
    "maximum": _read_number,
    "minLength": _read_least_count,
    "maxLength": _read_greatest_count,
    "pattern": _read_text,
    "format": _read_format,
    "items": _read_items_of_old_drafts,
    "minItems": _read_least_count,
    "maxItems": _read_greatest_count,
    "uniqueItems": _read_unique_items,
    "properties": _read_properties,
    "patternProperties": _read_schema_map,
    "additionalProperties": _read_schema,
    "required": _read_required,
    "minProperties": _read_least_count,
    "maxProperties": _read_greatest_count,
    "allOf": _read_all_of,
    "anyOf": _read_schema_list,
    "oneOf": _read_schema_list,
    "not": _read_schema,
    "$ref": _read_ref,
}

_BY_DRAFT: dict[int, dict[str, Reader | None]] = {
    4: {
        "id": _check_text,
        "minimum": _read_bound_of_draft_4,
        "maximum": _read_bound_of_draft_4,
        "exclusiveMinimum": _check_flag,
        "exclusiveMaximum": _check_flag,
        "dependencies": _read_dependencies,
    },
    6: {
        "id": None,
        "$id": _check_text,
        "const": _read_const,
        "minimum": _read_number,
        "maximum": _read_number,
        "exclusiveMinimum": _read_exclusive_number,
        "exclusiveMaximum": _read_exclusive_number,
        "contains": _read_schema,
        "propertyNames": _read_property_names,
    },
    7: {"if": _read_if},
    2019: {
        "minContains": _read_contains_bound,
        "maxContains": _read_contains_bound,
        "dependencies": _read_foreign,
        "dependentRequired": _read_dependent_required,
        "dependentSchemas": _read_schema_map,
        "unevaluatedItems": _read_schema,
        "unevaluatedProperties": _read_schema,
        "$recursiveRef": _read_dynamic_ref,
    },
    2020: {
        "prefixItems": _read_schema_list,
        "items": _read_items,
        "$recursiveRef": _read_foreign,
        "$dynamicRef": _read_dynamic_ref,
    },
}
"""What each draft adds to, or changes about, the one before it."""


@lru_cache(maxsize=64)
def readers_of(dialect: Dialect) -> dict[str, Reader | None]:
    """Return what to do about each keyword in a dialect; None for annotations. Not to be changed."""
    readers: dict[str, Reader | None] = dict.fromkeys(
        (keyword for added in _BY_DRAFT.values() for keyword in added), _read_foreign
    )
    readers.update(_IN_ALL_DRAFTS)
    for draft, added in _BY_DRAFT.items():
        if draft <= dialect.draft:
            readers.update(added)
    readers.update(dict.fromkeys(dialect.without))
    return readers
