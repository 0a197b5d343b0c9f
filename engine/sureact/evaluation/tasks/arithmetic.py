"""Arithmetic and units for the tools of the task set."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {"round": round, "min": min, "max": max, "abs": abs}
_MAX_EXPONENT = 64
_MAX_LENGTH = 300
_LARGEST = 1e100
"""Of a part of an expression: powers of powers would take all memory."""

UNITS: dict[str, tuple[str, float]] = {
    "m": ("length", 1.0),
    "km": ("length", 1000.0),
    "cm": ("length", 0.01),
    "ft": ("length", 0.3048),
    "mi": ("length", 1609.344),
    "nm": ("length", 1852.0),
    "g": ("mass", 0.001),
    "kg": ("mass", 1.0),
    "t": ("mass", 1000.0),
    "lb": ("mass", 0.45359237),
    "l": ("volume", 1.0),
    "gal": ("volume", 3.785411784),
    "min": ("time", 60.0),
    "h": ("time", 3600.0),
    "d": ("time", 86400.0),
    "kn": ("speed", 1852.0 / 3600.0),
    "km/h": ("speed", 1 / 3.6),
    "mph": ("speed", 0.44704),
    "degC": ("temperature", 1.0),
    "degF": ("temperature", 1.0),
}
"""What a unit measures, and how many of the first unit of its kind it is; temperatures are converted by formula."""


def evaluate(expression: str) -> float:
    """Return the value of an expression of numbers, `+ - * / // % **`, parentheses, round, min, max and abs.

    Raises:
        ValueError: it is something else, or not finite.
    """
    if len(expression) > _MAX_LENGTH:
        raise ValueError(f"The expression has {len(expression)} characters; at most {_MAX_LENGTH}.")
    try:
        value = _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, ArithmeticError, TypeError, RecursionError, MemoryError) as error:
        raise ValueError(f"{expression!r} cannot be calculated: {error}") from error
    return _tidy(value)


def convert(value: float, from_unit: str, to_unit: str) -> float:
    """Convert between two units of one kind.

    Raises:
        ValueError: a unit is not known, or the two measure different things.
    """
    for unit in (from_unit, to_unit):
        if unit not in UNITS:
            raise ValueError(f"There is no unit {unit!r}; there are {', '.join(UNITS)}.")
    (kind, factor), (to_kind, to_factor) = UNITS[from_unit], UNITS[to_unit]
    if kind != to_kind:
        raise ValueError(f"{from_unit} is a unit of {kind}, {to_unit} of {to_kind}.")
    if kind == "temperature":
        celsius = (value - 32) / 1.8 if from_unit == "degF" else value
        return _tidy(celsius * 1.8 + 32 if to_unit == "degF" else celsius)
    return _tidy(value * factor / to_factor)


def _tidy(value: float) -> float:
    """Round, so that the last bits of a float are no part of an answer."""
    if not abs(value) < 1e15:
        raise ValueError(f"The value {value} is too large.")
    return round(value, 6)


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int(value) | float(value)) if not isinstance(value, bool):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand)
        case ast.BinOp(left=left, op=operation, right=right) if type(operation) in _OPERATIONS:
            return _combined(operation, _value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in _FUNCTIONS and arguments:
            return _FUNCTIONS[name](*_arguments(name, arguments))
        case _:
            raise ValueError(f"{ast.unparse(node)!r} is not arithmetic on numbers.")


def _combined(operation: ast.operator, left: float, right: float) -> float:
    if isinstance(operation, ast.Pow) and (abs(right) > _MAX_EXPONENT or (left < 0 and right != int(right))):
        raise ValueError(f"{left} ** {right} cannot be calculated.")
    value = _OPERATIONS[type(operation)](left, right)
    if not abs(value) < _LARGEST:
        raise ValueError(f"A part of the expression is larger than {_LARGEST:g}.")
    return value


def _arguments(name: str, nodes: list[ast.expr]) -> list[float]:
    values = [_value(node) for node in nodes]
    if name == "round" and len(values) == 2:
        return [values[0], int(values[1])]
    # `min(7)` is one number, which Python takes for a sequence.
    return [*values, *values] if name in ("min", "max") and len(values) == 1 else values
