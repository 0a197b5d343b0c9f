"""Rewriting what a grammar has no word for: each keyword becomes others that allow the same values, or more.

A schema comes out with the keywords of `GRAMMAR_KEYWORDS` alone, its subschemas as they were.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.schema.disjointness import are_all_disjoint, canonical
from sureact.constraints.schema.evaluation import evaluation
from sureact.constraints.schema.finite_values import finite_values
from sureact.constraints.schema.implication import is_implied
from sureact.constraints.schema.negation import all_of, any_of, negated
from sureact.constraints.schema.spelling import name_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from sureact.constraints.schema.keywords import Schema

GRAMMAR_KEYWORDS = frozenset(
    {"type", "enum", "const", "multipleOf", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minLength", "maxLength", "pattern", "format", "prefixItems", "items", "minItems", "maxItems"}
    | {"properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties"}
    | {"allOf", "anyOf", "$ref"}
)
"""Keywords that llguidance 1.9 builds grammars from."""

_MAX_CONDITIONS = 2
_MAX_NAMES = 32
"""Every condition doubles the alternatives, and each has all optional properties of the object: a mask takes the longer
the more these are."""


def rewritten(
    schema: dict[str, Any],
    definitions: Mapping[str, Schema],
    names: AbstractSet[str] = frozenset(),
    *,
    any_order: bool,
    expand: bool,
) -> tuple[Schema, bool]:
    """Return a schema of grammar keywords that allows all that `schema` allows, and whether it allows no more.

    Args:
        schema: a subschema in normal form; not changed.
        definitions: what references point to.
        names: properties that are declared around it.
        any_order: whether declared names will be written as patterns, which must not overlap with others.
        expand: whether conditions and negations become unions; if not, they are left out.
    """
    rewriting = _Rewriting(schema, definitions, names)
    rewriting.run(any_order=any_order, expand=expand)
    return rewriting.result(), rewriting.is_exact


class _Rewriting:
    """One schema on its way: `kept` keywords, and `extras` that must hold too."""

    def __init__(self, schema: dict[str, Any], definitions: Mapping[str, Schema], names: AbstractSet[str]) -> None:
        self.schema = schema
        self.definitions = definitions
        self.names = names
        self.kept: dict[str, Any] = {}
        self.extras: list[Schema] = []
        self.is_exact = True

    def run(self, *, any_order: bool, expand: bool) -> None:
        for keyword, value in self.schema.items():
            if keyword in GRAMMAR_KEYWORDS:
                self.kept[keyword] = value
            elif keyword == "oneOf":
                self._one_of(value)
        self._bound_array()
        self._restrict_names(any_order=any_order)
        self._leave_nothing_unevaluated()
        if expand:
            self._negate()
            self._condition()
        else:
            self.is_exact &= self.schema.keys().isdisjoint({"not", "if", "dependentRequired", "dependentSchemas"})

    def result(self) -> Schema:
        extras = [extra for extra in self.extras if extra is not True]
        if False in extras:
            return False
        if not extras:
            return self.kept or True
        # What is added comes last: the order of keywords is the order of keys.
        return {"allOf": [self.kept, *extras]} if "allOf" in self.kept else {**self.kept, "allOf": extras}

    def _one_of(self, branches: list[Schema]) -> None:
        """Turn `oneOf` into a union; where a branch holds anyway, into what rules out the others."""
        others = [branch for branch in branches if not is_implied(branch, self.schema)]
        if len(others) == len(branches) - 1:
            for allowed, is_exact in map(negated, others):
                self.is_exact &= is_exact
                self.extras.append(allowed)
            return
        self.is_exact &= are_all_disjoint(branches, self.definitions)
        if "anyOf" in self.schema:
            self.extras.append({"anyOf": branches})
        else:
            self.kept["anyOf"] = branches

    def _bound_array(self) -> None:
        """Turn `contains` and `uniqueItems` into the counts that they imply."""
        schema, kept = self.schema, self.kept
        if "contains" in schema:
            self.is_exact = False
            kept["minItems"] = max(kept.get("minItems", 0), schema.get("minContains", 1))
        if "uniqueItems" not in schema:
            return
        values = finite_values(schema.get("items", True), self.definitions)
        if values is not None:
            num_items = len(schema.get("prefixItems", ())) + len(values)
            kept["maxItems"] = min(kept.get("maxItems", num_items), num_items)
        self.is_exact &= kept.get("maxItems", 2) <= 1

    def _restrict_names(self, *, any_order: bool) -> None:
        """Turn `propertyNames` into a pattern for names, where no pattern for names is there already."""
        if "propertyNames" not in self.schema:
            return
        pattern = _names_pattern(self.schema["propertyNames"])
        self.is_exact = False
        if pattern is None or "patternProperties" in self.schema:
            return
        if "properties" not in self.schema:
            self.kept["patternProperties"] = {pattern: self.kept.get("additionalProperties", True)}
            self.kept["additionalProperties"] = False
        elif not any_order:
            # A declared name may match too, and is not bound to what holds for the others.
            self.extras.append({"patternProperties": {pattern: True}, "additionalProperties": False})

    def _leave_nothing_unevaluated(self) -> None:
        schema = self.schema
        if "unevaluatedProperties" not in schema and "unevaluatedItems" not in schema:
            return
        found = evaluation(schema, self.definitions)
        extra: dict[str, Any] = {}
        if "unevaluatedProperties" in schema and not found.has_all_properties:
            extra |= {"properties": found.names} if found.names else {}
            extra |= {"patternProperties": found.patterns} if found.patterns else {}
            extra["additionalProperties"] = schema["unevaluatedProperties"]
        if "unevaluatedItems" in schema and not found.has_all_items:
            extra |= {"prefixItems": [True] * found.num_items} if found.num_items else {}
            extra["items"] = schema["unevaluatedItems"]
        is_told = schema.get("unevaluatedItems", False) is False or not found.has_all_items
        self.is_exact &= is_told and not found.is_conditional
        self.extras.append(extra or True)

    def _negate(self) -> None:
        if "not" not in self.schema:
            return
        forbidden = self.schema["not"]
        if "enum" in self.kept and isinstance(forbidden, dict) and forbidden.keys() <= {"enum", "const"}:
            texts = {canonical(value) for value in _listed(forbidden)}
            self.kept["enum"] = [value for value in self.kept["enum"] if canonical(value) not in texts]
            return
        allowed, is_exact = negated(forbidden)
        self.is_exact &= is_exact
        self.extras.append(allowed)

    def _condition(self) -> None:
        """Turn `if` and what depends on a property into unions."""
        schema = self.schema
        needed: dict[str, list[str]] = schema.get("dependentRequired", {})
        schemas: dict[str, Schema] = schema.get("dependentSchemas", {})
        num_conditions = len(needed) + len(schemas) + ("if" in schema)
        if num_conditions == 0:
            return
        declared = self.names | evaluation(schema, self.definitions).names.keys()
        if num_conditions > _MAX_CONDITIONS or len(declared) > _MAX_NAMES:
            self.is_exact = False
            return
        if "if" in schema:
            condition, then, otherwise = (schema.get(keyword, True) for keyword in ("if", "then", "else"))
            unmet, is_exact = negated(condition)
            self._add_union([all_of([condition, then]), all_of([unmet, otherwise])], declared, is_exact=is_exact)
        for name, child in (*((name, {"required": names}) for name, names in needed.items()), *schemas.items()):
            self._add_union([{"properties": {name: False}}, child], declared, is_exact=True)

    def _add_union(self, options: list[Schema], declared: AbstractSet[str], *, is_exact: bool) -> None:
        """Add a union, unless it says nothing or requires a name that is not declared.

        Where such a key stands is anybody's choice; a grammar that requires it would fix the place.
        """
        if True in options or not all(self._required(option) <= declared for option in options):
            self.is_exact = False
            return
        self.is_exact &= is_exact
        self.extras.append(any_of(options))

    def _required(self, schema: Schema, seen: frozenset[str] = frozenset()) -> set[str]:
        """Return every name that a schema, or a part of it that applies in place, requires."""
        if isinstance(schema, bool):
            return set()
        parts: list[Schema] = [part for keyword in ("allOf", "anyOf", "oneOf") for part in schema.get(keyword, ())]
        ref = schema.get("$ref")
        if ref is not None and ref not in seen:
            parts.append(self.definitions[ref.rpartition("/")[2]])
            seen |= {ref}
        return set(schema.get("required", ())).union(*(self._required(part, seen) for part in parts))


def _listed(schema: dict[str, Any]) -> list[Any]:
    """Return the values that `const` and `enum` list."""
    return [schema["const"]] if "const" in schema else schema["enum"]


def _names_pattern(names: Schema) -> str | None:
    """Return a regex for all names that are valid under `names`, or None."""
    if isinstance(names, bool):
        return None
    if "enum" in names or "const" in names:
        patterns = [name_pattern(name) for name in _listed(names) if isinstance(name, str)]
        inside = [pattern[1:-1] for pattern in patterns if pattern is not None]
        return f"^({'|'.join(inside)})$" if len(inside) == len(patterns) else None
    return names.get("pattern")
