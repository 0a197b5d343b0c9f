"""Which properties and items the schemas that apply in place evaluate, as `unevaluatedProperties` counts them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.constraints.schema.keywords import Schema

_CONDITIONAL_LISTS = ("anyOf", "oneOf")
_CONDITIONAL = ("if", "then", "else")


@dataclass(slots=True)
class Evaluation:
    """What a schema may evaluate of one object or array."""

    names: dict[str, Schema] = field(default_factory=dict[str, "Schema"])
    """Property names, each with True, in the order in which they are declared."""
    patterns: dict[str, Schema] = field(default_factory=dict[str, "Schema"])
    num_items: int = 0
    has_all_properties: bool = False
    has_all_items: bool = False
    is_conditional: bool = False
    """Whether some of it depends on the value."""


def evaluation(schema: dict[str, Any], definitions: Mapping[str, Schema]) -> Evaluation:
    """Return what `schema` evaluates at most, its own `unevaluated` keywords left out."""
    found = Evaluation()
    own = {keyword: value for keyword, value in schema.items() if not keyword.startswith("unevaluated")}
    _collect(own, found, definitions, set())
    return found


def _collect(schema: Schema, found: Evaluation, definitions: Mapping[str, Schema], seen: set[str]) -> None:
    if isinstance(schema, bool):
        return
    _collect_own(schema, found)
    ref = schema.get("$ref")
    if ref is not None and ref not in seen:
        _collect(definitions[ref.rpartition("/")[2]], found, definitions, seen | {ref})
    for part in schema.get("allOf", ()):
        _collect(part, found, definitions, seen)
    for part in _conditional_parts(schema):
        found.is_conditional = True
        _collect(part, found, definitions, seen)


def _collect_own(schema: dict[str, Any], found: Evaluation) -> None:
    found.names.update(dict.fromkeys(schema.get("properties", ()), True))
    found.patterns.update(dict.fromkeys(schema.get("patternProperties", ()), True))
    found.num_items = max(found.num_items, len(schema.get("prefixItems", ())))
    found.has_all_properties |= any(
        schema.get(keyword, False) is not False for keyword in ("additionalProperties", "unevaluatedProperties")
    )
    found.has_all_items |= "contains" in schema or any(
        schema.get(keyword, False) is not False for keyword in ("items", "unevaluatedItems")
    )


def _conditional_parts(schema: dict[str, Any]) -> list[Schema]:
    parts: list[Schema] = [part for keyword in _CONDITIONAL_LISTS for part in schema.get(keyword, ())]
    parts += [schema[keyword] for keyword in _CONDITIONAL if keyword in schema]
    return parts + list(schema.get("dependentSchemas", {}).values())
