import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.schema.ecma_pattern import pattern_parts, whole_text_pattern
from sureact.constraints.schema.text_tests import PatternReader, pattern_error, pattern_matches


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        (r"^\<a\>$", ["<a>"], ["a"]),
        (r"^a\_b$", ["a_b"], ["a\\_b"]),
        (r"^\0$", ["\0"], ["0"]),
        (r"^\cJ$", ["\n"], ["cJ", "J"]),
        (r"^\p{L}{2}$", ["éa"], ["é"]),
        (r"^\${a}$", ["${a}"], ["$a"]),
        (r"^a{2}$", ["aa"], ["a{2}", "aaa"]),
        (r"^[[a]$", ["[", "a"], ["]", "[a"]),
        (r"^[a&&b]$", ["a", "&", "b"], ["ab"]),
        (r"^[a~~b]$", ["a", "~", "b"], []),
        (r"^[^]$", ["a", "\n"], ["", "ab"]),
        (r"^[\]a]$", ["]", "a"], ["\\"]),
        (r"^(?!ab)[a-z]+$", ["a", "ba", "b"], ["ab", "abc", ""]),
        (r"^(?=.*\d)(?=.*[a-z])(?!.*\s).{3,}$", ["a12", "12a4"], ["abc", "123", "a 1", "a1"]),
        (r"^(?!a)", ["", "b"], ["a", "ab"]),
        (r"^(?!a|b)c?", ["c", ""], ["a", "b"]),
        (r"^(?![(]a)b?", ["b", "a"], ["(a"]),
    ],
)
def test_patterns_mean_what_ecma_262_says(pattern: str, matching: list[str], other: list[str]) -> None:
    assert pattern_error(pattern) == ""
    assert [text for text in matching if not pattern_matches(pattern, text)] == []
    assert [text for text in other if pattern_matches(pattern, text)] == []


def test_a_lookahead_of_one_branch_is_not_taken_for_the_whole() -> None:
    assert pattern_parts("^(?!a)b|c").required == ("^(?!a)b|c",)
    assert pattern_error("^(?!a)b|c")


@pytest.mark.parametrize("pattern", [r"a(?=b)", r"(a)\1", r"^(?!a)b(?!c)", r"\bword"])
def test_what_no_automaton_can_do_is_still_refused(pattern: str) -> None:
    assert pattern_error(pattern)


BRANCHES = (
    "a",
    "^a",
    "a$",
    "^$",
    "",
    "^a|b$",
    "a|^",
    "[|]a",
    r"a\|b$",
    r"^\^",
    r"\$$",
    "[$]",
    "[(]|b$",
    "^a{2}$",
    "^.",
)
GROUPS = (
    "(^a|b$)",
    "^(a|b)$",
    "(a)(b)",
    "(?:a|^b)",
    "(?P<n>a$)",
    "(a)?$",
    "((a$)|^b)",
    "a|(^b|(b$))",
    "(^|b)a(|b$)",
    "(?:^a|b)(?:^|a$)",
)


@given(st.sampled_from(BRANCHES + GROUPS), st.text("ab|^$(", max_size=5))
def test_a_pattern_for_whole_texts_matches_where_the_other_occurs(pattern: str, text: str) -> None:
    assert (re.fullmatch(whole_text_pattern(pattern), text) is None) == (re.search(pattern, text) is None)


def test_what_stands_around_a_pattern_may_be_anything_and_its_own_dot_may_not() -> None:
    assert re.fullmatch(whole_text_pattern("a."), "\na.\n")
    assert not re.fullmatch(whole_text_pattern("a."), "\na\n")


@pytest.mark.parametrize("pattern", ["(^a)?b", "a^b", "(a$)b", "a(^b)c", "(^a)+", "(?:(?:^a)b|x$y)"])
def test_an_anchor_inside_stays_for_the_compiler_to_refuse(pattern: str) -> None:
    assert not {"^", "$"}.isdisjoint(whole_text_pattern(pattern))
    assert pattern_error(pattern)


def test_anchors_in_very_many_groups_are_left_as_they_are() -> None:
    assert len(whole_text_pattern("(^|a)" * 40)) < 100_000


@given(st.sampled_from([r"^(?!ab)[ab]*$", r"^(?=a)(?!aa)[ab]+", r"^(?!.*bb)a*b?a*$"]), st.text("ab", max_size=6))
def test_lookahead_at_the_start_agrees_with_a_backtracking_engine(pattern: str, text: str) -> None:
    expected = re.search(pattern, text) is not None
    assert pattern_matches(pattern, text) is expected
    reader = PatternReader(pattern)
    assert (all(map(reader.read, text)) and reader.end()) is expected
