"""What the keywords for arrays say of an array while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.guards.partial_value import plain_value
from sureact.constraints.guards.scalar_checks import can_become
from sureact.constraints.schema.finite_values import finite_values

if TYPE_CHECKING:
    from collections.abc import Hashable

    from sureact.constraints.guards.partial_value import PartialArray
    from sureact.constraints.guards.schema_program import Check, Judgement, SchemaProgram
    from sureact.constraints.guards.verdict import Verdict

_MAX_COMPARED = 256
"""Options up to which each token of an item is compared with those that are left."""


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
        is_final = value.is_closed or (rest.constant is True and num_valid >= len(first))
        return result if is_final else None

    return check


def check_num_items(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`minItems` and `maxItems`."""
    least, most = schema.get("minItems", 0), schema.get("maxItems")

    def check(value: PartialArray, _: Judgement) -> Verdict:
        if most is not None and max(value.min_len, least) > most:
            return False
        if value.is_closed:
            return len(value.items) >= least
        return True if most is None and value.min_len >= least else None

    return check


def check_unique_items(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`uniqueItems`: False when an item was there before, or when none is left that was not."""
    items = True if "prefixItems" in schema else schema.get("items", True)
    options = finite_values(items, program.definitions)
    by_plain = None if options is None else {plain_value(option): option for option in options}
    key = object()

    def check(value: PartialArray, judgement: Judgement) -> Verdict:
        seen: dict[Hashable, int] = value.progress.setdefault(key, {})
        for index in range(len(seen), len(value.items)):
            item = value.items[index]
            if item.is_closed:
                if seen.setdefault(item.plain(), index) != index:
                    return False
            elif by_plain and len(by_plain) <= _MAX_COMPARED:
                judgement.saw_open_string = True
                if not any(can_become(item, option) for plain, option in by_plain.items() if plain not in seen):
                    return False
        if by_plain is not None and value.min_len > len(by_plain):
            return False
        return True if value.is_closed else None

    return check


def check_contains(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`contains` with its bounds: False as soon as there are too many, or no room for enough."""
    least, most, max_items = schema.get("minContains", 1), schema.get("maxContains"), schema.get("maxItems")
    node = (program if most is None else program.negatable).node(schema["contains"])
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
