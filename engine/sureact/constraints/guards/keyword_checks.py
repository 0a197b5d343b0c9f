"""Which check each keyword becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from sureact.constraints.guards import array_checks, combinator_checks, object_checks, scalar_checks
from sureact.constraints.guards.unevaluated_checks import check_unevaluated_items, check_unevaluated_properties

if TYPE_CHECKING:
    from sureact.constraints.guards.partial_value import Kind
    from sureact.constraints.guards.schema_program import Check, SchemaProgram

_Maker: TypeAlias = "Callable[[dict[str, Any], SchemaProgram], Check]"

_ANY: tuple[Kind, ...] = ("null", "boolean", "number", "string", "array", "object")


class KeywordCheck(NamedTuple):
    """A check, and where it applies."""

    keywords: tuple[str, ...]
    """Any of them in a schema asks for the check."""
    kinds: tuple[Kind, ...]
    """The kinds of value it judges; all others are valid."""
    make: _Maker
    dead_ends: tuple[str, ...] = ()
    """Those of the keywords with which it can refuse every way on that the grammar leaves."""


KEYWORD_CHECKS = (
    KeywordCheck(("type",), _ANY, scalar_checks.check_type),
    KeywordCheck(("enum", "const"), _ANY, scalar_checks.check_enum, dead_ends=("enum", "const")),
    KeywordCheck(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        ("number",),
        scalar_checks.check_number,
    ),
    KeywordCheck(("minLength", "maxLength"), ("string",), scalar_checks.check_length),
    KeywordCheck(("pattern",), ("string",), scalar_checks.check_pattern, dead_ends=("pattern",)),
    KeywordCheck(("format",), ("string",), scalar_checks.check_format),
    KeywordCheck(("minItems", "maxItems"), ("array",), array_checks.check_num_items),
    KeywordCheck(("uniqueItems",), ("array",), array_checks.check_unique_items, dead_ends=("uniqueItems",)),
    KeywordCheck(("prefixItems", "items"), ("array",), array_checks.check_items),
    KeywordCheck(("contains",), ("array",), array_checks.check_contains, dead_ends=("contains",)),
    KeywordCheck(("required",), ("object",), object_checks.check_required),
    KeywordCheck(
        ("minProperties", "maxProperties"),
        ("object",),
        object_checks.check_num_properties,
        dead_ends=("minProperties", "maxProperties"),
    ),
    KeywordCheck(("propertyNames",), ("object",), object_checks.check_property_names, dead_ends=("propertyNames",)),
    KeywordCheck(
        ("dependentRequired",), ("object",), object_checks.check_dependent_required, dead_ends=("dependentRequired",)
    ),
    KeywordCheck(
        ("properties", "patternProperties", "additionalProperties"),
        ("object",),
        object_checks.check_members,
        dead_ends=("patternProperties",),
    ),
    KeywordCheck(("$ref",), _ANY, combinator_checks.check_ref),
    KeywordCheck(("allOf",), _ANY, combinator_checks.check_all_of, dead_ends=("allOf",)),
    KeywordCheck(("anyOf",), _ANY, combinator_checks.check_any_of),
    KeywordCheck(("oneOf",), _ANY, combinator_checks.check_one_of, dead_ends=("oneOf",)),
    KeywordCheck(("not",), _ANY, combinator_checks.check_not, dead_ends=("not",)),
    KeywordCheck(("if",), _ANY, combinator_checks.check_if, dead_ends=("if",)),
    KeywordCheck(
        ("dependentSchemas",), ("object",), combinator_checks.check_dependent_schemas, dead_ends=("dependentSchemas",)
    ),
    KeywordCheck(
        ("unevaluatedProperties",), ("object",), check_unevaluated_properties, dead_ends=("unevaluatedProperties",)
    ),
    KeywordCheck(("unevaluatedItems",), ("array",), check_unevaluated_items, dead_ends=("unevaluatedItems",)),
)
"""The cheap ones, and those that fail early, come first."""
