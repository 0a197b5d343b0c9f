"""What runs on is ended, what is ended is valid, and nothing depends on how the tokens came."""

import json
import random
import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureact.constraints.call_grammar import ToolCallBranch, tool_call_grammar
from sureact.constraints.closing_state import ClosingState
from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.early_end import declared_lengths
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.constraints.token_bitmask import allocate_token_bitmask, read_token_ids
from sureact.errors import ConstraintStateError
from sureact.outputs import EarlyEnd
from sureact.sampling_params import RunawayLimits
from sureact.tokens.vocabulary import Vocabulary

EOS_ID = 256
LIMITS = RunawayLimits()
SHORT = RunawayLimits(repeated_tokens=16, string_characters=30, number_characters=12, array_items=5)

_LEAVES = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 3},
        {"type": "string", "maxLength": 2},
        {"type": "integer", "minimum": 12},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"enum": ["red", "green", 3]},
        {"const": {"a": [1]}},
        {"type": "string", "format": "date"},
        {"type": "string", "pattern": "^[a-z]{2}-[0-9]+$"},
        {},
    ]
)


def _object(properties: dict[str, Any], required: set[str]) -> dict[str, Any]:
    names = [name for name in properties if name in required]
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def _array(items: Any, least: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": max(least, 0), "uniqueItems": least < 0}


def _any_of(one: Any, other: Any) -> dict[str, Any]:
    return {"anyOf": [one, other]}


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
    return st.one_of(
        st.builds(_object, members, st.sets(st.sampled_from("abc"))),
        st.builds(_array, inner, st.integers(-1, 2)),
        st.builds(_any_of, inner, inner),
    )


SCHEMAS = st.recursive(_LEAVES, _nested, max_leaves=5)


def closing(
    constraint: Constraint, vocabulary: Vocabulary, max_tokens: int | None = None, limits: RunawayLimits | None = None
) -> ClosingState:
    state = constraint.compile(vocabulary).new_state()
    lengths = declared_lengths(constraint.cache_key)
    return ClosingState(state, vocabulary, max_tokens=max_tokens, limits=limits, lengths=lengths)


def write(state: ConstraintState, text: str) -> int:
    """Write as much of a text as is legal, byte by byte; return how much that is."""
    for count, byte in enumerate(text.encode()):
        if not state.check_token(byte):
            return count
        state.accept_token(byte)
    return len(text.encode())


class Writer:
    """Writes as an engine does; what it likes depends on the text so far and a seed, and it likes to run on."""

    def __init__(self, state: ConstraintState, vocabulary: Vocabulary, seed: int, max_tokens: int) -> None:
        self.state, self.vocabulary, self.seed, self.max_tokens = state, vocabulary, seed, max_tokens
        self.ids: list[int] = []
        self.is_complete = False
        self.num_undone = 0

    @property
    def is_done(self) -> bool:
        return self.is_complete or len(self.ids) >= self.max_tokens

    @property
    def text(self) -> str:
        return b"".join(self.vocabulary.token_bytes[i] for i in self.ids).decode(errors="replace")

    def take(self, token_id: int) -> None:
        if token_id == EOS_ID:
            self.is_complete = True
            return
        self.state.accept_token(token_id)
        self.ids.append(token_id)
        self.is_complete = self.state.is_terminated

    def pick(self) -> None:
        bitmask = allocate_token_bitmask(1, self.vocabulary.num_logits)
        self.state.fill_bitmask(bitmask, 0)
        for token_id in self.in_order(read_token_ids(bitmask, 0)):
            if self.state.check_token(token_id):
                self.take(token_id)
                return
        self.num_undone += 1
        assert self.num_undone < 500, "it comes to dead ends again and again"
        self.state.mark_dead_end()
        self.state.rollback(1)
        self.ids.pop()

    def in_order(self, token_ids: Sequence[int]) -> list[int]:
        draws = random.Random(zlib.crc32(repr((self.seed, self.ids)).encode()))
        order = draws.sample(token_ids, len(token_ids))
        favorite = self.ids[-1] if self.ids and draws.random() < 0.8 else None
        return sorted(order, key=lambda i: (i != favorite, i == EOS_ID, i < 32 or 127 < i < 256))

    def write_all(self, *, forced: bool = False, drafts: bool = False) -> None:
        draws = random.Random(self.seed)
        while not self.is_done:
            if forced and (ids := self.state.forced_tokens()):
                for token_id in ids:
                    if not self.is_done:
                        self.take(token_id)
                continue
            if drafts:
                self.guess(draws)
            self.pick()

    def guess(self, draws: random.Random) -> None:
        """Try a draft, as an engine does, and go back."""
        last = self.ids[-1] if self.ids else 34
        draft = [draws.choice([last, last, 34, 48, 125]) for _ in range(draws.randrange(12))]
        count = self.state.accept_tokens(draft)
        self.state.rollback(count)
        fork = self.state.fork()
        for token_id in draft[:count]:
            assert fork.check_token(token_id)
            fork.accept_token(token_id)


@settings(max_examples=25)
@given(schema=SCHEMAS, seed=st.integers(0, 1 << 20), max_tokens=st.integers(1, 150), is_limited=st.booleans())
def test_forced_text_and_drafts_change_nothing(
    vocabulary: Vocabulary, schema: Any, seed: int, max_tokens: int, is_limited: bool
) -> None:
    constraint = json_schema(schema)
    outcomes: list[tuple[Any, ...]] = []
    for forced, drafts in ((False, False), (True, False), (False, True), (True, True)):
        state = closing(constraint, vocabulary, max_tokens, SHORT if is_limited else None)
        writer = Writer(state, vocabulary, seed, max_tokens)
        writer.write_all(forced=forced, drafts=drafts)
        outcomes.append((writer.ids, writer.is_complete, state.early_ends))
    assert outcomes == outcomes[:1] * 4


@settings(max_examples=60)
@given(schema=SCHEMAS, seed=st.integers(0, 1 << 20), max_tokens=st.integers(1, 200), is_limited=st.booleans())
def test_a_budget_is_kept_by_a_valid_value_or_the_text_says_that_it_is_not_complete(
    vocabulary: Vocabulary, schema: Any, seed: int, max_tokens: int, is_limited: bool
) -> None:
    constraint = json_schema(schema)
    writer = Writer(
        closing(constraint, vocabulary, max_tokens, SHORT if is_limited else None), vocabulary, seed, max_tokens
    )
    writer.write_all(forced=True)
    assert len(writer.ids) <= max_tokens
    if writer.is_complete:
        constraint.parse(writer.text)
    elif "'uniqueItems': True" not in str(schema):  # `[0e1, 0e12...` never becomes another number than the first
        assert max_tokens < 64, f"{schema} was not ended within {max_tokens} tokens: {writer.text}"


@settings(max_examples=20)
@given(schema=SCHEMAS, seed=st.integers(0, 1 << 20), num_undone=st.integers(0, 40), max_tokens=st.integers(20, 90))
def test_rollback_restores_every_fact(
    vocabulary: Vocabulary, schema: Any, seed: int, num_undone: int, max_tokens: int
) -> None:
    state = closing(json_schema(schema), vocabulary, max_tokens, SHORT)
    writer = Writer(state, vocabulary, seed, max_tokens)
    passed: list[tuple[Any, ...]] = []
    while not writer.is_done and not writer.num_undone:
        passed.append(facts(state))
        writer.pick()
    if writer.num_undone:
        return  # what was marked as dead is known for good
    passed.append(facts(state))
    num_undone = min(num_undone, len(writer.ids))
    state.rollback(num_undone)
    assert facts(state) == passed[len(writer.ids) - num_undone]


def facts(state: ClosingState) -> tuple[Any, ...]:
    legal = tuple(token_id for token_id in range(270) if state.check_token(token_id))
    return (legal, state.is_accepting, state.is_terminated, state.forced_tokens(), state.early_ends)


OBJECT = json_schema(
    {
        "type": "object",
        "properties": {"id": {"type": "string"}, "n": {"type": "number"}, "l": {"type": "array"}},
        "required": ["id", "n"],
        "additionalProperties": False,
    }
)


def test_a_string_that_repeats_itself_ends_and_the_rest_is_the_models_choice(vocabulary: Vocabulary) -> None:
    state = closing(OBJECT, vocabulary, limits=LIMITS)
    start = '{"id": "D1'
    written = write(state, start + "0" * 500)
    assert 96 <= written - len(start) <= 96 + 8
    assert not state.check_token(ord("a"))
    assert write(state, '", "n": 1}') == 10
    assert state.is_terminated
    assert state.early_ends == (EarlyEnd("repetition", written, "/id"),)


def test_a_number_ends_after_forty_digits(vocabulary: Vocabulary) -> None:
    state = closing(OBJECT, vocabulary, limits=LIMITS)
    start = '{"id": "", "n": '
    written = write(state, start + "12345678901234567890" * 5)
    assert 40 < written - len(start) <= 40 + 8
    assert write(state, "}") == 1
    assert [(end.reason, end.pointer) for end in state.early_ends] == [("number_length", "/n")]


def test_a_number_of_twenty_digits_is_left_alone(vocabulary: Vocabulary) -> None:
    state = closing(OBJECT, vocabulary, limits=LIMITS)
    text = '{"id": "' + "-" * 80 + '", "n": ' + "1" + "0" * 19 + "}"
    assert write(state, text) == len(text)
    assert state.early_ends == ()


def finished(state: ClosingState, vocabulary: Vocabulary, text: str) -> str:
    """Write what must come after a text."""
    while ids := state.forced_tokens():
        for token_id in ids:
            state.accept_token(token_id)
        text += b"".join(vocabulary.token_bytes[i] for i in ids).decode()
    return text


def test_an_array_that_repeats_its_items_ends_as_a_whole(vocabulary: Vocabulary) -> None:
    state = closing(OBJECT, vocabulary, limits=LIMITS)
    text = '{"id": "", "n": 1, "l": [' + '{"a": "bcd"}, ' * 40
    text = text[: write(state, text)]
    (end,) = state.early_ends
    assert (end.reason, end.pointer) == ("repetition", "/l")
    OBJECT.parse(finished(state, vocabulary, text))
    assert state.is_terminated


def test_brackets_without_end_are_closed(vocabulary: Vocabulary) -> None:
    state = closing(json_schema({}), vocabulary, limits=LIMITS)
    text = "[" * write(state, "[" * 300)
    assert len(text) < 110
    json.loads(finished(state, vocabulary, text))
    assert state.is_terminated
    assert state.early_ends[0].pointer == ""


def test_a_string_longer_than_its_limit_ends_and_a_longer_length_of_the_schema_holds(vocabulary: Vocabulary) -> None:
    letters = "".join(random.Random(1).choices("abcdefgh", k=200))
    limits = RunawayLimits(repeated_tokens=None, string_characters=50)
    state = closing(OBJECT, vocabulary, limits=limits)
    assert 50 <= write(state, '{"id": "' + letters) - 8 <= 58
    assert state.early_ends[0].reason == "string_length"
    longer = json_schema({"type": "string", "maxLength": 120})
    assert write(closing(longer, vocabulary, limits=limits), '"' + letters) == 121


def test_a_call_is_closed_inside_its_arguments(vocabulary: Vocabulary) -> None:
    tools = [ToolCallBranch("find", {"properties": {"q": {"type": "string"}}, "required": ["q"]})]
    call = tool_call_grammar(tools, prefix="Action: ", delimiter="\nAction Input: ", suffix="\n")
    state = closing(call, vocabulary, limits=LIMITS)
    write(state, 'Action: find\nAction Input: {"q": "' + "no " * 100)
    assert [(end.reason, end.pointer) for end in state.early_ends] == [("repetition", "/q")]
    assert write(state, '"}\n') == 3
    assert state.is_terminated


def test_a_closing_in_the_middle_of_an_escape_or_a_character_is_valid(vocabulary: Vocabulary) -> None:
    for start in (b"\\", b"\\u00", "é".encode()[:1]):
        state = closing(json_schema({"type": "string"}), vocabulary, max_tokens=40)
        writer = Writer(state, vocabulary, 3, 40)
        for byte in b'"' + b"x" * 27 + start:
            writer.take(byte)
        writer.write_all()
        assert writer.is_complete
        json.loads(writer.text)


def test_other_constraints_are_closed_too(vocabulary: Vocabulary) -> None:
    pattern = regex("[0-9]+ (abc|de)")
    state = closing(pattern, vocabulary, max_tokens=60)
    writer = Writer(state, vocabulary, 0, 60)
    while state.check_token(ord("7")):
        writer.take(ord("7"))
    writer.write_all()
    assert writer.is_complete
    pattern.parse(writer.text)
    assert state.early_ends[0].pointer is None


def test_a_value_that_no_budget_has_room_for_is_cut(vocabulary: Vocabulary) -> None:
    state = closing(json_schema({"const": "x" * 50}), vocabulary, max_tokens=20)
    writer = Writer(state, vocabulary, 0, 20)
    writer.write_all(forced=True)
    assert (writer.is_complete, len(writer.ids), state.early_ends) == (False, 20, ())


def test_a_token_that_is_not_legal_raises(vocabulary: Vocabulary) -> None:
    state = closing(OBJECT, vocabulary, limits=LIMITS)
    write(state, '{"id": "' + "0" * 200)
    with pytest.raises(ConstraintStateError, match="being ended"):
        state.accept_token(ord("0"))
