"""A program is shared: its nodes are made once, hold for all threads, and keep what is final."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from sureact.constraints.guards.json_guard import JsonGuard
from sureact.constraints.guards.json_reader import JsonReader
from sureact.constraints.guards.partial_value import PartialValue
from sureact.constraints.guards.schema_program import Judgement, SchemaProgram
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.schema.normal_form import NormalSchema

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["id"],
}
CHAIN: Schema = {"type": "object", "properties": {"next": {"$ref": "#/$defs/chain"}}, "required": ["id"]}
CHAINS = NormalSchema({"$ref": "#/$defs/chain"}, {"chain": CHAIN})
TREES = NormalSchema({"$ref": "#/$defs/tree"}, {"tree": TREE})


def read(text: str) -> PartialValue:
    reader = JsonReader()
    assert reader.read(text.encode())
    assert reader.root is not None
    return reader.root


def test_a_subschema_has_one_node_however_often_it_is_used() -> None:
    program = SchemaProgram(TREES)
    assert program.node(TREE) is program.node(program.definition("#/$defs/tree"))
    assert program.node(True) is program.node(True)
    assert program.node(True) is not program.node(False)


def test_only_below_a_negation_it_is_worth_its_price_to_be_sure_early() -> None:
    value = read('"ab')
    for schema, verdict in (({"pattern": "^a"}, None), ({"not": {"not": {"pattern": "^a"}}}, True)):
        assert SchemaProgram(NormalSchema(schema, {})).root.verdict(value, Judgement(1)) is verdict


@pytest.mark.parametrize("constant", [True, False])
def test_a_boolean_schema_is_its_own_verdict(constant: bool) -> None:
    program = SchemaProgram(NormalSchema(constant, {}))
    assert program.root.verdict(None, Judgement(1)) is constant
    assert program.root.verdict(read("[1"), Judgement(1)) is constant


def test_a_value_that_has_not_begun_is_open() -> None:
    assert SchemaProgram(TREES).root.verdict(None, Judgement(1)) is None


def test_a_final_verdict_is_kept_and_an_open_one_asked_for_again() -> None:
    reader = JsonReader()
    root = SchemaProgram(NormalSchema({"maxItems": 1}, {})).root
    assert reader.read(b"[")
    assert reader.root is not None
    assert root.verdict(reader.root, Judgement(1)) is None
    assert reader.read(b"1,")
    assert root.verdict(reader.root, Judgement(1)) is None
    assert root.verdict(reader.root, Judgement(2)) is False
    assert root.verdict(reader.root, Judgement(3)) is False


def test_a_judgement_knows_whether_the_next_character_of_a_string_matters() -> None:
    for schema, matters in (({"type": "string"}, False), ({"minLength": 2}, False), ({"maxLength": 9}, True)):
        judgement = Judgement(1)
        SchemaProgram(NormalSchema(schema, {})).root.verdict(read('"abc'), judgement)
        assert judgement.saw_open_string == matters


def test_only_what_can_run_into_a_dead_end_is_held() -> None:
    for schema, is_held in (({"type": "array"}, False), ({"uniqueItems": True}, True), ({"minProperties": 1}, False)):
        value = read("[1")
        SchemaProgram(NormalSchema(schema, {})).root.verdict(value, Judgement(1))
        assert value.is_held == is_held


def test_threads_that_ask_at_once_get_the_same_answers() -> None:
    text = '{"id":1,"children":[' + ",".join(f'{{"id":{index},"children":[]}}' for index in range(50)) + "]}"
    bad = text.replace('"id":49', '"id":"x"')

    def judge(program: SchemaProgram, text: str) -> bool | None:
        return program.root.verdict(read(text), Judgement(1))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            program = SchemaProgram(TREES)
            answers = [pool.submit(judge, program, text if index % 2 else bad) for index in range(8)]
            assert [answer.result() for answer in answers] == [False, True] * 4


def chain(depth: int, *, member: str = '"id":1') -> bytes:
    return ('{"id":1,"next":' * depth + "{" + member + "}" * (depth + 1)).encode()


def test_values_may_nest_deep() -> None:
    for member, is_valid in (('"id":1', True), ("", False)):
        state = JsonGuard(CHAINS).new_state()
        assert (state.feed(chain(150, member=member)) and state.can_end()) == is_valid


@pytest.mark.parametrize("num_bytes", [7, 1 << 20])
def test_values_that_nest_deeper_than_can_be_judged_are_refused(num_bytes: int) -> None:
    state = JsonGuard(CHAINS).new_state()
    data = chain(2000)
    pieces = [data[start : start + num_bytes] for start in range(0, len(data), num_bytes)]
    assert not all(map(state.feed, pieces))
