import datetime
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    Union,
)
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator
from typing_extensions import TypeAliasType

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


class Mixed(Enum):
    ONE = 1
    B = "b"
    NOTHING = None


class Partial(TypedDict, total=False):
    a: Required[int]
    b: str


class Nested(Partial):
    c: NotRequired[list[Partial]]


@dataclass
class Tree:
    x: int
    kids: list["Tree"] = field(default_factory=list["Tree"])


@dataclass
class Tagged:
    tags: set[str]
    sizes: dict[int, int]


class Animal(BaseModel):
    pet: Cat | Dog


class Limited(BaseModel):
    a: int = Field(gt=0, lt=10, multiple_of=3)
    b: str = Field(pattern="^[a-z]+$", max_length=3)
    c: list[int] = Field(min_length=1, max_length=2)
    d: float = Field(ge=0.5, le=2)


class Node(BaseModel):
    value: int
    kids: list["Node"] = []
    parent: "Node | None" = None


class Aliased(BaseModel):
    a: int = Field(alias="the a")

    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.a


class Numbers(RootModel[list[int]]): ...


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date
    pair: tuple[int, int]


class Pair(NamedTuple):
    a: int
    b: str = "x"


class Searcher:
    def __call__(self, query: str) -> str:
        raise AssertionError("a constraint never calls what it describes")

    def method(self, a: int, b: "Literal['x'] | None" = None) -> None:
        raise AssertionError("a constraint never calls what it describes")


UserId = NewType("UserId", int)
Choice = TypeAliasType("Choice", Literal["a", "ab"])


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
    (functools.partial(add, 1), '{"b": "y"}', {"b": "y"}),
    (functools.partial(add, b="y"), '{"a": 1}', {"a": 1}),
    (Searcher(), '{"query": "q"}', {"query": "q"}),
    (Searcher().method, '{"a": 1, "b": "x"}', {"a": 1, "b": "x"}),
    (lambda: None, "{}", {}),
    (Choice, "ab", "ab"),
    (UserId, "7", 7),
    (Literal[1, "a", True, None], "true", True),
    (Literal[1, "a", True, None], '"a"', "a"),
    (Literal[1, "a", True, None], "null", None),
    (Mixed, '"b"', Mixed.B),
    (Mixed, "null", Mixed.NOTHING),
    (float, "-0.5", -0.5),
    (float, "1e5", 1e5),
    (int, "123456789012345678901234567890", 123456789012345678901234567890),
    (None, "null", None),
    (bytes, '"abc"', b"abc"),
    (Decimal, '"0.12345678901234567890123"', Decimal("0.12345678901234567890123")),
    (Decimal, "1.5", Decimal("1.5")),
    (UUID, '"12345678-1234-5678-1234-567812345678"', UUID("12345678-1234-5678-1234-567812345678")),
    (datetime.timedelta, '"PT1H30M"', datetime.timedelta(minutes=90)),
    (tuple[int, str], '[1, "a"]', (1, "a")),
    (tuple[int, ...], "[1, 2]", (1, 2)),
    (tuple[()], "[]", ()),
    (set[int], "[1, 2]", {1, 2}),
    (frozenset[str], '["a"]', frozenset({"a"})),
    (dict[int, str], '{"-1": "a"}', {-1: "a"}),
    (dict[float, int], '{"1.5": 1}', {1.5: 1}),
    (dict[bool, int], '{"true": 1}', {True: 1}),
    (dict[Color, int], '{"reddish": 1}', {Color.REDDISH: 1}),
    (dict[Literal["a", "b"], int], '{"b": 1, "a": 2}', {"b": 1, "a": 2}),
    (dict[datetime.date, int], '{"2024-02-29": 1}', {datetime.date(2024, 2, 29): 1}),
    (dict[UUID, int], '{"12345678-1234-5678-1234-567812345678": 1}', {UUID("12345678-1234-5678-1234-567812345678"): 1}),
    (dict[Annotated[str, Field(pattern="^x")], int], '{"xy": 1}', {"xy": 1}),
    (Tagged, '{"tags": ["a", "b"], "sizes": {"1": 2}}', Tagged({"a", "b"}, {1: 2})),
    (Nested, '{"a": 1, "c": [{"a": 2, "b": "x"}]}', {"a": 1, "c": [{"a": 2, "b": "x"}]}),
    (Tree, '{"x": 1, "kids": [{"x": 2}]}', Tree(1, [Tree(2)])),
    (Limited, '{"a": 3, "b": "abc", "c": [1], "d": 0.5}', Limited(a=3, b="abc", c=[1], d=0.5)),
    (
        Node,
        '{"value": 1, "kids": [{"value": 2}], "parent": {"value": 3}}',
        Node(value=1, kids=[Node(value=2)], parent=Node(value=3)),
    ),
    (Animal, '{"pet": {"kind": "cat", "lives": 3}}', Animal(pet=Cat(lives=3))),
    (Animal, '{"pet": {"kind": "dog"}}', Animal(pet=Dog())),
    (Aliased, '{"the a": 1}', Aliased.model_validate({"the a": 1})),
    (Numbers, "[1, 2]", Numbers([1, 2])),
    (Open, '{"a": 1, "z": "q"}', Open.model_validate({"a": 1, "z": "q"})),
    (Closed, '{"a": 1}', Closed(a=1)),
    (Strict, '{"day": "2024-02-29", "pair": [1, 2]}', Strict(day=datetime.date(2024, 2, 29), pair=(1, 2))),
    (Pair, '[1, "y"]', Pair(1, "y")),
    (Pair, "[1]", Pair(1)),
    (Union[int, str, None], "null", None),  # noqa: UP007
    (Annotated[str, Field(min_length=2)], '"ab"', "ab"),
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
        (Literal[1, "a", True, None], "True"),
        (Literal[1, "a", True, None], "false"),
        (Literal[1, "a", True, None], "a"),
        (Mixed, "b"),
        (Mixed, "None"),
        (int, "01"),
        (int, "1.5"),
        (float, "NaN"),
        (None, "None"),
        (Decimal, '"x"'),
        (UUID, '"x"'),
        (float, "1e999"),
        (set[int], "[1, 2, 1]"),
        (frozenset[str], '["a", "\\u0061"]'),
        (dict[str, int], '{"a": 1, "a": 2}'),
        (dict[int, str], '{"a": "a"}'),
        (dict[int, str], '{"01": "a"}'),
        (dict[float, int], '{"x": 1}'),
        (dict[bool, int], '{"True": 1}'),
        (dict[Color, int], '{"blue": 1}'),
        (dict[Literal["a", "b"], int], '{"c": 1}'),
        (dict[datetime.date, int], '{"2023-02-29": 1}'),
        (dict[Annotated[str, Field(pattern="^x")], int], '{"y": 1}'),
        (Tagged, '{"tags": ["a", "a"], "sizes": {}}'),
        (Tagged, '{"tags": [], "sizes": {"a": 1}}'),
        (Animal, '{"pet": {"kind": "cat"}}'),
        (Animal, '{"pet": {"kind": "dog", "lives": 1}}'),
        (tuple[int, str], "[1]"),
        (tuple[int, str], '[1, "a", 2]'),
        (tuple[()], "[1]"),
        (Partial, '{"b": "x"}'),
        (Nested, '{"a": 1, "c": [{}]}'),
        (Tree, '{"x": 1, "kids": [{}]}'),
        (Limited, '{"a": 4, "b": "abc", "c": [1], "d": 0.5}'),
        (Limited, '{"a": 12, "b": "abc", "c": [1], "d": 0.5}'),
        (Limited, '{"a": 3, "b": "abcd", "c": [1], "d": 0.5}'),
        (Limited, '{"a": 3, "b": "A", "c": [1], "d": 0.5}'),
        (Limited, '{"a": 3, "b": "a", "c": [], "d": 0.5}'),
        (Limited, '{"a": 3, "b": "a", "c": [1], "d": 2.5}'),
        (Node, '{"value": 1, "parent": {}}'),
        (Aliased, '{"a": 1}'),
        (Aliased, '{"the a": 1, "twice": 2}'),
        (Open, "{}"),
        (Closed, '{"a": 1, "z": 1}'),
        (Annotated[str, Field(min_length=2)], '"a"'),
        (Annotated[int, Field(gt=3)], "3"),
        (functools.partial(add, 1), '{"a": 1}'),
        (Searcher().method, '{"self": 1, "a": 1}'),
        (lambda: None, '{"a": 1}'),
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
    with pytest.raises((InternalError, ConstraintError)):
        constraint_of(python_type).parse(text)


def test_a_constraint_stays_what_it_is() -> None:
    constraint = choice(["a"])
    assert constraint_of(constraint) is constraint


def test_a_validator_that_the_schema_does_not_show_is_no_internal_error() -> None:
    assert constraint_of(Even).parse('{"number": 2}') == Even(number=2)
    with pytest.raises(ConstraintError, match="own validation refuses it"):
        constraint_of(Even).parse('{"number": 1}')


def misspelled(a: "Missing") -> None: ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable, reportUnknownParameterType]


class Endless(TypedDict):
    inner: "list[Endless]"


@pytest.mark.parametrize("value", [object(), "text", {"type": "integer"}, 7, Callable[[int], int], misspelled, range])
def test_what_is_no_type_for_text_is_refused(value: object) -> None:
    with pytest.raises(ConfigError):
        constraint_of(value)


class Plain: ...


def takes_plain(plain: Plain) -> None: ...


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Literal[()], "has a Literal without values. List at least one"),
        (Plain, "Plain'> cannot be a constraint: it is no type of JSON values.*Make it one of these"),
        (dict[str, Plain], "Plain'> is no type of JSON values.*Make it one of these"),
        (takes_plain, "The function takes_plain .*Plain'> is no type of JSON values"),
        (print, r"print takes `\*args`.*Give a function that names"),
        (max, "max cannot be read.*Give a function with annotated parameters"),
        (list[type], "a part without a JSON schema.*Leave that part out"),
        (["a", "b"], r"is no type.*choice\(\.\.\.\)"),
    ],
)
def test_a_refusal_says_what_is_allowed_and_what_to_do(value: object, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        constraint_of(value)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="pydantic serves typing.TypedDict from Python 3.12 on")
def test_a_typed_dict_that_holds_itself_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError, match="typing_extensions"):
        constraint_of(Endless)


def test_types_are_read_without_loading_outlines() -> None:
    def untyped(a: Any, b: Any = None) -> None: ...

    already_loaded = "outlines" in sys.modules
    assert constraint_of(untyped).parse('{"a": [1]}') == {"a": [1]}
    assert ("outlines" in sys.modules) is already_loaded
