from collections.abc import Callable

import pytest

from sureact.constraints.constraint import Constraint
from sureact.constraints.grammar import grammar
from sureact.errors import ConfigError, ConstraintCompileError, InternalError
from sureact.tokens.vocabulary import Vocabulary

Spells = Callable[[Constraint, str], bool]

ARITHMETIC = """\
start: term (("+" | "-") term)*
term: NUMBER | "(" start ")"
NUMBER: /[0-9]+/
"""


def test_a_recursive_language_can_be_spelled(spells: Spells) -> None:
    assert spells(grammar(ARITHMETIC), "(1+(23-4))+5")
    assert not spells(grammar(ARITHMETIC), "(1+2")
    assert not spells(grammar(ARITHMETIC), "1+2)")


def test_a_rule_may_be_a_json_schema(spells: Spells) -> None:
    constraint = grammar('start: "x=" value\nvalue: %json {"type": "integer"}\n')
    assert spells(constraint, "x=12")
    assert not spells(constraint, "x=a")


@pytest.mark.parametrize(
    ("text", "valid", "invalid"),
    [
        ("%import common.INT\nstart: INT", ["12"], ["a", ""]),
        ("%import common (INT, WORD)\nstart: INT WORD", ["1ab"], ["ab"]),
        ('%import common.WS\n%ignore WS\nstart: "a" ("," "a")*', ["a,a", "a , \n a"], ["a,"]),
        ("%import common.ESCAPED_STRING\nstart: ESCAPED_STRING", ['"a\\"b"'], ['"a']),
        ("start: A\nA: /abc/i", ["aBC"], ["abd"]),
        ('start: A\nA: "abc"i', ["ABc"], ["abd"]),
        ("start: A\nA: /a.c/s", ["a\nc"], ["ac"]),
        ('start: "(" start ")" |', ["", "(())"], ["(()"]),
        ('start: start "a" | "b"', ["baa"], ["a"]),
        ('start: e\ne: e "+" e | /[0-9]/', ["1+2+3"], ["1+"]),
        ('start: "a"+ "b"~2 "c"~1..2 ["d"] "e".."g"', ["abbce", "aabbccdg"], ["abce"]),
        ('?start: a // why\n!a: "x" -> alias\n', ["x"], ["a"]),
        ('start: "é" /[\\x00-\\x1f]/', ["é\0"], ["é "]),
    ],
)
def test_what_lark_writes_means_what_lark_says(text: str, valid: list[str], invalid: list[str], spells: Spells) -> None:
    constraint = grammar(text)
    for item in valid:
        assert spells(constraint, item)
        assert constraint.parse(item) == item
    for item in invalid:
        assert not spells(constraint, item)
        with pytest.raises(InternalError, match="does not match the grammar"):
            constraint.parse(item)


@pytest.mark.parametrize("reference", ["<tool_call>", "<[257]>"])
def test_a_control_token_has_no_text_to_judge(reference: str, named_vocabulary: Vocabulary) -> None:
    constraint = grammar(f'start: {reference} "a"')
    state = constraint.compile(named_vocabulary).new_state()
    assert not state.check_token(ord("a"))
    state.accept_token(257)
    state.accept_token(ord("a"))
    assert state.is_accepting
    assert constraint.parse("a") == "a"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("start: missing", "1(8)"),
        ('start: "a" a\na: (', "2(5)"),
        ('start: <no_such_token> "a"', "1(8)"),
        ("%import common.NOPE\nstart: NOPE", "1(1)"),
        ("start: A\nA: B\nB: A", "circular reference"),
        ("start: b\nb: /(?=a)b/", "2(4)"),
        ('begin: "a"', "no start rule"),
    ],
)
def test_a_broken_grammar_is_refused_with_the_reason_and_the_place(
    text: str, place: str, vocabulary: Vocabulary
) -> None:
    with pytest.raises(ConstraintCompileError) as caught:
        grammar(text).compile(vocabulary)
    assert str(caught.value).startswith("The grammar cannot be used")
    assert place in str(caught.value)


@pytest.mark.parametrize("text", ['start: a\na: a "x"', "start: /[^\\s\\S]/"])
def test_a_grammar_of_no_text_is_refused(text: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="no text at all"):
        grammar(text).compile(vocabulary)


@pytest.mark.parametrize("text", ["", " \n", 'start: "\ud800"'])
def test_what_is_no_grammar_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        grammar(text)
