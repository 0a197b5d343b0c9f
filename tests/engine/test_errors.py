"""Errors form the tree that their module draws."""

import inspect
import re

import pytest

from sureact import errors

CLASSES = [value for value in vars(errors).values() if inspect.isclass(value)]


@pytest.mark.parametrize("error", CLASSES)
def test_an_error_is_caught_with_all_others(error: type[Exception]) -> None:
    assert issubclass(error, errors.SureactError)


def test_the_drawing_names_every_error_below_its_parent() -> None:
    """The indentation of a line is the depth of the class."""
    lines = re.findall(r"^([│├└─ ]*)(\w+Error)\b", errors.__doc__ or "", re.MULTILINE)
    depth_of = {name: len(indentation) for indentation, name in lines}
    own_bases = {cls: [base for base in cls.__bases__ if base in CLASSES] for cls in CLASSES}
    assert depth_of == {cls.__name__: 4 * len(_ancestors(cls, own_bases)) for cls in CLASSES}


def test_an_unsupported_keyword_says_which_and_where() -> None:
    error = errors.UnsupportedSchemaError("no", keyword="uniqueItems", pointer="/properties/a/uniqueItems")
    assert (str(error), error.keyword, error.pointer) == ("no", "uniqueItems", "/properties/a/uniqueItems")


def _ancestors(cls: type, own_bases: dict[type, list[type]]) -> list[type]:
    bases = own_bases[cls]
    return [*bases, *_ancestors(bases[0], own_bases)] if bases else []
