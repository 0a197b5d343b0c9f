"""What the keywords for arrays say of an array while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sureact.constraints.guards.partial_value import PartialArray
    from sureact.constraints.guards.schema_program import Check, Judgement, SchemaProgram
    from sureact.constraints.guards.verdict import Verdict


def check_items(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`prefixItems` and `items`; False too when a comma asks for an item that cannot be."""
    first = [program.node(part) for part in schema.get("prefixItems", ())]
    rest = program.node(schema.get("items", True))
    key = object()

    def check(value: PartialArray, judgement: Judgement) -> Verdict:
        num_valid: int = value.progress.get(key, 0)
        result: Verdict = True
        for index in range(num_valid, value.min_len):
            node = first[index] if index < len(first) else rest
            item = value.items[index] if index < len(value.items) else None
            verdict = node.verdict(item, judgement)
            if verdict is False:
                return False
            if verdict is None:
                result = None
            elif index == num_valid and item is not None:
                num_valid += 1
        value.progress[key] = num_valid
        return result if value.is_closed else None

    return check


def check_num_items(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`minItems` and `maxItems`."""
    least, most = schema.get("minItems", 0), schema.get("maxItems")

    def check(value: PartialArray, _: Judgement) -> Verdict:
        if most is not None and value.min_len > most:
            return False
        if value.is_closed:
            return len(value.items) >= least
        return True if most is None and value.min_len >= least else None

    return check


def check_unique_items(_: dict[str, Any], __: SchemaProgram) -> Check:
    """`uniqueItems`: False as soon as an item is complete that was there before."""
    key = object()

    def check(value: PartialArray, _: Judgement) -> Verdict:
        seen: dict[Hashable, int] = value.progress.setdefault(key, {})
        for index in range(len(seen), len(value.items)):
            item = value.items[index]
            if item.is_closed and seen.setdefault(item.plain(), index) != index:
                return False
        return True if value.is_closed else None

    return check


def check_contains(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`contains` with its bounds: False as soon as there are too many, or no room for enough."""
    node = program.node(schema["contains"])
    least, most, max_items = schema.get("minContains", 1), schema.get("maxContains"), schema.get("maxItems")
    key = object()

    def check(value: PartialArray, judgement: Judgement) -> Verdict:
        num_judged, num_sure = value.progress.get(key, (0, 0))
        num_open = 0
        for item in value.items[num_judged:]:  # only the last can be open
            verdict = node.verdict(item, judgement)
            if verdict is None:
                num_open += 1
            else:
                num_judged += 1
                num_sure += verdict
        value.progress[key] = num_judged, num_sure
        if most is not None and num_sure > most:
            return False
        num_possible = num_sure + num_open
        if value.is_closed:
            return num_possible >= least
        has_no_room = max_items is not None and num_possible + max_items - len(value.items) < least
        if has_no_room:
            return False
        return True if most is None and num_sure >= least else None

    return check
