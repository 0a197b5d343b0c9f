"""From a Python type to a constraint, and back from text to a value of the type.

Values are spelled as JSON spells them (`true`, `null`, `"2026-01-31"`); only a `Literal` or Enum of texts is the bare
text.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from sureact.constraints.choice import choice
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.json_schema import json_schema
from sureact.constraints.outlines_type import is_outlines_type, outlines_constraint
from sureact.errors import ConfigError, ConstraintError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter

    from sureact.tokens.vocabulary import Vocabulary


def constraint_of(type_or_constraint: object) -> Constraint:
    """Return the constraint for whatever a caller may give where a constraint is expected.

    Args:
        type_or_constraint: a `Constraint`; a Python type (`Literal`, Enum, `int`, `float`, `bool`, `str`, date, time,
            `list[...]`, `dict[...]`, unions, TypedDict, dataclass, pydantic model); a callable, which stands for its
            parameters; or an outlines type.

    Raises:
        ConfigError: no JSON schema describes the type.
    """
    if isinstance(type_or_constraint, Constraint):
        return type_or_constraint
    if is_outlines_type(type_or_constraint):
        return outlines_constraint(type_or_constraint)
    texts = _texts_of(type_or_constraint)
    if texts is not None:
        return TypedConstraint(choice(list(texts)), texts.__getitem__)
    if inspect.isroutine(type_or_constraint):
        return _parameters_constraint(cast("Callable[..., object]", type_or_constraint))
    return _json_constraint(type_or_constraint)


@dataclass(frozen=True, slots=True)
class TypedConstraint(Constraint):
    """A constraint on text, and the way back to a Python value."""

    inner: Constraint
    convert: Callable[[Any], object]
    """From the value that `inner.parse` returns."""

    @property
    def cache_key(self) -> str:
        """That of the text's constraint: the conversion allows no other texts."""
        return self.inner.cache_key

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind the text's constraint to a vocabulary."""
        return self.inner.compile(vocabulary)

    def parse(self, text: str) -> object:
        """Return the value of the type that `text` spells.

        Raises:
            InternalError: the text violates its constraint.
            ConstraintError: a validator of the type's own, which its JSON schema does not show, refuses the value, or
                the grammar could not exclude the text, as in `json_schema`.
        """
        value = self.inner.parse(text)
        try:
            return self.convert(value)
        except ValueError as error:
            raise ConstraintError(
                f"{text!r} fits the type's JSON schema, but the type's own validation refuses it: {error}"
            ) from error


def _texts_of(python_type: object) -> dict[str, object] | None:
    """Return text to value for a Literal or Enum whose values are all texts, else None."""
    members: list[tuple[object, object]] = []
    if get_origin(python_type) is Literal:
        members = [(value, value) for value in get_args(python_type)]
    elif isinstance(python_type, type) and issubclass(python_type, Enum):
        members = [(member.value, member) for member in python_type]
    if not members or not all(isinstance(text, str) for text, _ in members):
        return None
    return {cast("str", text): member for text, member in members}


def _json_constraint(python_type: object) -> Constraint:
    adapter = _adapter(python_type)
    return TypedConstraint(_closed_schema(adapter, python_type), adapter.validate_python)


def _parameters_constraint(function: Callable[..., object]) -> Constraint:
    """Constrain to a JSON object with the parameters of `function`; it parses to the arguments that were given."""
    from pydantic import BaseModel, ConfigDict, create_model

    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(f"{function.__name__} takes *{name}; a constraint needs named parameters.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[name] = (_served(hints.get(name, Any)), default)
    config = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    model: type[BaseModel] = create_model(function.__name__, __config__=config, **fields)

    def arguments(value: Any) -> dict[str, object]:
        parsed = model.model_validate(value)
        return {name: getattr(parsed, name) for name in fields if name in parsed.model_fields_set}

    return TypedConstraint(_closed_schema(_adapter(model), function), arguments)


def _adapter(python_type: object) -> TypeAdapter[Any]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(_served(python_type))
    except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
        raise ConfigError(f"{python_type!r} is no type that a constraint can be made of.") from error


def _closed_schema(adapter: TypeAdapter[Any], python_type: object) -> Constraint:
    from pydantic import PydanticUserError

    try:
        return json_schema(adapter.json_schema(), additional_properties="closed")
    except PydanticUserError as error:
        raise ConfigError(f"{python_type!r} has no JSON schema: {error.message}") from error


def _served(python_type: Any) -> Any:
    """Replace each `typing.TypedDict` in a type: before Python 3.12 pydantic serves only that of typing_extensions."""
    if is_typeddict(python_type):
        from typing_extensions import TypedDict

        required: frozenset[str] = python_type.__required_keys__
        fields = {
            name: Required[_served(hint)] if name in required else NotRequired[_served(hint)]
            for name, hint in get_type_hints(python_type, include_extras=True).items()
        }
        return TypedDict(python_type.__name__, fields)  # pyright: ignore[reportArgumentType]
    origin, args = get_origin(python_type), get_args(python_type)
    if origin is None or origin is Literal or not any(map(_holds_typed_dict, args)):
        return python_type
    if origin is Annotated:
        return Annotated[(_served(args[0]), *args[1:])]
    served = tuple(_served(arg) for arg in args)
    return Union[served] if origin in (Union, UnionType) else origin[served]  # noqa: UP007


def _holds_typed_dict(python_type: object) -> bool:
    return is_typeddict(python_type) or any(map(_holds_typed_dict, get_args(python_type)))
