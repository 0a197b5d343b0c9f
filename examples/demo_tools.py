"""Tools for a small shop: its database, its notes and a calculator. Also: `sureact run ... --tools demo_tools.py`."""

import ast
import operator
import re
import sqlite3
from contextlib import closing
from typing import Any

from demo_data import NOTES, data_folder

OPERATIONS: Any = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def query_database(sql: str) -> list[list[object]]:
    """Run a SELECT on the table orders(customer TEXT, product TEXT, quantity INTEGER, unit_price REAL).

    Args:
        sql: such as SELECT SUM(quantity * unit_price) FROM orders WHERE product = 'kettle'
    """
    with closing(sqlite3.connect(f"file:{data_folder() / 'shop.db'}?mode=ro", uri=True)) as database:
        return [list(row) for row in database.execute(sql).fetchmany(20)]


def search_files(text: str) -> list[str]:
    """Find the lines of the shop's notes that hold all words of a text; words of up to three letters are ignored."""
    words = re.findall(r"\w{4,}", text.lower())
    lines = [f"{name}: {line}" for name in NOTES for line in read_file(name).splitlines()]
    return [line for line in lines if all(word in line.lower() for word in words)]


def read_file(name: str) -> str:
    """Read a note; search_files tells the names."""
    if name not in NOTES:
        raise ValueError(f"There is no note {name!r}; there are {', '.join(NOTES)}.")
    return (data_folder() / name).read_text(encoding="utf-8")


def calculator(expression: str) -> float:
    """Calculate with numbers, + - * / and parentheses, such as (3 + 4) * 2.5."""
    return round(evaluate(ast.parse(expression, mode="eval").body), 6)


def evaluate(node: ast.expr) -> float:
    """Evaluate arithmetic on numbers; nothing else is ever run."""
    match node:
        case ast.Constant(value=int(value) | float(value)):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -evaluate(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in OPERATIONS:
            return OPERATIONS[type(operation)](evaluate(left), evaluate(right))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not arithmetic on numbers.")


TOOLS = [query_database, search_files, read_file, calculator]
