"""Options of a command made from the fields of a settings dataclass, whose texts below the fields are the help."""

import argparse
import ast
import inspect
import textwrap
from collections.abc import Collection, Mapping
from dataclasses import Field, fields
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sureact.cli.store_once import StoreOnce

_METAVARS = {int: "N", float: "X", str: "NAME"}


def add_field_options(
    parser: argparse.ArgumentParser, title: str, settings: type, *, skip: Collection[str] = ()
) -> None:
    """Add one option per field of a settings dataclass, `max_tokens` as `--max-tokens`.

    Args:
        parser: gets a group of options.
        title: of the group.
        settings: a dataclass whose fields are booleans, literals, numbers or texts, or one of
            these or None.
        skip: fields that get no option.
    """
    group = parser.add_argument_group(title)
    docs = field_docs(settings)
    types = get_type_hints(settings)
    for field in _fields(settings, skip):
        group.add_argument(
            f"--{field.name.replace('_', '-')}",
            default=field.default,
            help=_help(docs[field.name], field.default),
            **_reading(types[field.name], field.default, docs[field.name]),
        )


def field_values(arguments: argparse.Namespace, settings: type, *, skip: Collection[str] = ()) -> dict[str, Any]:
    """Return what the options of `add_field_options` were given, by field name."""
    return {field.name: getattr(arguments, field.name) for field in _fields(settings, skip)}


@cache
def field_docs(settings: type) -> Mapping[str, str]:
    """Return the text below each field of a class, on one line."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(settings))).body
    assert isinstance(definition, ast.ClassDef)
    docs: dict[str, str] = {}
    for statement, following in zip(definition.body, definition.body[1:], strict=False):
        match statement, following:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                docs[name] = " ".join(text.split())
            case _:
                pass
    return docs


def positive_int(text: str) -> int:
    """Read a whole number of at least 1, as the `type` of an option."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _fields(settings: type, skip: Collection[str]) -> list[Field[Any]]:
    return [field for field in fields(settings) if field.name not in skip]


def _help(doc: str, default: object) -> str:
    shown = "" if default is None or isinstance(default, bool) else f" (default: {default})"
    return f"{doc}{shown}".replace("%", "%%")


def _reading(annotation: Any, default: object, doc: str) -> dict[str, Any]:
    """Return how argparse reads a value of a type; what is on by default can be turned off."""
    if annotation is bool:
        return {"action": argparse.BooleanOptionalAction if default else "store_true"}
    if get_origin(annotation) is Literal:
        return {"choices": get_args(annotation)}
    plain = next(kind for kind in (*get_args(annotation), annotation) if kind is not type(None))
    is_file = plain is str and "file" in doc.lower().split()[:2]
    if is_file:
        return {"action": StoreOnce, "metavar": "FILE"}
    return {"type": plain, "metavar": _METAVARS[plain]}
