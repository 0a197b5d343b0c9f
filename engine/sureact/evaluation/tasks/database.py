"""The company's SQLite database: read-only, in memory, the same answer to the same query on every day."""

from __future__ import annotations

import re
import sqlite3
import threading
from contextlib import closing
from functools import cache
from typing import Any

from sureact.evaluation.tasks.world import tables

MAX_ROWS = 20
_MAX_OPCODES = 5_000_000
"""Steps of SQLite's machine after which a query is ended; the longest one of a reference takes thousands."""
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE))
_CHANGING_FUNCTIONS = frozenset(
    ("random", "randomblob", "current_date", "current_time", "current_timestamp", "load_extension")
)
_CLOCK = re.compile(r"'now'|\b(?:date|time|datetime|julianday|unixepoch)\s*\(\s*\)", re.IGNORECASE)
_lock = threading.Lock()


def select(query: str) -> list[list[Any]]:
    """Return the first rows of a query.

    Raises:
        ValueError: the query asks for the time of day or takes too long.
        sqlite3.Error: SQLite refuses it.
    """
    if _CLOCK.search(query):
        raise ValueError("The database has no clock; write the day as a text such as '2025-06-01'.")
    with _lock, closing(_connection().cursor()) as cursor:
        try:
            return [list(row) for row in cursor.execute(query).fetchmany(MAX_ROWS)]
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise ValueError("The query takes too long; ask for less.") from error
            raise


def schema_notation() -> str:
    """Return the tables and their columns: `ships(ship_id, name, ...)`."""
    return ", ".join(f"{name}({', '.join(table.columns)})" for name, table in tables().items())


@cache
def _connection() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    for name, table in tables().items():
        columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
        connection.execute(f"CREATE TABLE {name} ({columns})")
        marks = ", ".join("?" for _ in table.columns)
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", table.rows)
    connection.commit()
    connection.set_authorizer(_authorize)
    connection.set_progress_handler(lambda: 1, _MAX_OPCODES)
    return connection


def _authorize(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Allow reading only, and no function whose value changes; SQLite names a function in the second argument."""
    changes = action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _CHANGING_FUNCTIONS
    return sqlite3.SQLITE_OK if action in _ALLOWED and not changes else sqlite3.SQLITE_DENY
