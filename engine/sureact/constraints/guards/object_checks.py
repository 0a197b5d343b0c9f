"""What the keywords for objects say of an object while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.guards.scalar_checks import can_become_one_of
from sureact.constraints.guards.verdict import all_of
from sureact.constraints.schema.finite_values import finite_values
from sureact.constraints.schema.text_tests import pattern_matches

if TYPE_CHECKING:
    from sureact.constraints.guards.partial_value import PartialObject
    from sureact.constraints.guards.schema_program import Check, Judgement, SchemaNode, SchemaProgram
    from sureact.constraints.guards.verdict import Verdict


def check_members(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`properties`, `patternProperties` and `additionalProperties`."""
    return _Members(schema, program).check


class _Members:
    """The subschemas of an object's members, by name."""

    def __init__(self, schema: dict[str, Any], program: SchemaProgram) -> None:
        self._named = {name: program.node(part) for name, part in schema.get("properties", {}).items()}
        self._patterns = {pattern: program.node(part) for pattern, part in schema.get("patternProperties", {}).items()}
        self._others = program.node(schema.get("additionalProperties", True))
        shut_out = [pattern for pattern, node in self._patterns.items() if node.constant is False]
        self._no_names = [program.node({"not": {"pattern": pattern}}) for pattern in shut_out]
        self._allows_others = self._others.constant is True and not self._patterns
        self._open_names = sorted(name for name, node in self._named.items() if node.constant is not False)

    def check(self, value: PartialObject, judgement: Judgement) -> Verdict:
        """All members valid; False too when the name that is being written, or that must come, cannot be one."""
        # Members before this index were found valid whatever comes.
        num_valid: int = value.progress.get(self, 0)
        result: Verdict = True
        for index in range(num_valid, len(value.members)):
            member = value.values[index] if index < len(value.values) else None
            for node in self._nodes_of(value.names[index].text):
                verdict = node.verdict(member, judgement)
                if verdict is False:
                    return False
                if verdict is None:
                    result = None
            if result and member is not None:
                num_valid += 1
        value.progress[self] = num_valid
        if value.is_closed or (result and self._allows_others and value.members.keys() >= self._named.keys()):
            return result
        return None if self._can_get_name(value, judgement) else False

    def _nodes_of(self, name: str) -> list[SchemaNode]:
        """Return the subschemas that a member of this name must fit."""
        nodes = [self._named[name]] if name in self._named else []
        nodes += [node for pattern, node in self._patterns.items() if pattern_matches(pattern, name)]
        return nodes or [self._others]

    def _can_get_name(self, value: PartialObject, judgement: Judgement) -> bool:
        """Whether the name that is being written, or that a comma asks for, can become one that is allowed."""
        open_name = value.open_name
        if open_name is not None and any(node.verdict(open_name, judgement) is False for node in self._no_names):
            return False
        if self._others.constant is not False or not value.needs_name:
            return True
        judgement.saw_open_string = True
        prefix = ""
        if open_name is not None:
            open_name.is_held = True
            prefix = open_name.text
        free = self._open_names
        if value.members:
            free = [name for name in free if name not in value.members]
        return can_become_one_of(open_name, free) or any(
            pattern_matches(pattern, prefix, is_open=True)
            for pattern, node in self._patterns.items()
            if node.constant is not False
        )


def check_property_names(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`propertyNames`: each name as a string."""
    node = program.node(schema["propertyNames"])
    options = finite_values(schema["propertyNames"], program.definitions)
    names = sorted(name for name in options or () if isinstance(name, str))
    key = object()

    def check(value: PartialObject, judgement: Judgement) -> Verdict:
        if options is not None and value.needs_name:
            judgement.saw_open_string = True
            if not can_become_one_of(value.open_name, [name for name in names if name not in value.members]):
                return False
        num_valid: int = value.progress.get(key, 0)
        verdict = all_of(node.verdict(name, judgement) for name in value.names[num_valid:])
        if verdict is False:
            return False
        value.progress[key] = max(len(value.names) - 1, 0)  # only the last can be open
        return verdict if value.is_closed else None

    return check


def check_required(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`required`: valid from the last of the names on; missed only at the end."""
    required = frozenset(schema["required"])

    def check(value: PartialObject, _: Judgement) -> Verdict:
        if value.members.keys() >= required:
            return True
        return False if value.is_closed else None

    return check


def check_dependent_required(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`dependentRequired`: for each name that is there, the names it asks for."""
    dependents: dict[str, list[str]] = schema["dependentRequired"]

    def check(value: PartialObject, _: Judgement) -> Verdict:
        if not value.is_closed:
            return None
        return all(value.members.keys() >= set(names) for name, names in dependents.items() if name in value.members)

    return check


def check_num_properties(schema: dict[str, Any], _: SchemaProgram) -> Check:
    """`minProperties` and `maxProperties`, with what is still required counted in."""
    least, most = schema.get("minProperties", 0), schema.get("maxProperties")
    required = frozenset(schema.get("required", ()))

    def check(value: PartialObject, judgement: Judgement) -> Verdict:
        if most is not None:
            missing = required - value.members.keys() if required else required
            room = most - len(value.members) - len(missing)
            if room < 0 or value.min_len > most:
                return False
            if value.needs_name and not room:
                judgement.saw_open_string = True
                if not can_become_one_of(value.open_name, sorted(missing)):
                    return False
        if value.is_closed:
            return len(value.members) >= least
        return True if most is None and value.min_len >= least else None

    return check
