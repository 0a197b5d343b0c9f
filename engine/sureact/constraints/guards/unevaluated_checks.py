"""`unevaluatedProperties` and `unevaluatedItems`: for what no other keyword that applies in place looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from sureact.constraints.guards.verdict import any_of
from sureact.constraints.schema.text_tests import pattern_matches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sureact.constraints.guards.partial_value import PartialArray, PartialObject, PartialValue
    from sureact.constraints.guards.schema_program import Check, Judgement, SchemaProgram
    from sureact.constraints.guards.verdict import Verdict
    from sureact.constraints.schema.keywords import Schema

_Evaluates: TypeAlias = "Callable[[dict[str, Any], Any, int, Judgement], Verdict]"
"""Whether the keywords of a schema, but for those that apply in place, evaluate the child at an index."""


def check_unevaluated_properties(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """Each member that nothing evaluates fits the subschema."""
    node = program.node(schema["unevaluatedProperties"])
    others = {key: part for key, part in schema.items() if key != "unevaluatedProperties"}
    key = object()

    def check(value: PartialObject, judgement: Judgement) -> Verdict:
        def verdict_of(index: int) -> Verdict:
            member = value.values[index] if index < len(value.values) else None
            evaluated = _is_evaluated(others, value, index, judgement, program, _evaluates_member)
            return any_of((evaluated, node.verdict(member, judgement)))

        verdict = _all_children(value, len(value.members), key, verdict_of)
        return verdict if verdict is False or value.is_closed else None

    return check


def check_unevaluated_items(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """Each item that nothing evaluates fits the subschema."""
    node = program.node(schema["unevaluatedItems"])
    others = {key: part for key, part in schema.items() if key != "unevaluatedItems"}
    key = object()

    def evaluates_item(part: dict[str, Any], value: PartialArray, index: int, judgement: Judgement) -> Verdict:
        if index < len(part.get("prefixItems", ())) or "items" in part or "unevaluatedItems" in part:
            return True
        return "contains" in part and program.node(part["contains"]).verdict(_item(value, index), judgement)

    def check(value: PartialArray, judgement: Judgement) -> Verdict:
        def verdict_of(index: int) -> Verdict:
            evaluated = _is_evaluated(others, value, index, judgement, program, evaluates_item)
            return any_of((evaluated, node.verdict(_item(value, index), judgement)))

        verdict = _all_children(value, value.min_len, key, verdict_of)
        return verdict if verdict is False or value.is_closed else None

    return check


def _item(array: PartialArray, index: int) -> PartialValue | None:
    return array.items[index] if index < len(array.items) else None


def _all_children(value: PartialValue, num_children: int, key: object, verdict_of: Callable[[int], Verdict]) -> Verdict:
    """True when all children are; those before an index that is kept under `key` are, whatever comes."""
    num_valid: int = value.progress.get(key, 0)
    result: Verdict = True
    for index in range(num_valid, num_children):
        verdict = verdict_of(index)
        if verdict is False:
            return False
        if verdict is None:
            result = None
        elif result:
            num_valid += 1
    value.progress[key] = num_valid
    return result


def _evaluates_member(part: dict[str, Any], value: PartialObject, index: int, _: Judgement) -> Verdict:
    name = value.names[index].text
    if "additionalProperties" in part or "unevaluatedProperties" in part or name in part.get("properties", ()):
        return True
    return any(pattern_matches(pattern, name) for pattern in part.get("patternProperties", ()))


def _is_evaluated(
    schema: Schema,
    value: PartialValue,
    index: int,
    judgement: Judgement,
    program: SchemaProgram,
    evaluates: _Evaluates,
) -> Verdict:
    """Whether `schema`, or what it applies in place and `value` fits, evaluates the child at `index`."""
    if isinstance(schema, bool):
        return False
    # One schema can apply to a value in exponentially many ways.
    key = (id(schema), id(value), index)
    if key in judgement.evaluated:
        return judgement.evaluated[key]

    def verdicts() -> Iterator[Verdict]:
        yield evaluates(schema, value, index, judgement)
        for part, holds in _in_place(schema, value, judgement, program):
            if holds is False:
                continue
            evaluated = _is_evaluated(part, value, index, judgement, program, evaluates)
            # True only once it is sure that the part holds.
            yield evaluated if holds or evaluated is False else None

    judgement.evaluated[key] = verdict = any_of(verdicts())
    return verdict


def _in_place(
    schema: dict[str, Any], value: Any, judgement: Judgement, program: SchemaProgram
) -> Iterator[tuple[Schema, Verdict]]:
    """Yield each subschema that applies to the same value, and whether the value fits it."""

    def with_verdict(part: Schema) -> tuple[Schema, Verdict]:
        return part, program.node(part).verdict(value, judgement)

    if "$ref" in schema:
        yield with_verdict(program.definition(schema["$ref"]))
    for keyword in ("allOf", "anyOf", "oneOf"):
        yield from map(with_verdict, schema.get(keyword, ()))
    if "if" in schema:
        holds = program.negatable.node(schema["if"]).verdict(value, judgement)
        yield schema["if"], holds
        for keyword, applies in (("then", holds), ("else", None if holds is None else not holds)):
            if keyword in schema and applies is not False:
                part, fits = with_verdict(schema[keyword])
                yield part, fits if applies else None
    if value.kind == "object":
        for name, part in schema.get("dependentSchemas", {}).items():
            if name in value.members:
                yield with_verdict(part)
            elif not value.is_closed:
                yield part, None
