"""The ferry company that the tasks ask about: package data, read once and never changed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_DATA = files("sureact.evaluation.tasks") / "data"


@dataclass(frozen=True, slots=True)
class CalendarEvent:
    """An entry of the company's calendar."""

    day: date
    start: str
    end: str
    title: str
    place: str
    people: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as a tool gives it."""
        return {
            "day": self.day.isoformat(),
            "start": self.start,
            "end": self.end,
            "title": self.title,
            "place": self.place,
            "people": list(self.people),
        }


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the company's database."""

    columns: Mapping[str, str]
    """SQL types by name."""
    rows: tuple[tuple[Any, ...], ...]


@cache
def tables() -> Mapping[str, Table]:
    """Return the tables by name."""
    return {
        name: Table(table["columns"], tuple(tuple(row) for row in table["rows"]))
        for name, table in _read_json("tables.json").items()
    }


@cache
def text_files() -> Mapping[str, str]:
    """Return the contents of the company's files by path, such as `policies/fares.txt`."""
    folders = sorted((_DATA / "files").iterdir(), key=lambda folder: folder.name)
    return {
        f"{folder.name}/{file.name}": file.read_text(encoding="utf-8") for folder in folders for file in _in(folder)
    }


@cache
def calendar_events() -> tuple[CalendarEvent, ...]:
    """Return the calendar in order of time."""
    return tuple(
        CalendarEvent(
            day=date.fromisoformat(event["day"]),
            start=event["start"],
            end=event["end"],
            title=event["title"],
            place=event["place"],
            people=tuple(event["people"]),
        )
        for event in _read_json("events.json")
    )


@cache
def articles() -> Mapping[str, str]:
    """Return the articles of the islands' encyclopedia by title."""
    return _read_json("articles.json")


@cache
def phone_numbers() -> Mapping[str, str]:
    """Return phone numbers by the name of a member of the crew."""
    return _read_json("small_lookups.json")["phone_numbers"]


@cache
def euros_per_unit() -> Mapping[str, float]:
    """Return what one unit of a currency is worth in euros."""
    return _read_json("small_lookups.json")["euros_per_unit"]


@cache
def weather_records() -> Mapping[str, Mapping[str, tuple[int, int]]]:
    """Return temperature in degrees Celsius and wind in knots, by port and day."""
    return _read_json("small_lookups.json")["weather"]


def read_data_lines(name: str) -> list[dict[str, Any]]:
    """Return the records of a JSON Lines file of the package."""
    return [json.loads(line) for line in (_DATA / name).read_text(encoding="utf-8").splitlines()]


def _read_json(name: str) -> Any:
    return json.loads((_DATA / name).read_text(encoding="utf-8"))


def _in(folder: Traversable) -> list[Traversable]:
    return sorted(folder.iterdir(), key=lambda file: file.name)
