import pytest

from sureact.constraints.schema.in_place_cycles import find_in_place_cycle, find_long_chain, in_place_references
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import normalize
from sureact.errors import ConstraintCompileError


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


@pytest.mark.parametrize("start", ["0", "299"])
def test_chains_are_measured_in_whichever_order_their_links_stand(start: str) -> None:
    links: dict[str, Schema] = {str(number): {"allOf": [ref(str(number + 1)), True]} for number in range(300)}
    definitions = {start: links[start], **links, "300": True}
    assert find_long_chain(definitions, 301) is None
    assert find_long_chain(definitions, 300) == "0"


def test_a_schema_whose_chain_is_too_long_is_refused_and_named() -> None:
    chain: dict[str, Schema] = {f"d{number}": ref(f"d{number + 1}") for number in range(250)}
    assert normalize({**ref("d10"), "$defs": {**chain, "d250": True}})
    with pytest.raises(ConstraintCompileError, match=r"at /\$defs/d0 leads through more than 250 references"):
        normalize({**ref("d0"), "$defs": {**chain, "d250": True}})
