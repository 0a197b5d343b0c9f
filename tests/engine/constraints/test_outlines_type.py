from collections.abc import Callable

import pytest
from outlines import Template, grammars
from outlines.types import CFG, Choice, JsonSchema, Regex, between, digit, either, exactly, optional
from pydantic import BaseModel

from sureact.constraints.constraint import Constraint
from sureact.constraints.outlines_type import is_outlines_type
from sureact.constraints.python_type import constraint_of
from sureact.errors import ConfigError

Spells = Callable[[Constraint, str], bool]


class Size(BaseModel):
    width: int


@pytest.mark.parametrize(
    ("term", "valid", "invalid"),
    [
        (Choice(["search", "search_web"]), "search_web", "search_"),
        (Regex("[0-9]+"), "12", "a"),
        (JsonSchema({"type": "integer", "minimum": 3}), "3", "2"),
        (CFG('start: "(" start ")" | "x"'), "((x))", "((x)"),
        (Regex("a") + optional("b"), "ab", "b"),
        (either("yes", Regex("no+")), "noo", "yesno"),
        (either('a\nb\t["é', "x"), 'a\nb\t["é', "a\nb"),
        (exactly(2, "ab"), "abab", "ab"),
        (between(1, 2, digit), "12", "123"),
        (JsonSchema(Size), '{"width": 1}', "{}"),
        (Choice([1, 2]), "2", "3"),
        (CFG(grammars.json), '{"a": [1, null]}', "{"),
        (CFG(grammars.arithmetic), "1+2*3", "1+"),
    ],
)
def test_an_outlines_type_means_what_it_means_there(term: object, valid: str, invalid: str, spells: Spells) -> None:
    assert is_outlines_type(term)
    constraint = constraint_of(term)
    assert spells(constraint, valid)
    assert not spells(constraint, invalid)


def test_other_types_are_not_taken_for_outlines_types() -> None:
    assert not any(map(is_outlines_type, [int, "outlines", choice_of_ours := constraint_of(int), type(choice_of_ours)]))


@pytest.mark.parametrize("term", [JsonSchema({}, whitespace_pattern=" *"), Template.from_string("a")])
def test_what_cannot_be_honored_is_refused(term: object) -> None:
    with pytest.raises(ConfigError):
        constraint_of(term)
