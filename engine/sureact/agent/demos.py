"""Worked examples of a predictor, as they are given, saved, and shown to the model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sureact.agent.json_object import JsonObject
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.agent.signature import Signature

_MARKS = frozenset({"augmented"})
"""Keys that dspy's optimizers leave in demos, and that are no fields."""


class Demo(NamedTuple):
    """The fields of one demo, each of the type that the signature gives it."""

    inputs: dict[str, Any]
    outputs: dict[str, Any]
    is_complete: bool
    """Whether it has all fields of the signature."""


def checked_demos(demos: Sequence[Mapping[str, Any]], signature: Signature) -> list[Demo]:
    """Judge demos by a signature; those that lack fields come first.

    Raises:
        ConfigError: a demo has an unknown field, a value of another type, or no input or output at all.
    """
    checked = [_checked(index, demo, signature) for index, demo in enumerate(demos)]
    return sorted(checked, key=lambda demo: demo.is_complete)


def demo_json(outputs: Mapping[str, Any]) -> str:
    """Return outputs as the model is to write them."""
    return json.dumps(_jsonable(outputs), ensure_ascii=False)


def dumped_demos(demos: Sequence[Mapping[str, Any]], *, json_mode: bool) -> list[dict[str, Any]]:
    """Return copies of demos, as JSON-like values or as they are.

    Raises:
        ConfigError: a value has no JSON form.
    """
    from pydantic_core import PydanticSerializationError

    if not json_mode:
        return [dict(demo) for demo in demos]
    try:
        return [_jsonable(demo) for demo in demos]
    except (PydanticSerializationError, TypeError) as error:
        raise ConfigError(f"A demo cannot be saved as JSON: {error}.") from error


def _jsonable(values: Mapping[str, Any]) -> dict[str, Any]:
    from pydantic_core import to_jsonable_python

    return cast("dict[str, Any]", to_jsonable_python(dict(values), fallback=_as_dictionary))


def _as_dictionary(value: object) -> object:
    """Return a mapping, such as a trajectory, as what JSON has for it."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, object]", value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _checked(index: int, demo: Mapping[str, Any], signature: Signature) -> Demo:
    place = f"Demo {index}"
    if not isinstance(demo, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"{place} is {demo!r}; it must be a mapping of field names to values, or an Example.")
    values = {name: value for name, value in demo.items() if name not in _MARKS or name in signature.fields}
    unknown = [name for name in values if name not in signature.fields]
    if unknown:
        raise ConfigError(f"{place} has the unknown fields {unknown}; there are {list(signature.fields)}.")
    try:
        inputs, outputs = (
            JsonObject("Demo", given := {name: field for name, field in fields.items() if name in values}).convert(
                {name: values[name] for name in given}
            )
            for fields in (signature.inputs, signature.outputs)
        )
    except ValueError as error:
        raise ConfigError(f"{place} does not fit the types of its fields: {error}") from error
    if not outputs or (signature.inputs and not inputs):
        raise ConfigError(f"{place} has the fields {list(values)}; it needs at least one input and one output.")
    return Demo(inputs, outputs, len(values) == len(signature.fields))
