from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint, ConstraintState
from sureact.constraints.token_bitmask import allocate_token_bitmask, read_token_ids
from sureact.errors import ConfigError, InternalError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]
item_lists = st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6), min_size=1, max_size=6)


@given(item_lists)
def test_every_item_can_be_spelled_and_parsed(spells: Spells, items: list[str]) -> None:
    constraint = choice(items)
    for item in items:
        assert spells(constraint, item)
        assert constraint.parse(item) == item


@given(item_lists, st.text(st.characters(exclude_categories=["Cs"]), max_size=6))
def test_nothing_else_can_be_spelled(spells: Spells, items: list[str], text: str) -> None:
    assert spells(choice(items), text) is (text in items)


def test_an_item_that_is_the_start_of_another_is_told_apart_by_the_delimiter(spells: Spells) -> None:
    constraint = choice(["search", "search_web"], "\n")
    assert spells(constraint, "search\n")
    assert spells(constraint, "search_web\n")
    assert not spells(constraint, "search")
    assert constraint.parse("search\n") == "search"


def test_the_delimiter_may_be_part_of_an_item(spells: Spells) -> None:
    constraint = choice(["yes", "no\nplease"], "\n")
    assert spells(constraint, "no\nplease\n")
    assert not spells(constraint, "no\n")
    assert constraint.parse("no\nplease\n") == "no\nplease"


def test_thousands_of_items_are_fine(spells: Spells) -> None:
    constraint = choice([f"item {number}" for number in range(10_000)])
    assert spells(constraint, "item 9876")
    assert not spells(constraint, "item 10000")


def test_the_mask_among_thousands_of_items_holds_what_continues_one_of_them(
    state_of: Callable[..., ConstraintState], spells: Spells, vocabulary: Vocabulary
) -> None:
    items = [str(number) for number in range(9_999)]
    bitmask = allocate_token_bitmask(1, vocabulary.num_logits)
    state = state_of(choice(items), "998")
    state.fill_bitmask(bitmask, 0)
    end = b""
    digits = {b"%d" % digit for digit in range(10)}
    assert {vocabulary.token_bytes[token_id] for token_id in read_token_ids(bitmask, 0)} == {*digits, end}
    state.accept_token(ord("9"))
    assert state.is_accepting
    assert state.is_terminated
    assert not spells(choice(items), "9999")


def test_doubles_count_once() -> None:
    assert choice(["a", "b", "a"]) == choice(["a", "b"])


def test_the_delimiter_is_part_of_what_is_cached() -> None:
    keys = [choice(["a"]), choice(["a"], "\n"), choice(["a", "\n"]), choice(["a\n"])]
    assert len({constraint.cache_key for constraint in keys}) == 4


@pytest.mark.parametrize(
    ("items", "delimiter"), [([], None), ([""], None), (["a"], ""), ("ab", None), ([1], None), (["\ud800"], None)]
)
def test_what_is_no_choice_is_refused(items: list[str], delimiter: str | None) -> None:
    with pytest.raises(ConfigError):
        choice(items, delimiter)


@pytest.mark.parametrize("text", ["c", "a", "a\n\n", ""])
def test_a_finished_text_that_is_no_item_is_an_internal_error(text: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(InternalError):
        choice(["a", "b"], "\n").parse(text)
