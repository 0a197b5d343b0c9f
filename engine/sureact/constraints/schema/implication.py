"""What a branch says that the schema around it says already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.disjointness import canonical

if TYPE_CHECKING:
    from sureact.constraints.schema.keywords import Schema

_TOGETHER = (
    frozenset({"additionalProperties", "properties", "patternProperties"}),
    frozenset({"items", "prefixItems"}),
    frozenset({"contains", "minContains", "maxContains"}),
    frozenset({"if", "then", "else"}),
)
"""Keywords that mean something else where others of their group are missing."""
_ALONE = frozenset({"properties", "patternProperties", "prefixItems"})
"""Those of them that do not, unless another one stands beside them."""
_UNEVALUATED = frozenset({"unevaluatedProperties", "unevaluatedItems"})


def is_implied(branch: Schema, schema: dict[str, Any]) -> bool:
    """Whether every value that the keywords of `schema` allow is valid under `branch`, which stands in it.

    Args:
        branch: in normal form.
        schema: around it, in normal form. What applies in place there is not looked into.
    """
    if isinstance(branch, bool):
        return branch
    return all(_is_said(keyword, value, branch, schema) for keyword, value in branch.items())


def is_ruled_out(branch: Schema, schema: dict[str, Any]) -> bool:
    """Whether a branch forbids what the schema around it asks for."""
    return isinstance(branch, dict) and "not" in branch and is_implied(branch["not"], schema)


def _is_said(keyword: str, value: Any, branch: dict[str, Any], schema: dict[str, Any]) -> bool:
    if keyword in _UNEVALUATED:
        return False
    group = next((group for group in _TOGETHER if keyword in group), frozenset[str]())
    if group & branch.keys() > group & _ALONE & branch.keys():
        return all(_are_equal(branch.get(other), schema.get(other)) for other in group)
    if keyword == "required":
        return set(value) <= set(schema.get("required", ()))
    if keyword == "properties":
        own = schema.get("properties", {})
        return all(child is True or _are_equal(child, own.get(name)) for name, child in value.items())
    return keyword in schema and _are_equal(schema[keyword], value)


def _are_equal(left: Any, right: Any) -> bool:
    # Python takes 1 for equal to True.
    return left == right and canonical(left) == canonical(right)
