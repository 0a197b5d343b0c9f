"""The table of checks is whole: every keyword of a normal schema is judged, where it applies."""

import pytest

from sureact.constraints.guards.keyword_checks import KEYWORD_CHECKS

JUDGED_WITH_ANOTHER = {"minContains", "maxContains", "then", "else"}
KEYWORDS = {
    "any": "type enum const $ref allOf anyOf oneOf not if then else",
    "number": "multipleOf minimum maximum exclusiveMinimum exclusiveMaximum",
    "string": "minLength maxLength pattern format",
    "array": "prefixItems items minItems maxItems uniqueItems contains minContains maxContains unevaluatedItems",
    "object": "properties patternProperties additionalProperties propertyNames required minProperties maxProperties "
    "dependentRequired dependentSchemas unevaluatedProperties",
}


@pytest.mark.parametrize("kind", KEYWORDS)
def test_every_keyword_is_judged_for_its_kinds(kind: str) -> None:
    for keyword in set(KEYWORDS[kind].split()) - JUDGED_WITH_ANOTHER:
        (entry,) = (entry for entry in KEYWORD_CHECKS if keyword in entry.keywords)
        assert entry.kinds == ((kind,) if kind != "any" else ("null", "boolean", "number", "string", "array", "object"))


def test_nothing_else_is_judged_and_nothing_twice() -> None:
    judged = [keyword for entry in KEYWORD_CHECKS for keyword in entry.keywords]
    assert sorted(judged) == sorted(set(" ".join(KEYWORDS.values()).split()) - JUDGED_WITH_ANOTHER)


def test_what_can_run_into_a_dead_end_is_a_keyword_of_its_entry() -> None:
    assert all(set(entry.dead_ends) <= set(entry.keywords) for entry in KEYWORD_CHECKS)
