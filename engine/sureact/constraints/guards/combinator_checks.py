"""What the keywords that apply subschemas to the same value say of it while it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sureact.constraints.guards.verdict import all_of, any_of, negated, one_of

if TYPE_CHECKING:
    from sureact.constraints.guards.partial_value import PartialObject, PartialValue
    from sureact.constraints.guards.schema_program import Check, Judgement, SchemaProgram
    from sureact.constraints.guards.verdict import Verdict


def check_ref(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`$ref`: what it points to."""
    return program.node(program.definition(schema["$ref"])).verdict


def check_all_of(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """Every one of the subschemas."""
    nodes = [program.node(part) for part in schema["allOf"]]
    return lambda value, judgement: all_of(node.verdict(value, judgement) for node in nodes)


def check_any_of(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """At least one of the subschemas."""
    nodes = [program.node(part) for part in schema["anyOf"]]
    return lambda value, judgement: any_of(node.verdict(value, judgement) for node in nodes)


def check_one_of(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """Exactly one of the subschemas."""
    nodes = [program.negatable.node(part) for part in schema["oneOf"]]
    return lambda value, judgement: one_of(node.verdict(value, judgement) for node in nodes)


def check_not(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """Not the subschema."""
    node = program.negatable.node(schema["not"])
    return lambda value, judgement: negated(node.verdict(value, judgement))


def check_if(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`then` where `if` holds, else `else`."""
    condition = program.negatable.node(schema["if"])
    consequence, alternative = program.node(schema.get("then", True)), program.node(schema.get("else", True))

    def check(value: PartialValue, judgement: Judgement) -> Verdict:
        holds = condition.verdict(value, judgement)
        if holds is not None:
            return (consequence if holds else alternative).verdict(value, judgement)
        either = consequence.verdict(value, judgement), alternative.verdict(value, judgement)
        return either[0] if either[0] is either[1] else None

    return check


def check_dependent_schemas(schema: dict[str, Any], program: SchemaProgram) -> Check:
    """`dependentSchemas`: for each name that is there, its subschema."""
    nodes = {name: program.node(part) for name, part in schema["dependentSchemas"].items()}

    def check(value: PartialObject, judgement: Judgement) -> Verdict:
        verdicts = (node.verdict(value, judgement) for name, node in nodes.items() if name in value.members)
        verdict = all_of(verdicts)
        return verdict if verdict is False or value.is_closed else None

    return check
