import datetime
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict

import pytest
from pydantic import BaseModel, Field, field_validator

from sureact.constraints.choice import choice
from sureact.constraints.constraint import Constraint
from sureact.constraints.python_type import constraint_of
from sureact.errors import ConfigError, ConstraintError, InternalError

Spells = Callable[[Constraint, str], bool]


class Color(Enum):
    RED = "red"
    REDDISH = "reddish"


class Level(Enum):
    LOW = 1
    HIGH = 2


class Point(TypedDict):
    x: int
    y: NotRequired[int]


@dataclass
class Size:
    width: int
    unit: Literal["cm", "in"] = "cm"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    friend: "Owner | None" = None


class Even(BaseModel):
    number: int

    @field_validator("number")
    @classmethod
    def must_be_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value


def add(a: int, b: Literal["x", "y"] = "x", *, point: Point | None = None) -> None: ...


TYPES: list[tuple[object, str, object]] = [
    (Literal["a", "ab"], "ab", "ab"),
    (Literal[1, "a"], "1", 1),
    (Color, "reddish", Color.REDDISH),
    (Level, "2", Level.HIGH),
    (int, "-12", -12),
    (float, "1.5", 1.5),
    (bool, "true", True),
    (str, '"a\\n"', "a\n"),
    (datetime.date, '"2024-02-29"', datetime.date(2024, 2, 29)),
    (list[int], "[1, 2]", [1, 2]),
    (list[Literal['a"b']], '["a\\"b"]', ['a"b']),
    (dict[str, int], '{"a": 1}', {"a": 1}),
    (dict, '{"a": [null]}', {"a": [None]}),
    (Optional[int], "null", None),  # noqa: UP045
    (int | str, '"1"', "1"),
    (Point, '{"x": 1}', {"x": 1}),
    (list[Point], '[{"x": 1, "y": 2}]', [{"x": 1, "y": 2}]),
    (Annotated[Point | None, "note"], "null", None),
    (Size, '{"width": 1, "unit": "in"}', Size(1, "in")),
    (Owner, '{"pet": {"kind": "dog"}}', Owner(pet=Dog())),
    (
        Owner,
        '{"pet": {"kind": "cat", "lives": 9}, "friend": {"pet": {"kind": "dog"}, "friend": null}}',
        Owner(pet=Cat(lives=9), friend=Owner(pet=Dog())),
    ),
    (add, '{"a": 1, "point": {"x": 2}}', {"a": 1, "point": {"x": 2}}),
]


@pytest.mark.parametrize(("python_type", "text", "value"), TYPES)
def test_a_type_is_spelled_as_json_and_parsed_back(
    python_type: object, text: str, value: object, spells: Spells
) -> None:
    constraint = constraint_of(python_type)
    assert spells(constraint, text)
    parsed = constraint.parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("python_type", "text"),
    [
        (bool, "True"),
        (Color, '"red"'),
        (Level, "3"),
        (datetime.date, '"2023-02-29"'),
        (Point, "{}"),
        (Point, '{"x": 1, "z": 2}'),
        (Size, '{"width": 1, "unit": "m"}'),
        (Owner, '{"pet": {"kind": "cat", "lives": 10}}'),
        (Owner, '{"pet": {"kind": "dog", "lives": 1}}'),
        (add, "{}"),
        (add, '{"a": 1, "c": 2}'),
    ],
)
def test_what_is_no_value_of_the_type_cannot_be_spelled(python_type: object, text: str, spells: Spells) -> None:
    assert not spells(constraint_of(python_type), text)
    with pytest.raises(InternalError):
        constraint_of(python_type).parse(text)


def test_a_constraint_stays_what_it_is() -> None:
    constraint = choice(["a"])
    assert constraint_of(constraint) is constraint


def test_a_validator_that_the_schema_does_not_show_is_no_internal_error() -> None:
    assert constraint_of(Even).parse('{"number": 2}') == Even(number=2)
    with pytest.raises(ConstraintError, match="own validation refuses it"):
        constraint_of(Even).parse('{"number": 1}')


def variadic(*args: int) -> None: ...


@pytest.mark.parametrize("value", [object(), "text", 7, Callable[[int], int], variadic])
def test_what_is_no_type_for_text_is_refused(value: object) -> None:
    with pytest.raises(ConfigError):
        constraint_of(value)


def test_types_are_read_without_loading_outlines() -> None:
    def untyped(a: Any, b: Any = None) -> None: ...

    already_loaded = "outlines" in sys.modules
    assert constraint_of(untyped).parse('{"a": [1]}') == {"a": [1]}
    assert ("outlines" in sys.modules) is already_loaded
