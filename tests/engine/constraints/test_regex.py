import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.constraints.constraint import Constraint
from sureact.constraints.regex import regex
from sureact.errors import ConfigError, ConstraintCompileError, InternalError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]

patterns = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^a]", r"\d", "é", r"\.", "/", '"', " "]),
    lambda inner: st.one_of(
        st.builds("({})*".format, inner),
        st.builds("({})?".format, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("{}{}".format, inner, inner),
        st.builds("({}){{1,2}}".format, inner),
    ),
    max_leaves=5,
)


@given(patterns, st.text('ab1é./" \n', max_size=5))
def test_a_text_is_spelled_exactly_when_python_matches_it_in_full(spells: Spells, pattern: str, text: str) -> None:
    constraint = regex(pattern)
    matches = re.fullmatch(pattern, text, re.ASCII) is not None
    assert spells(constraint, text) is matches
    if matches:
        assert constraint.parse(text) == text
    else:
        with pytest.raises(InternalError):
            constraint.parse(text)


@pytest.mark.parametrize("pattern", ["^ab$", "ab$", "^ab", r"\Aab\Z", r"\Aab\z", "^(?:ab)$"])
def test_anchors_at_the_ends_change_nothing(pattern: str, spells: Spells) -> None:
    assert spells(regex(pattern), "ab")
    assert not spells(regex(pattern), "xab")
    assert not spells(regex(pattern), "ab\n")


def test_an_escaped_backslash_before_z_is_no_anchor(spells: Spells) -> None:
    assert spells(regex(r"a\\Z"), "a\\Z")


def test_digits_are_ascii_and_words_are_unicode(spells: Spells) -> None:
    assert not spells(regex(r"\d"), "٣")
    assert not spells(regex(r"[\d]"), "٣")
    assert spells(regex(r"\w+"), "né")


@pytest.mark.parametrize(
    ("pattern", "valid", "invalid"),
    [
        ("(?i)añb", ["AÑB", "añb"], ["anb"]),
        ("a(?i:b)c", ["aBc"], ["aBC"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        ("a||b", ["", "a", "b"], ["ab"]),
        ("(|a)b", ["b", "ab"], ["a"]),
        ("", [""], ["a"]),
        ("^a|b$", ["a", "b"], ["ab"]),
        ("(^a$|^b$)", ["a", "b"], ["ab"]),
        (r"\p{Greek}+", ["αβ"], ["a"]),
        (r"[[:alpha:]_]", ["a", "_"], ["1"]),
        ("[🙂-🙄]+", ["🙃🙃"], ["a"]),
        (r"\x41\u0042\U00000043\x00", ["ABC\0"], ["ABC"]),
        ("[\x00-\u2e7f]+", ["a\0é"], ["🙂"]),
        (r"[^\S\n]\W\D", [" -a"], ["\n-a", " a1"]),
        (r"[]\-a]\/\"\'\#", ["]/\"'#"], [" "]),
        (r"(?P<year>\d{4})(?<half>[12])", ["20242"], ["20243"]),
        (r"[\[&\&]", ["[", "&"], ["a"]),
        ("a{1000}", ["a" * 1000], ["a" * 999, "a" * 1001]),
        ("(ab|cd){0,1000}", ["", "cd" * 1000], ["ab" * 1001]),
    ],
)
def test_what_a_pattern_writes_is_what_python_means(
    pattern: str, valid: list[str], invalid: list[str], spells: Spells
) -> None:
    constraint = regex(pattern)
    for text in valid:
        assert spells(constraint, text)
        assert constraint.parse(text) == text
    assert not any(spells(constraint, text) for text in invalid)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(a*)*", "((a?){50}a{50})+"])
def test_a_pattern_that_makes_backtracking_explode_is_linear_here(pattern: str, spells: Spells) -> None:
    constraint = regex(pattern)
    assert spells(constraint, "a" * 2000)
    assert not spells(constraint, "a" * 2000 + "b")
    assert constraint.parse("a" * 20_000)
    with pytest.raises(InternalError):
        constraint.parse("a" * 20_000 + "b")


@pytest.mark.parametrize("pattern", [r"[^\s\S]", r"a[^\x00-\U0010FFFF]"])
def test_a_pattern_that_matches_nothing_is_refused(pattern: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="matches no text at all"):
        regex(pattern).compile(vocabulary)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("(?=a)b", "looks around"),
        ("(?<!a)b", "looks around"),
        (r"(a)\1", "backreference"),
        (r"\bfoo", r"\b and \B ask"),
        ("a$b", "an anchor"),
        ("a^b", "an anchor"),
        ("(?m)^a$", "(?m) lets"),
        ("(", "unclosed group"),
        ("a{2,1}", "repetition"),
        (r"\ud800", "not a Unicode scalar value"),
    ],
)
def test_what_no_automaton_can_do_is_named(pattern: str, named: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError) as caught:
        regex(pattern).compile(vocabulary)
    assert named in str(caught.value)
    assert repr(pattern) in str(caught.value)


@pytest.mark.parametrize("pattern", ["[[a]]", "[a&&b]", "[+--]", "[~~]", "(?x) a b", "(?ix:a)"])
def test_what_dialects_read_in_different_ways_is_refused(pattern: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match=r"holds|sets the flag"):
        regex(pattern).compile(vocabulary)


@pytest.mark.parametrize("pattern", ["a**", "a++b", "a?+", "a{2}{3}", "a+??"])
def test_the_repeat_of_a_repeat_is_refused(pattern: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="the repeat of a repeat"):
        regex(pattern).compile(vocabulary)


@pytest.mark.parametrize("pattern", ["(a{1,100}){1,100}", "(([ab]{1,20}){1,20}){1,20}", "a{1000000}"])
def test_counts_that_no_long_text_can_be_followed_through_are_refused(pattern: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="too much to be followed"):
        regex(pattern).compile(vocabulary)


@pytest.mark.parametrize("pattern", [re.compile("a"), "\ud800"])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigError):
        regex(pattern)
