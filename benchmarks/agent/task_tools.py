"""The six tools of the task set, and the small company that they look into."""

import ast
import operator
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date, timedelta
from functools import cache
from typing import Any

EMPLOYEES = [
    ("Ada Brandt", "lab", "Oslo", "2015-03-02", 5200),
    ("Ben Castro", "sales", "Porto", "2019-07-15", 3900),
    ("Chloe Dubois", "sales", "Lyon", "2020-01-06", 4100),
    ("David Eriksen", "lab", "Oslo", "2012-11-19", 6100),
    ("Elif Farouk", "support", "Porto", "2021-05-10", 3300),
    ("Finn Gruber", "support", "Graz", "2018-02-01", 3450),
    ("Greta Holm", "lab", "Oslo", "2022-09-05", 4800),
    ("Hugo Ibarra", "sales", "Porto", "2016-10-03", 4550),
]
PRODUCTS = [
    ("lamp", 34.5, 1200, 80),
    ("desk", 249.0, 31500, 12),
    ("chair", 119.0, 8700, 45),
    ("shelf", 79.9, 14200, 30),
    ("clock", 24.0, 450, 150),
]
SALES = [
    ("Ben Castro", "lamp", 12, "2024-01-15"),
    ("Chloe Dubois", "desk", 3, "2024-02-03"),
    ("Hugo Ibarra", "chair", 10, "2024-02-20"),
    ("Ben Castro", "shelf", 5, "2024-03-08"),
    ("Chloe Dubois", "clock", 40, "2024-04-11"),
    ("Hugo Ibarra", "desk", 2, "2024-05-27"),
    ("Ben Castro", "chair", 6, "2024-06-30"),
    ("Chloe Dubois", "lamp", 20, "2024-08-19"),
    ("Hugo Ibarra", "clock", 25, "2024-10-02"),
]
FILES = {
    "bonus.txt": "The sales department gets a bonus of 4 percent of its turnover.\n"
    "Each member of the support department gets a bonus of 250 euros.\nThe lab gets no bonus.\n",
    "discounts.txt": "Discount on desks: 15 percent.\nDiscount on clocks: 10 percent.\nNo discount on other goods.\n",
    "projects.txt": "Project Aurora starts on 2024-03-04, takes 90 days and is led by Ada Brandt.\n"
    "Project Borealis starts on 2024-06-17, takes 120 days and is led by Greta Holm.\n"
    "Project Cirrus starts on 2024-09-30, takes 45 days and is led by David Eriksen.\n",
    "travel.txt": "Trips within the country are paid with 28 euros a day.\nTrips abroad are paid with 52 euros a day.\n"
    "The car allowance is 0.31 euros per kilometer.\n",
    "warehouse.txt": "The truck carries at most 1500 kilograms.\nThe loading hall is 36 feet long.\n"
    "A pallet is 120 centimeters long and 80 centimeters wide.\n",
    "warranty.txt": "The warranty of a lamp is 730 days.\nThe warranty of a desk is 1825 days.\n"
    "The warranty of a chair is 1095 days.\nThe warranty of a clock is 365 days.\n",
}
OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
UNITS = {
    "m": ("length", 1.0),
    "km": ("length", 1000.0),
    "cm": ("length", 0.01),
    "ft": ("length", 0.3048),
    "mi": ("length", 1609.344),
    "g": ("mass", 0.001),
    "kg": ("mass", 1.0),
    "lb": ("mass", 0.45359237),
}


@cache
def _database() -> sqlite3.Connection:
    database = sqlite3.connect(":memory:", check_same_thread=False)
    database.execute("CREATE TABLE employees (name TEXT, department TEXT, city TEXT, hired_on TEXT, salary INTEGER)")
    database.execute("CREATE TABLE products (name TEXT, price REAL, weight_grams INTEGER, stock INTEGER)")
    database.execute("CREATE TABLE sales (employee TEXT, product TEXT, units INTEGER, sold_on TEXT)")
    database.executemany("INSERT INTO employees VALUES (?, ?, ?, ?, ?)", EMPLOYEES)
    database.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", PRODUCTS)
    database.executemany("INSERT INTO sales VALUES (?, ?, ?, ?)", SALES)
    database.commit()
    database.execute("PRAGMA query_only = ON")
    return database


def query_database(sql: str) -> list[list[Any]]:
    """Run a SELECT on the company's SQLite database.

    Tables: employees(name, department, city, hired_on, salary), products(name, price, weight_grams, stock),
    sales(employee, product, units, sold_on). Departments are lab, sales, support. Dates are texts like 2024-01-31.

    Args:
        sql: one SELECT statement
    """
    with closing(_database().cursor()) as cursor:
        return [list(row) for row in cursor.execute(sql).fetchmany(20)]


def search_files(text: str) -> list[str]:
    """Find the lines of the company's files that hold a text; each comes with the name of its file.

    Args:
        text: one or two words, case is ignored
    """
    lines = [f"{name}: {line}" for name, content in FILES.items() for line in content.splitlines()]
    return [line for line in lines if text.lower() in line.lower()]


def read_file(name: str) -> str:
    """Read a whole file of the company: bonus, discounts, projects, travel, warehouse or warranty, each with .txt.

    Args:
        name: file name, such as travel.txt
    """
    if name not in FILES:
        raise ValueError(f"There is no file {name!r}; there are {', '.join(FILES)}.")
    return FILES[name]


def calculator(expression: str) -> float:
    """Calculate with numbers, + - * / and parentheses.

    Args:
        expression: such as (3 + 4) * 2.5
    """
    return round(_evaluate(ast.parse(expression, mode="eval").body), 6)


def calendar(day: date, days_later: int = 0, until: date | None = None) -> dict[str, Any]:
    """Look up a day: its date and weekday some days later, and how many days there are from it until another day.

    Args:
        day: the day to start from
        days_later: how many days to go on from it; negative goes back
        until: a day to count the days to
    """
    target = day + timedelta(days=days_later)
    found: dict[str, Any] = {"date": target.isoformat(), "weekday": target.strftime("%A")}
    return found if until is None else found | {"days_until": (until - target).days}


def convert_units(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a length (m, km, cm, ft, mi) or a mass (g, kg, lb).

    Args:
        value: how many of from_unit
        from_unit: such as ft
        to_unit: such as m
    """
    for unit in (from_unit, to_unit):
        if unit not in UNITS:
            raise ValueError(f"There is no unit {unit!r}; there are {', '.join(UNITS)}.")
    (kind, factor), (to_kind, to_factor) = UNITS[from_unit], UNITS[to_unit]
    if kind != to_kind:
        raise ValueError(f"{from_unit} is a {kind} and {to_unit} is a {to_kind}.")
    return round(value * factor / to_factor, 6)


def _evaluate(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int(value) | float(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATIONS:
            return OPERATIONS[type(operation)](_evaluate(left), _evaluate(right))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not arithmetic on numbers.")


TOOLS = [calculator, query_database, search_files, read_file, calendar, convert_units]
