from collections.abc import Callable

import pytest

from sureact.constraints.constraint import Constraint
from sureact.constraints.grammar import grammar
from sureact.errors import ConfigError, ConstraintCompileError
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


def test_a_finished_text_is_the_value() -> None:
    assert grammar(ARITHMETIC).parse("1+2") == "1+2"


@pytest.mark.parametrize("text", ["start: missing", 'begin: "a"', "start: (", 'start: <no_such_token> "a"'])
def test_a_broken_grammar_is_refused_with_the_reason(text: str, vocabulary: Vocabulary) -> None:
    with pytest.raises(ConstraintCompileError, match="The grammar cannot be used"):
        grammar(text).compile(vocabulary)


@pytest.mark.parametrize("text", ["", " \n"])
def test_an_empty_grammar_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        grammar(text)
