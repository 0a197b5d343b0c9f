import pickle
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

import pytest

from sureact.constraints.call_grammar import ToolCallBranch, tool_call_grammar
from sureact.constraints.choice import choice
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.grammar import grammar
from sureact.constraints.json_schema import json_schema
from sureact.constraints.narrowed_call import narrowed_call
from sureact.constraints.python_type import constraint_of
from sureact.constraints.regex import regex
from sureact.errors import (
    ConfigError,
    ConstraintStateError,
    InternalError,
    PromptTooLongError,
    UnsupportedSchemaError,
)
from sureact.isolation.messages import pack_constraint, pack_failure, unpack_constraint, unpack_failure
from sureact.tokens.vocabulary import Vocabulary


class Color(Enum):
    RED = "red"


class HouseError(PromptTooLongError):
    """An error that the other side does not know."""


def add(a: int, b: int = 2) -> int:
    return a + b


NUMBER = {"properties": {"a": {"type": "integer"}}}
CALL = tool_call_grammar(
    [ToolCallBranch("add", NUMBER), ToolCallBranch("sub", NUMBER)], prefix="", delimiter="\n", suffix="\n"
)
CONSTRAINTS: tuple[Constraint, ...] = (
    json_schema({"type": "object", "properties": {"a": {"type": "integer"}}}, key_order="any", ensure_ascii=True),
    choice(["a", "b"], "\n"),
    regex("[a-c]+"),
    grammar('start: "a" | "b"'),
    CALL,
    narrowed_call(CALL, ["sub"]),
)


@dataclass(frozen=True)
class Judged(Constraint):
    """A constraint with a predicate of the user's."""

    length: int
    predicate: Callable[[str], bool]

    @property
    def cache_key(self) -> str:
        return str(self.length)

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        raise NotImplementedError


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=lambda c: type(c).__name__)
def test_a_constraint_crosses_as_what_it_was_made_of(constraint: Constraint) -> None:
    crossed = unpack_constraint(pack_constraint(constraint))
    assert crossed == constraint
    assert crossed is not None
    assert crossed.cache_key == constraint.cache_key


@pytest.mark.parametrize("python_type", [Literal["a", "b"], Color, list[int], add])
def test_of_a_python_type_only_the_constraint_on_its_text_crosses(python_type: Any) -> None:
    constraint = constraint_of(python_type)
    crossed = unpack_constraint(pack_constraint(constraint))
    assert crossed == constraint.inner  # pyright: ignore[reportAttributeAccessIssue]


def test_no_constraint_crosses_as_none() -> None:
    assert unpack_constraint(pack_constraint(None)) is None


def test_a_predicate_that_cannot_cross_is_named() -> None:
    with pytest.raises(ConfigError, match=r"'predicate' of Judged cannot be pickled.*json_schema"):
        pack_constraint(Judged(3, lambda text: len(text) > 3))


def test_a_constraint_that_cannot_be_imported_says_what_to_do() -> None:
    packed = pickle.dumps(Judged(3, bool)).replace(b"Judged", b"Absent")
    with pytest.raises(ConfigError, match="at the top of a module"):
        unpack_constraint(packed)


def raised(error: BaseException) -> BaseException:
    return unpack_failure(pickle.loads(pickle.dumps(pack_failure(error))))


def test_an_error_crosses_with_its_type_fields_and_notes() -> None:
    error = UnsupportedSchemaError("No.", keyword="uniqueItems", pointer="/a/uniqueItems")
    error.add_note("This was example 3.")
    crossed = raised(error)
    assert type(crossed) is UnsupportedSchemaError
    assert (str(crossed), crossed.keyword, crossed.pointer) == ("No.", "uniqueItems", "/a/uniqueItems")
    assert crossed.__notes__ == ["This was example 3."]


@pytest.mark.parametrize("error", [ConstraintStateError("a"), KeyError("k"), FileNotFoundError(2, "No such file", "f")])
def test_errors_of_python_cross(error: Exception) -> None:
    assert repr(raised(error)) == repr(error)
    assert str(raised(error)) == str(error)


def test_an_unknown_error_becomes_its_nearest_known_base() -> None:
    crossed = raised(HouseError("too long"))
    assert type(crossed) is PromptTooLongError
    assert "HouseError" in crossed.__notes__[0]


def test_what_an_error_holds_and_cannot_cross_is_left_out() -> None:
    error = InternalError("broken", lambda: None)
    error.culprit = lambda: None  # pyright: ignore[reportAttributeAccessIssue]
    crossed = raised(error)
    assert type(crossed) is InternalError
    assert "broken" in str(crossed)
    assert not hasattr(crossed, "culprit")
