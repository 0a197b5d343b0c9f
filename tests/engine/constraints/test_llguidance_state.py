"""The mask is compared with what a plain reading of the text says; ends, rollbacks and copies are exact."""

from collections.abc import Callable

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.call_grammar import ControlToken, ToolCallBranch, tool_call_grammar
from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.grammar import grammar
from sureact.constraints.guards.guarded_state import GuardedConstraint, GuardedState
from sureact.constraints.json_schema import json_schema
from sureact.constraints.llguidance_state import CompiledGrammar
from sureact.constraints.regex import regex
from sureact.constraints.schema.keywords import Schema
from sureact.constraints.token_bitmask import allocate_token_bitmask, num_bitmask_words, read_token_ids
from sureact.errors import ConstraintStateError
from sureact.tokens.vocabulary import Vocabulary

StateOf = Callable[..., ConstraintState]
EOS_ID, CONTROL_ID = 256, 257

texts = st.text("abc\n\"'é娃 ", min_size=1, max_size=4)
leaf_schemas: st.SearchStrategy[Schema] = st.sampled_from(
    [
        {"type": "integer", "minimum": -3, "maximum": 12},
        {"type": "number"},
        {"enum": ["a", "ab", 1, None, 'q"']},
        {"type": "string", "maxLength": 2},
        {"type": "boolean"},
        {"type": "string", "format": "date"},
        {"pattern": "^ab?c$", "type": "string"},
    ]
)


def array_of(items: Schema) -> Schema:
    return {"type": "array", "items": items, "maxItems": 2}


def union_of(left: Schema, right: Schema) -> Schema:
    return {"anyOf": [left, right]}


def object_of(optional: Schema, required: Schema) -> Schema:
    return {"type": "object", "properties": {"a": optional, "b": required}, "required": ["b"]}


def composed(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(st.builds(array_of, inner), st.builds(union_of, inner, inner), st.builds(object_of, inner, inner))


def closed(schema: Schema) -> Constraint:
    return json_schema(schema, additional_properties="closed")


schemas = st.recursive(leaf_schemas, composed, max_leaves=4)
constraints = st.one_of(
    st.builds(closed, schemas),
    st.sampled_from([regex(pattern) for pattern in ("(ab)*c?", "[^a]{1,3}", "a+|b|", r"\d{1,2}", "(?s:.)é?")]),
    st.builds(choice, st.lists(texts, min_size=1, max_size=4)),
)


def mask_of(state: ConstraintState, num_logits: int) -> list[int]:
    bitmask = allocate_token_bitmask(1, num_logits)
    state.fill_bitmask(bitmask, 0)
    return read_token_ids(bitmask, 0)


def assert_mask(state: ConstraintState, num_logits: int, expected: list[int]) -> None:
    """The mask is `expected`; where the text is forced, the canonical token out of it."""
    forced = state.forced_tokens()[:1]
    assert set(forced) <= set(expected)
    assert mask_of(state, num_logits) == (forced or expected)


def walk(state: ConstraintState, num_logits: int, draws: list[int]) -> list[int]:
    """Accept one allowed token per draw, until an end."""
    accepted: list[int] = []
    for draw in draws:
        allowed = [token_id for token_id in mask_of(state, num_logits) if state.check_token(token_id)]
        accepted.append(allowed[draw % len(allowed)])
        state.accept_token(accepted[-1])
        if accepted[-1] == EOS_ID:
            break
    return accepted


@given(
    st.lists(texts, min_size=1, max_size=5), st.sampled_from([None, "\n", "ab"]), st.lists(st.integers(0), max_size=8)
)
def test_the_mask_of_a_choice_is_what_brute_force_finds(
    vocabulary: Vocabulary, items: list[str], delimiter: str | None, draws: list[int]
) -> None:
    constraint = choice(items, delimiter)
    whole = {(item + (delimiter or "")).encode() for item in items}
    state = constraint.compile(vocabulary).new_state()
    text = b""
    for draw in draws:
        expected = [
            token_id
            for token_id, token in enumerate(vocabulary.token_bytes)
            if token and any(candidate.startswith(text + token) for candidate in whole)
        ]
        expected = sorted(expected + [EOS_ID] * (text in whole))
        assert_mask(state, vocabulary.num_logits, expected)
        token_id = expected[draw % len(expected)]
        state.accept_token(token_id)
        if token_id == EOS_ID:
            break
        text += vocabulary.token_bytes[token_id]


@given(constraints, st.lists(st.integers(0), max_size=12))
def test_the_mask_is_what_single_bytes_find(vocabulary: Vocabulary, constraint: Constraint, draws: list[int]) -> None:
    """A longer token is allowed exactly when its bytes are, one after the other."""
    state = constraint.compile(vocabulary).new_state()
    if EOS_ID in walk(state, vocabulary.num_logits, draws):
        return
    expected = [EOS_ID] * state.is_accepting
    for token_id, token in enumerate(vocabulary.token_bytes):
        fork = state.fork()
        is_viable = bool(token)
        for byte in token:
            is_viable = is_viable and fork.check_token(byte)
            if is_viable:
                fork.accept_token(byte)
        expected += [token_id] * is_viable
    if isinstance(state, GuardedState):  # its mask is a superset, and `check_token` the last word
        assert set(mask_of(state, vocabulary.num_logits)) >= set(expected) or state.forced_tokens()
    else:
        assert_mask(state, vocabulary.num_logits, sorted(expected))
    assert [token_id for token_id in range(vocabulary.num_logits) if state.check_token(token_id)] == sorted(expected)


@given(constraints, st.lists(st.integers(0), max_size=8), st.lists(st.integers(0), min_size=1, max_size=6))
def test_accepting_and_rolling_back_is_identity(
    vocabulary: Vocabulary, constraint: Constraint, before: list[int], after: list[int]
) -> None:
    state = constraint.compile(vocabulary).new_state()
    if EOS_ID in walk(state, vocabulary.num_logits, before):
        return
    mask, forced = mask_of(state, vocabulary.num_logits), state.forced_tokens()
    accepting, terminated = state.is_accepting, state.is_terminated
    accepted = walk(state, vocabulary.num_logits, after)
    state.rollback(len(accepted))
    assert mask_of(state, vocabulary.num_logits) == mask
    assert state.forced_tokens() == forced
    assert (state.is_accepting, state.is_terminated) == (accepting, terminated)


@given(constraints, st.lists(st.integers(0), max_size=60))
def test_every_text_that_the_mask_can_spell_is_judged_valid(
    vocabulary: Vocabulary, constraint: Constraint, draws: list[int]
) -> None:
    state = constraint.compile(vocabulary).new_state()
    accepted = walk(state, vocabulary.num_logits, draws)
    if state.is_accepting:
        constraint.parse(b"".join(vocabulary.token_bytes[token_id] for token_id in accepted).decode())


@pytest.mark.parametrize(("pattern", "text"), [("ab", "ab"), ("ab?", "a"), ("ab?", "ab")])
def test_rolling_back_over_an_end_is_exact(pattern: str, text: str, state_of: StateOf) -> None:
    """llguidance forgets to record an end that follows a complete text; a rollback would take a character too."""
    state = state_of(regex(pattern), text)
    terminated = state.is_terminated
    state.accept_token(EOS_ID)
    assert state.is_terminated
    state.rollback(1)
    assert state.is_terminated is terminated
    assert state.is_accepting
    state.rollback(len(text))
    assert not state.is_accepting
    assert state.check_token(ord("a"))


def test_after_the_end_only_ends_are_legal(state_of: StateOf, vocabulary: Vocabulary) -> None:
    state = state_of(regex("a*"), "a")
    state.accept_token(EOS_ID)
    assert mask_of(state, vocabulary.num_logits) == [EOS_ID]
    assert not state.check_token(ord("a"))
    assert state.forced_tokens() == []
    with pytest.raises(ConstraintStateError):
        state.accept_token(ord("a"))


def test_a_complete_text_allows_only_the_end(state_of: StateOf, vocabulary: Vocabulary) -> None:
    state = state_of(json_schema({"type": "boolean"}), "true")
    assert state.is_terminated
    assert mask_of(state, vocabulary.num_logits) == [EOS_ID]


def test_an_illegal_token_raises_and_names_itself(state_of: StateOf) -> None:
    with pytest.raises(ConstraintStateError, match=r"98 b'b' is not legal"):
        state_of(regex("a")).accept_token(ord("b"))
    for token_id in (EOS_ID, CONTROL_ID, 258, -1, 10_000):
        state = state_of(regex("a"))
        assert not state.check_token(token_id)
        with pytest.raises(ConstraintStateError):
            state.accept_token(token_id)


def test_a_text_that_no_token_can_continue_raises(vocabulary: Vocabulary) -> None:
    narrow = Vocabulary(
        token_bytes=(b"a", b""),
        control_ids=frozenset({1}),
        unused_ids=frozenset(),
        eos_ids=(1,),
        tokenizer_json=None,
        fingerprint="only a",
    )
    state = choice(["ab"]).compile(narrow).new_state()
    assert mask_of(state, 2) == [0]
    state.accept_token(0)
    with pytest.raises(ConstraintStateError, match="No token"):
        mask_of(state, 2)


@pytest.mark.parametrize(
    "bitmask",
    [
        torch.zeros(1, 8, dtype=torch.int32),
        torch.zeros(1, 9, dtype=torch.int64),
        torch.zeros(1, 18, dtype=torch.int32)[:, ::2],
    ],
)
def test_a_bitmask_of_another_shape_is_refused(bitmask: torch.Tensor, state_of: StateOf) -> None:
    with pytest.raises(ConstraintStateError, match="bitmask row"):
        state_of(regex("a")).fill_bitmask(bitmask, 0)


def test_more_than_was_accepted_cannot_be_undone(state_of: StateOf) -> None:
    state = state_of(regex("a*"), "aa")
    with pytest.raises(ConstraintStateError, match="Cannot undo 3"):
        state.rollback(3)


def test_a_fork_goes_its_own_way(state_of: StateOf, vocabulary: Vocabulary) -> None:
    state = state_of(regex("ab*c"), "a")
    fork = state.fork()
    fork.accept_token(ord("c"))
    assert fork.is_terminated
    assert not state.is_terminated
    fork.rollback(2)
    assert mask_of(fork, vocabulary.num_logits) == [ord("a"), 260, 261]


def test_what_the_grammar_forces_is_given_and_nothing_past_a_choice(state_of: StateOf, vocabulary: Vocabulary) -> None:
    schema = {"type": "object", "properties": {"ab": {"type": "integer"}}, "required": ["ab"]}
    forced = state_of(json_schema(schema, additional_properties="closed")).forced_tokens()
    assert forced
    assert b'{"ab": '.startswith(b"".join(vocabulary.token_bytes[token_id] for token_id in forced))
    assert state_of(regex("a|b")).forced_tokens() == []


def test_text_in_a_json_string_holds_no_control_token(named_vocabulary: Vocabulary) -> None:
    state = json_schema({"type": "string"}).compile(named_vocabulary).new_state()
    for byte in b'"<tool_call>':  # as text it may be spelled out
        state.accept_token(byte)
    assert set(mask_of(state, named_vocabulary.num_logits)).isdisjoint(range(256, 262))


def test_a_control_token_is_legal_where_a_grammar_names_it(named_vocabulary: Vocabulary) -> None:
    state = grammar('start: <tool_call> "a" <[258]>').compile(named_vocabulary).new_state()
    for token_id in (257, ord("a"), 258):
        assert mask_of(state, named_vocabulary.num_logits) == [token_id]
        state.accept_token(token_id)
    assert state.is_terminated


@pytest.mark.parametrize(
    "constraint",
    [
        json_schema({}),
        json_schema({"type": "string"}),
        json_schema({}, whitespace="any"),
        regex("(?s:.*)"),
        regex("[^q]*"),
        grammar("start: /(?s:.*)/"),
        grammar('start: %json {} "x"'),
    ],
)
def test_no_mask_holds_a_control_or_unused_id_but_ends_where_the_text_may_end(
    constraint: Constraint, named_vocabulary: Vocabulary
) -> None:
    """Nothing is taken out of llguidance's mask: the ids are marked in its vocabulary."""
    compiled = constraint.compile(named_vocabulary)
    grammar_alone = compiled.grammar if isinstance(compiled, GuardedConstraint) else compiled
    assert isinstance(grammar_alone, CompiledGrammar)
    assert grammar_alone.legal_words is None
    state = grammar_alone.new_state()
    for byte in (None, *b'"<tool_call>[TOOL]"'):
        if byte is not None:
            state.accept_token(byte)
        allowed = set(mask_of(state, 32 * num_bitmask_words(named_vocabulary.num_logits)))
        assert allowed.isdisjoint(range(257, 288))
        assert (256 in allowed) is state.is_accepting


def test_a_literal_that_spells_a_control_token_is_written_as_text(named_vocabulary: Vocabulary) -> None:
    state = choice(["x<tool_call>[TOOL]<|im_end|>"]).compile(named_vocabulary).new_state()
    written: list[int] = []
    while not state.is_terminated:
        assert mask_of(state, named_vocabulary.num_logits) == state.forced_tokens()[:1]
        written += state.forced_tokens()[:1]
        state.accept_token(written[-1])
    assert bytes(written) == b"x<tool_call>[TOOL]<|im_end|>"


def test_an_end_that_is_an_entry_like_others_is_offered_only_where_the_text_may_end() -> None:
    text_end = Vocabulary(
        token_bytes=(b"a", b"</s>", *(bytes([byte]) for byte in b"</s>")),
        control_ids=frozenset(),
        unused_ids=frozenset(),
        eos_ids=(1,),
        tokenizer_json=None,
        fingerprint="an end with a text",
    )
    state = regex("a[</s>]*a").compile(text_end).new_state()
    state.accept_token(0)
    assert mask_of(state, 6) == [0, 2, 3, 4, 5]
    state.accept_token(0)
    assert mask_of(state, 6) == [1]


@pytest.mark.parametrize("named", ["<[^97]>", "<[*]>", "<[250-261]>"])
def test_an_unused_id_is_illegal_even_where_a_grammar_names_it(named: str, named_vocabulary: Vocabulary) -> None:
    state = grammar(f'start: {named} "a"').compile(named_vocabulary).new_state()
    allowed = mask_of(state, named_vocabulary.num_logits)
    assert 250 in allowed
    assert {260, 261}.isdisjoint(allowed)
    assert not state.check_token(260)


@pytest.mark.model
def test_a_real_vocabulary_keeps_control_and_unused_tokens_out_of_strings(real_vocabulary: Vocabulary) -> None:
    state = json_schema({"type": "string"}).compile(real_vocabulary).new_state()
    state.accept_token(real_vocabulary.token_bytes.index(b'"'))
    allowed = set(mask_of(state, real_vocabulary.num_logits))
    assert len(allowed) > 100_000
    assert allowed.isdisjoint(real_vocabulary.control_ids | real_vocabulary.unused_ids)


@pytest.mark.model
def test_a_real_vocabulary_is_read_alike_by_llguidance_and_by_us(real_vocabulary: Vocabulary) -> None:
    """The bytes of each allowed first token of a choice are a beginning of one of the items."""
    items = ["search", "search_web", "娃娃领", "naïve “quote”\n"]
    whole = [item.encode() for item in items]
    expected = [
        token_id
        for token_id, token in enumerate(real_vocabulary.token_bytes)
        if token and any(item.startswith(token) for item in whole)
    ]
    assert mask_of(choice(items).compile(real_vocabulary).new_state(), real_vocabulary.num_logits) == expected


@pytest.mark.model
def test_a_forced_call_is_the_canonical_tokenization(real_vocabulary: Vocabulary) -> None:
    call = tool_call_grammar(
        [ToolCallBranch("now", {"type": "object", "properties": {}})],
        prefix=(ControlToken("<tool_call>"), '\n{"name": "'),
        delimiter='", "arguments": ',
        suffix=("}\n", ControlToken("</tool_call>")),
    )
    state = call.compile(real_vocabulary).new_state()
    token_ids: list[int] = []
    while not state.is_terminated:
        forced = state.forced_tokens() or mask_of(state, real_vocabulary.num_logits)
        assert forced
        for token_id in forced:
            state.accept_token(token_id)
        token_ids += forced
    text = b"".join(real_vocabulary.token_bytes[token_id] for token_id in token_ids).decode()
    assert call.parse(text) == ("now", {})
    backend = tokenizers.Tokenizer.from_str(real_vocabulary.tokenizer_json or "")
    assert backend.encode(f"<tool_call>{text}</tool_call>", add_special_tokens=False).ids == token_ids


@pytest.mark.model
def test_a_real_vocabulary_offers_exactly_its_text_tokens_where_any_text_may_follow(
    real_vocabulary: Vocabulary,
) -> None:
    def is_text(token: bytes) -> bool:
        """Whether whole characters can be written with `token` after nothing."""
        try:
            token.decode()
        except UnicodeDecodeError as error:
            return error.end == len(token) and error.reason == "unexpected end of data"
        return bool(token)

    state = regex("(?s:.*)").compile(real_vocabulary).new_state()
    allowed = mask_of(state, 32 * num_bitmask_words(real_vocabulary.num_logits))
    text_ids = [token_id for token_id, token in enumerate(real_vocabulary.token_bytes) if is_text(token)]
    assert allowed == sorted({*text_ids, *real_vocabulary.eos_ids})
