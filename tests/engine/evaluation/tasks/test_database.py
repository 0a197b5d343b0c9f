"""Queries read the company's tables, and nothing else: no writing, no clock, no chance, no end that never comes."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from sureact.evaluation.tasks.database import MAX_ROWS, schema_notation, select


def test_a_query_reads_the_tables() -> None:
    assert select("SELECT name FROM ships WHERE built_year < 1980") == [["Cormorant"]]


def test_no_more_than_the_first_rows_are_given() -> None:
    assert len(select("SELECT * FROM sailings")) == MAX_ROWS


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM ships",
        "DROP TABLE ships",
        "CREATE TABLE a (b)",
        "PRAGMA query_only = OFF",
        "ATTACH DATABASE 'x.db' AS x",
        "SELECT random()",
        "SELECT current_date",
        "SELECT load_extension('x')",
        "SELECT nothing FROM ships",
    ],
)
def test_what_does_more_than_read_is_refused(query: str) -> None:
    with pytest.raises(sqlite3.Error):
        select(query)
    assert select("SELECT COUNT(*) FROM ships") == [[6]]


@pytest.mark.parametrize("query", ["SELECT date('now')", "SELECT DATE( )", "SELECT strftime('%Y', 'NOW')"])
def test_there_is_no_clock(query: str) -> None:
    with pytest.raises(ValueError, match="no clock"):
        select(query)


def test_a_query_that_does_not_end_is_ended() -> None:
    with pytest.raises(ValueError, match="too long"):
        select("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n")
    assert select("SELECT 1") == [[1]]


def test_many_threads_may_ask_at_once() -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(select, ["SELECT SUM(passengers) FROM sailings"] * 40))
    assert len({str(answer) for answer in answers}) == 1


def test_the_notation_names_every_table() -> None:
    assert schema_notation().count("(") == 6
    assert "repairs(repair_id, ship_id, part, cost_eur, done_on)" in schema_notation()
