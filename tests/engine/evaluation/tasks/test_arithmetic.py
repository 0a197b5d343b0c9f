"""Expressions and units give what they should, and everything else an error that says why."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureact.evaluation.tasks.arithmetic import UNITS, convert, evaluate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(3 + 4) * 2.5", 17.5),
        ("-(-320 // 45)", 8),
        ("+2 ** 3", 8),
        ("0.1 + 0.2", 0.3),
        ("round(2.345, 1)", 2.3),
        ("max(1, 2) - min(7) + abs(-3)", -2),
        ("7 % 4", 3),
    ],
)
def test_expressions_are_calculated(expression: str, value: float) -> None:
    assert evaluate(expression) == value


NO_ARITHMETIC = (
    *("", "1 +", "a + 1", "1 / 0", "5 % 0", "2 ** 1000", "(-8) ** 0.5", "0 ** -1", "9 ** 64", "min()", "1 if 2 else 3"),
    *("__import__('os')", "[1]", "'a' * 9", "True + 1", "1e999", "1e999 - 1e999", "round(1, 2, 3)", "1j"),
    *("round(1, ndigits=2)", "1" * 301, "-" * 299 + "1a"),
)


@pytest.mark.parametrize("expression", NO_ARITHMETIC)
def test_what_is_not_arithmetic_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        evaluate(expression)


@pytest.mark.parametrize(
    ("value", "from_unit", "to_unit", "converted"),
    [
        (1, "nm", "km", 1.852),
        (194, "degF", "degC", 90),
        (0, "degC", "degF", 32),
        (10, "kn", "km/h", 18.52),
        (1, "gal", "l", 3.785412),
        (5, "degC", "degC", 5),
        (90, "min", "h", 1.5),
    ],
)
def test_units_are_converted(value: float, from_unit: str, to_unit: str, converted: float) -> None:
    assert convert(value, from_unit, to_unit) == converted


@given(st.floats(-1000, 1000), st.sampled_from(sorted(UNITS)), st.sampled_from(sorted(UNITS)))
def test_a_conversion_there_and_back_is_none(value: float, from_unit: str, to_unit: str) -> None:
    if UNITS[from_unit][0] != UNITS[to_unit][0]:
        with pytest.raises(ValueError, match="unit of"):
            convert(value, from_unit, to_unit)
        return
    ratio = UNITS[to_unit][1] / UNITS[from_unit][1]
    assert convert(convert(value, from_unit, to_unit), to_unit, from_unit) == pytest.approx(
        value, abs=1e-6 * max(1, ratio) * 2
    )


def test_an_unknown_unit_is_named() -> None:
    with pytest.raises(ValueError, match="no unit 'furlong'"):
        convert(1, "furlong", "m")
