import datetime
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AwareDatetime, Field, NaiveDatetime, TypeAdapter

from sureact.constraints.constraint import Constraint
from sureact.constraints.python_type import constraint_of
from sureact.constraints.type_schema import TypeSchema
from sureact.errors import ConfigError

Spells = Callable[[Constraint, str], bool]
offsets = st.integers(-1439, 1439).map(lambda minutes: datetime.timezone(datetime.timedelta(minutes=minutes)))
zones = st.none() | offsets


@given(st.datetimes(timezones=zones) | st.times(timezones=zones))
def test_every_moment_python_can_write_is_read_back(spells: Spells, moment: datetime.datetime | datetime.time) -> None:
    constraint = constraint_of(type(moment))
    text = f'"{moment.isoformat()}"'
    assert spells(constraint, text)
    assert constraint.parse(text) == moment


@given(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32))
def test_a_day_is_one_of_the_calendar(spells: Spells, year: int, month: int, day: int) -> None:
    try:
        datetime.date(year, month, day)
    except ValueError:
        exists = False
    else:
        exists = True
    text = f"{year:04}-{month:02}-{day:02}T00:00:00"
    assert spells(constraint_of(datetime.datetime), f'"{text}"') is exists


@pytest.mark.parametrize(
    ("python_type", "naive", "aware"),
    [(datetime.datetime, True, True), (NaiveDatetime, True, False), (AwareDatetime, False, True)],
)
def test_an_offset_is_written_where_the_type_lets_it(
    python_type: object, naive: bool, aware: bool, spells: Spells
) -> None:
    constraint = constraint_of(python_type)
    assert spells(constraint, '"2024-02-29T12:30:00"') is naive
    assert spells(constraint, '"2024-02-29T12:30:00+01:00"') is aware


def test_a_decimal_with_limits_is_a_number() -> None:
    limited: Any = Annotated[Decimal, Field(gt=0, max_digits=3)]
    assert constraint_of(limited).parse("1.5") == Decimal("1.5")


@pytest.mark.parametrize("key", [tuple[int, int], Annotated[int, Field(gt=3)]])
def test_a_key_that_no_text_can_spell_is_refused(key: Any) -> None:
    with pytest.raises(ConfigError, match="keys of a dict"):
        constraint_of(dict[key, int])


class Point(Enum):
    ORIGIN = (0, 0)


class Nothing(Enum):
    pass


class Day(Enum):
    FIRST = datetime.date(2026, 1, 1)


class Ratio(float, Enum):
    HALF = 0.5


@pytest.mark.parametrize("python_type", [Point, Day, Literal[b"a"], Literal[Point.ORIGIN]])
def test_a_value_that_json_does_not_give_back_is_refused(python_type: type) -> None:
    with pytest.raises(ConfigError, match="cannot be read back from JSON"):
        TypeAdapter(python_type).json_schema(schema_generator=TypeSchema)


def test_an_enum_without_members_is_refused() -> None:
    with pytest.raises(ConfigError, match="Nothing has no members"):
        constraint_of(list[Nothing])


@pytest.mark.parametrize("python_type", [Ratio, Literal["a", 1, None, True], Literal[Ratio.HALF]])
def test_a_value_that_json_gives_back_is_served(python_type: type) -> None:
    assert TypeAdapter(python_type).json_schema(schema_generator=TypeSchema)
