from sureact.constraints.schema.in_place_cycles import find_in_place_cycle, in_place_references
from sureact.constraints.schema.keywords import Schema


def ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def test_every_keyword_that_applies_to_the_same_value_is_followed() -> None:
    schema: Schema = {
        **ref("a"),
        "allOf": [ref("b"), {"anyOf": [ref("c")]}],
        "oneOf": [True, ref("d")],
        "not": ref("e"),
        "if": ref("f"),
        "then": ref("g"),
        "else": {"dependentSchemas": {"x": ref("h")}},
        "properties": {"x": ref("below")},
        "items": ref("below"),
    }
    assert sorted(in_place_references(schema)) == list("abcdefgh")
    assert in_place_references(True) == []


def test_a_cycle_is_found_wherever_it_starts() -> None:
    assert find_in_place_cycle({"a": ref("b"), "b": ref("c"), "c": {"not": ref("b")}}) in ("b", "c")


def test_recursion_through_a_value_and_shared_definitions_are_no_cycle() -> None:
    shared: Schema = {"anyOf": [ref("a"), ref("b")]}
    assert find_in_place_cycle({"a": {"items": ref("a")}, "b": ref("a"), "c": shared, "d": ref("c")}) is None


def test_a_long_chain_takes_no_recursion() -> None:
    chain: dict[str, Schema] = {str(number): ref(str(number + 1)) for number in range(10_000)}
    assert find_in_place_cycle({**chain, "10000": True}) is None
    assert find_in_place_cycle({**chain, "10000": ref("0")}) is not None
