"""From a Python type to a constraint, and back from text to a value of the type.

Values are spelled as JSON spells them (`true`, `null`, `"2026-01-31"`); only a `Literal` or Enum of texts is the bare
text.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
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

from typing_extensions import TypeAliasType, TypedDict

from sureact.constraints.choice import choice
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.json_schema import json_schema
from sureact.constraints.outlines_type import is_outlines_type, outlines_constraint
from sureact.errors import ConfigError, ConstraintError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import TypeAdapter

    from sureact.tokens.vocabulary import Vocabulary


_UNKNOWN_TYPE = re.compile(r"core schema for (.+?)\. Set ", re.DOTALL)
"""Where pydantic's error names the type that it cannot describe."""


def constraint_of(type_or_constraint: object) -> Constraint:
    """Return the constraint for whatever a caller may give where a constraint is expected.

    Args:
        type_or_constraint: a `Constraint`; a Python type (`Literal`, Enum, `int`, `float`, `bool`, `str`, date, time,
            `list[...]`, `set[...]`, `dict[...]`, unions, TypedDict, dataclass, pydantic model); a callable, which
            stands for its parameters; or an outlines type.

    Raises:
        ConfigError: no JSON schema describes the type.
    """
    if isinstance(type_or_constraint, Constraint):
        return type_or_constraint
    if isinstance(type_or_constraint, str | Mapping | list | tuple | set):
        raise ConfigError(
            f"{type_or_constraint!r} is no type. Say what it is with json_schema(...), regex(...), grammar(...) or "
            "choice(...)."
        )
    if is_outlines_type(type_or_constraint):
        return outlines_constraint(type_or_constraint)
    texts = _texts_of(type_or_constraint)
    if texts is not None:
        return TypedConstraint(choice(list(texts)), texts.__getitem__)
    if _is_function(type_or_constraint):
        return _parameters_constraint(cast("Callable[..., object]", type_or_constraint))
    return _json_constraint(type_or_constraint, repr(type_or_constraint))


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
    if isinstance(python_type, TypeAliasType):
        return _texts_of(python_type.__value__)
    members: list[tuple[object, object]] = []
    if get_origin(python_type) is Literal:
        members = [(value, value) for value in get_args(python_type)]
    elif isinstance(python_type, type) and issubclass(python_type, Enum):
        members = [(member.value, member) for member in python_type]
    if not members or not all(isinstance(text, str) for text, _ in members):
        return None
    return {str(cast("str", text)): member for text, member in members}


def _is_function(value: object) -> bool:
    """Whether a value is called, not instantiated or subscripted: generics of typing are callable too."""
    is_notation = type(value).__module__ in ("typing", "typing_extensions") or get_origin(value) is not None
    return callable(value) and not isinstance(value, type) and not is_notation


def _json_constraint(python_type: object, name: str) -> Constraint:
    adapter = _adapter(python_type, name)

    def validate(value: object) -> object:
        # In pydantic's JSON mode a strict type takes an array for a set, and a text for a date or a key.
        return adapter.validate_json(json.dumps(value))

    return TypedConstraint(_closed_schema(adapter, name), validate)


def _parameters_constraint(function: Callable[..., object]) -> Constraint:
    """Constrain to a JSON object with the parameters of `function`; it parses to the arguments that were given."""
    from pydantic import ConfigDict

    name = getattr(function, "__name__", type(function).__name__)
    fields: dict[str, Any] = {}
    for parameter in _signature(function, name).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise ConfigError(
                f"{name} takes `{parameter}`; a constraint needs parameters that have names. Give a function that "
                f"names what {name} is to be called with, such as `def call(text: str): {name}(text)`."
            )
        hint = Any if parameter.annotation is parameter.empty else _served(parameter.annotation, ())
        fields[parameter.name] = Required[hint] if parameter.default is parameter.empty else NotRequired[hint]
    arguments: Any = TypedDict(name, fields)  # pyright: ignore[reportArgumentType]  made from a signature
    arguments.__pydantic_config__ = ConfigDict(extra="forbid")
    return _json_constraint(arguments, f"The function {name}")


def _signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except Exception as error:  # an annotation written as text is the user's code and may raise anything
        raise ConfigError(
            f"The parameters of {name} cannot be read: {type(error).__name__}: {error}. Give a function with annotated "
            f"parameters that calls {name}."
        ) from error


def _adapter(python_type: object, name: str) -> TypeAdapter[Any]:
    from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

    try:
        return TypeAdapter(_served(python_type, ()))
    except PydanticSchemaGenerationError as error:
        unknown = _UNKNOWN_TYPE.search(error.message)
        part = unknown[1] if unknown and unknown[1] != name else "it"
        raise ConfigError(
            f"{name} cannot be a constraint: {part} is no type of JSON values, and no dataclass, TypedDict, "
            "NamedTuple, Enum or pydantic model. Make it one of these, or give json_schema(...)."
        ) from error
    except AssertionError as error:  # what pydantic has for a Literal without values
        raise ConfigError(
            f"{name} cannot be a constraint: it has a Literal without values. List at least one, as in "
            "Literal['yes', 'no']."
        ) from error
    except (PydanticUserError, NameError, TypeError) as error:
        reason = str(error).partition("\n")[0].removesuffix(".")
        raise ConfigError(f"{name} cannot be a constraint: {reason}. Correct it, or give json_schema(...).") from error


def _closed_schema(adapter: TypeAdapter[Any], name: str) -> Constraint:
    from pydantic import PydanticUserError

    from sureact.constraints.type_schema import TypeSchema

    try:
        schema = adapter.json_schema(schema_generator=TypeSchema)
    except PydanticUserError as error:
        reason = error.message.partition("\n")[0].removesuffix(".")
        raise ConfigError(
            f"{name} cannot be a constraint: it has a part without a JSON schema ({reason}). Leave that part out, or "
            "give json_schema(...)."
        ) from error
    return json_schema(schema, additional_properties="closed")


def _served(python_type: Any, within: tuple[object, ...]) -> Any:
    """Replace each `typing.TypedDict` in a type: before Python 3.12 pydantic serves only that of typing_extensions."""
    if is_typeddict(python_type):
        return _served_typed_dict(python_type, within)
    origin, args = get_origin(python_type), get_args(python_type)
    if origin is None or origin is Literal or not any(map(_holds_typed_dict, args)):
        return python_type
    if origin is Annotated:
        return Annotated[(_served(args[0], within), *args[1:])]
    served = tuple(_served(arg, within) for arg in args)
    if origin in (Union, UnionType):
        return Union[served]  # noqa: UP007
    return origin[served if len(served) != 1 else served[0]]


def _served_typed_dict(python_type: Any, within: tuple[object, ...]) -> Any:
    if python_type in within:
        raise ConfigError(
            f"{python_type.__name__} holds itself, which typing.TypedDict cannot say before Python 3.12. Import "
            "TypedDict from typing_extensions."
        )
    required: frozenset[str] = python_type.__required_keys__
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(python_type, include_extras=True).items():
        served = _served(_without_presence(hint), (*within, python_type))
        fields[name] = Required[served] if name in required else NotRequired[served]
    served_type: Any = TypedDict(python_type.__name__, fields)  # pyright: ignore[reportArgumentType]
    if hasattr(python_type, "__pydantic_config__"):
        served_type.__pydantic_config__ = python_type.__pydantic_config__
    return served_type


def _without_presence(hint: Any) -> Any:
    """Take `Required[...]` and `NotRequired[...]` off a hint."""
    return get_args(hint)[0] if get_origin(hint) in (Required, NotRequired) else hint


def _holds_typed_dict(python_type: object) -> bool:
    return is_typeddict(python_type) or any(map(_holds_typed_dict, get_args(python_type)))
