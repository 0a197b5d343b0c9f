"""The tools of the tasks: functions of the package's data and their arguments, of nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta
from functools import cache
from typing import Any

from sureact.agent.tool import Tool
from sureact.evaluation.tasks import arithmetic, database, world

_MAX_FOUND = 5
_SNIPPET_CHARACTERS = 70


def run_sql(query: str) -> list[list[Any]]:
    """Run a query on the database; the description is made of its tables in `task_tools`."""
    return database.select(query)


def list_files() -> list[str]:
    """List the paths of the company's text files."""
    return list(world.text_files())


def find_in_files(text: str) -> list[str]:
    """Find the lines of the company's files that hold a text; each line comes with its path.

    Args:
        text: one word or a few in a row, case is ignored
    """
    lines = [f"{path}: {line}" for path, content in world.text_files().items() for line in content.splitlines()]
    return [line for line in lines if text.lower() in line.lower()]


def read_file(path: str) -> str:
    """Read a text file of the company.

    Args:
        path: as list_files gives it
    """
    if path not in world.text_files():
        raise ValueError(f"There is no file {path!r}; list_files gives the paths.")
    return world.text_files()[path]


def list_events(first_day: date, last_day: date) -> list[dict[str, Any]]:
    """List the entries of the company's calendar from one day to another, both included.

    Args:
        first_day: such as 2025-06-01
        last_day: such as 2025-06-30
    """
    return [event.as_dict() for event in world.calendar_events() if first_day <= event.day <= last_day]


def find_events(text: str) -> list[dict[str, Any]]:
    """Find the entries of the company's calendar by a word of their title, or by a person.

    Args:
        text: part of a title, or a name
    """
    wanted = text.lower()
    events = world.calendar_events()
    return [event.as_dict() for event in events if wanted in "\n".join((event.title, *event.people)).lower()]


def add_days(day: date, days: int) -> str:
    """Tell the date some days after a day.

    Args:
        day: the day to start from
        days: how many days later; negative for earlier
    """
    try:
        return (day + timedelta(days=days)).isoformat()
    except OverflowError as error:
        raise ValueError(f"{days} days from {day} is no date.") from error


def days_between(first_day: date, last_day: date) -> int:
    """Count the days from one date to another.

    Args:
        first_day: the earlier day
        last_day: the later day
    """
    return (last_day - first_day).days


def weekday_of(day: date) -> str:
    """Tell the weekday of a date, such as Monday.

    Args:
        day: the date
    """
    return ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")[day.weekday()]


def calculate(expression: str) -> float:
    """Calculate with numbers, + - * / // % **, parentheses, round, min, max and abs.

    Args:
        expression: such as (3 + 4) * 2.5
    """
    return arithmetic.evaluate(expression)


def convert_units(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a value from one unit to another.

    Args:
        value: how many of from_unit
        from_unit: m, km, cm, ft, mi, nm (nautical miles), g, kg, t, lb, l, gal, min, h, d, kn, km/h, mph, degC or degF
        to_unit: another one of the same kind
    """
    return arithmetic.convert(value, from_unit, to_unit)


def summarize_numbers(numbers: list[float]) -> dict[str, float]:
    """Give count, sum, mean, smallest and largest of some numbers.

    Args:
        numbers: at least one
    """
    if not numbers:
        raise ValueError("There are no numbers to summarize.")
    total = arithmetic.evaluate(" + ".join(f"({number!r})" for number in numbers))
    mean = round(total / len(numbers), 6)
    return {"count": len(numbers), "sum": total, "mean": mean, "min": min(numbers), "max": max(numbers)}


def search_articles(query: str) -> list[dict[str, str]]:
    """Search the islands' encyclopedia; gives titles and how the articles begin.

    Args:
        query: a few words
    """
    words = set(re.findall(r"\w+", query.lower()))
    ranked = sorted(world.articles(), key=lambda title: (-_relevance(words, title), title))
    found = [title for title in ranked if _relevance(words, title)]
    return [{"title": title, "begins": _beginning(world.articles()[title])} for title in found[:_MAX_FOUND]]


def open_article(title: str) -> str:
    """Read an article of the islands' encyclopedia.

    Args:
        title: exactly as search_articles gives it
    """
    if title not in world.articles():
        raise ValueError(f"There is no article {title!r}; search_articles gives the titles.")
    return world.articles()[title]


def convert_currency(amount: float, from_currency: str, to_currency: str) -> float:
    """Convert money at the company's fixed rates.

    Args:
        amount: how much
        from_currency: EUR, USD, GBP, NOK or DKK
        to_currency: EUR, USD, GBP, NOK or DKK
    """
    rates = world.euros_per_unit()
    for currency in (from_currency, to_currency):
        if currency not in rates:
            raise ValueError(f"There is no rate of {currency!r}; there are {', '.join(rates)}.")
    return round(amount * rates[from_currency] / rates[to_currency], 2)


def weather(port: str, day: date) -> dict[str, int]:
    """Tell the temperature in degrees Celsius and the wind in knots at a port.

    Args:
        port: such as Skerry
        day: a day from May to July 2025
    """
    records = world.weather_records()
    if port not in records or day.isoformat() not in records[port]:
        raise ValueError(f"Nothing is recorded of {port!r} on {day}; there are {', '.join(records)}, May to July 2025.")
    celsius, knots = records[port][day.isoformat()]
    return {"temperature_celsius": celsius, "wind_knots": knots}


def phone_number(name: str) -> str:
    """Tell the phone number of a member of the crew.

    Args:
        name: first and last name
    """
    if name not in world.phone_numbers():
        raise ValueError(f"There is no number of {name!r}.")
    return world.phone_numbers()[name]


@cache
def task_tools() -> dict[str, Tool]:
    """Return all tools by name."""
    sql = f"Run one SELECT on the company's SQLite database. Tables: {database.schema_notation()}."
    note = "Days are texts like 2025-05-31, ports are named in full, such as Ulva Point."
    functions = (
        list_files,
        find_in_files,
        read_file,
        list_events,
        find_events,
        add_days,
        days_between,
        weekday_of,
        calculate,
        convert_units,
        summarize_numbers,
        search_articles,
        open_article,
        convert_currency,
        weather,
        phone_number,
    )
    return {tool.name: tool for tool in (Tool(run_sql, desc=f"{sql} {note}"), *map(Tool, functions))}


def tools_named(names: Sequence[str]) -> list[Tool]:
    """Return tools in the order of their names."""
    return [task_tools()[name] for name in names]


def _relevance(words: set[str], title: str) -> int:
    """Count words found: in the title for three, in the text for one."""
    title_words, text_words = (set(re.findall(r"\w+", text.lower())) for text in (title, world.articles()[title]))
    return 3 * len(words & title_words) + len(words & text_words)


def _beginning(text: str) -> str:
    return text if len(text) <= _SNIPPET_CHARACTERS else text[:_SNIPPET_CHARACTERS].rsplit(" ", 1)[0] + " ..."
