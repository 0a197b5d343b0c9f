"""A JSON object with typed fields: its schema, and the way from parsed JSON to Python values.

Tool arguments and signature fields are both such objects.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, Required, cast, get_origin

from typing_extensions import TypedDict

if TYPE_CHECKING:
    from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class ObjectField:
    """One field of an object."""

    annotation: Any
    """Python type; `Any` is any JSON."""
    desc: str = ""
    default: object = inspect.Parameter.empty
    """What stands when the field is missing; `inspect.Parameter.empty` makes the field required."""

    @property
    def is_required(self) -> bool:
        """Whether the object must hold the field."""
        return self.default is inspect.Parameter.empty


class JsonObject:
    """The type of a JSON object whose fields have Python types."""

    def __init__(self, name: str, fields: Mapping[str, ObjectField]) -> None:
        """Build schema and converter.

        Raises:
            TypeError: a type has no JSON schema, or a default is not a finite number. The message names the field.
        """
        self._adapter = _adapter(name, fields)
        self.schema = _schema(self._adapter, fields)
        """JSON schema of the object, closed, with `$defs` where types are shared or recursive."""

    def convert(self, values: Mapping[str, object]) -> dict[str, Any]:
        """Turn parsed JSON into the fields' Python types.

        Missing optional fields stay missing, but those whose annotation has a `pydantic.Field` with a default get it.

        Raises:
            ValueError: a value is refused, one line a field.
        """
        from pydantic import ValidationError

        try:
            return dict(self._adapter.validate_python(dict(values)))
        except ValidationError as error:
            raise ValueError(_one_line_per_field(error)) from error


def _adapter(name: str, fields: Mapping[str, ObjectField]) -> TypeAdapter[dict[str, Any]]:
    for field_name, field in fields.items():
        _require_json_type(field_name, field.annotation)
    return _typed_dictionary(name, {field_name: _annotation(field) for field_name, field in fields.items()})


def _typed_dictionary(name: str, annotations: dict[str, Any]) -> TypeAdapter[dict[str, Any]]:
    from pydantic import ConfigDict, TypeAdapter

    # A typed dictionary, not a model: a model refuses fields named `json`, `copy` or `_x`.
    object_type: Any = TypedDict(name, annotations)  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    object_type.__pydantic_config__ = ConfigDict(extra="forbid", arbitrary_types_allowed=False)
    return cast("TypeAdapter[dict[str, Any]]", TypeAdapter(object_type))


def _annotation(field: ObjectField) -> Any:
    from pydantic import Field

    described = Annotated[field.annotation, Field(description=field.desc)] if field.desc else field.annotation
    return described if field.is_required else NotRequired[described]


def _require_json_type(field_name: str, annotation: Any) -> None:
    from sureact.agent.object_schema import ObjectSchema

    if get_origin(annotation) in (NotRequired, Required):
        raise TypeError(f"{field_name!r} has type {annotation!r}, which is one only inside a TypedDict")
    try:
        # As a field: a `pydantic.Field` may say what has no meaning anywhere else, such as an alias.
        _typed_dictionary("Field", {field_name: annotation}).json_schema(schema_generator=ObjectSchema)
    except Exception as error:  # a type is the user's code: its own schema hooks run here and may raise anything
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise TypeError(f"{field_name!r} has type {annotation!r}, which JSON cannot carry: {reason}") from error


def _schema(adapter: TypeAdapter[dict[str, Any]], fields: Mapping[str, ObjectField]) -> dict[str, Any]:
    from sureact.agent.object_schema import ObjectSchema

    schema = adapter.json_schema(schema_generator=ObjectSchema)
    schema.pop("title", None)
    for name, field in fields.items():
        if not field.is_required:
            default = _default(name, field.default)
            if name in schema["properties"]:  # it may stand under an alias
                schema["properties"][name] |= default
    return schema


def _default(name: str, value: object) -> dict[str, Any]:
    from pydantic_core import PydanticSerializationError, to_jsonable_python

    try:
        default = to_jsonable_python(value)
    except PydanticSerializationError:
        return {}  # the function still has its default; the schema cannot show it
    try:
        json.dumps(default, allow_nan=False)
    except ValueError as error:
        raise TypeError(f"{name!r} has the default {value!r}, which JSON cannot carry: {error}") from error
    return {"default": default}


def _one_line_per_field(error: Any) -> str:
    lines = [f"{'.'.join(map(str, item['loc'])) or 'value'}: {item['msg']}" for item in error.errors()]
    return "; ".join(lines)
