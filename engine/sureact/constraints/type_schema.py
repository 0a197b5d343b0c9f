"""The JSON schema of a Python type: pydantic's, but for what pydantic then refuses or is silent about.

Its formats for dates ask for an offset, which a Python time need not have; keys of a dict that are not texts have no
schema; a `Decimal` may be any text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonRef
from pydantic_core import to_json

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import core_schema

_YEAR = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_LEAP_YEAR = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP_YEAR}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_OFFSET = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"

_INTEGER = "-?(?:0|[1-9][0-9]*)"
_NUMBER = rf"{_INTEGER}(?:\.[0-9]+)?"
_KEY_OF_TYPE: dict[str, dict[str, Any]] = {
    "integer": {"pattern": f"^{_INTEGER}$"},
    "number": {"pattern": f"^{_NUMBER}$"},
    "boolean": {"enum": ["true", "false"]},
}
_SCALARS = (str, int, bool, type(None))
"""What JSON spells in one way that is read back as the same value."""
_DECIMAL_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "max_digits", "decimal_places")


class TypeSchema(GenerateJsonSchema):
    """Writes the schema; given to pydantic as `schema_generator`."""

    # A default says nothing about the texts that are allowed.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  as pydantic declares it

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> dict[str, Any]:
        """Return date and time, with an offset only where the type asks for one."""
        return _moment(f"{_DATE}[Tt]{_TIME}", schema)

    def time_schema(self, schema: core_schema.TimeSchema) -> dict[str, Any]:
        """Return a time, with an offset only where the type asks for one."""
        return _moment(_TIME, schema)

    def decimal_schema(self, schema: core_schema.DecimalSchema) -> dict[str, Any]:
        """Return a number, or its digits as a text where no limit, which a text would escape, is set."""
        number, *_ = super().decimal_schema(schema)["anyOf"]
        if any(schema.get(limit) is not None for limit in _DECIMAL_LIMITS):
            return number
        return {"anyOf": [number, {"type": "string", "pattern": f"^{_NUMBER}$"}]}

    def enum_schema(self, schema: core_schema.EnumSchema) -> dict[str, Any]:
        """Return the values of an Enum, if each of them is the same when it was written as JSON."""
        members = schema["members"]
        if not members:
            raise ConfigError(f"The Enum {schema['cls'].__name__} has no members: no value could be one of them.")
        for member in members:
            _check_spelling(schema["cls"], member, member.value, f"{schema['cls'].__name__}.{member.name}")
        return super().enum_schema(schema)

    def literal_schema(self, schema: core_schema.LiteralSchema) -> dict[str, Any]:
        """Return the values of a Literal, if each of them is the same when it was written as JSON."""
        for value in schema["expected"]:
            _check_spelling(Literal[value], value, value, "A value of a Literal")
        return super().literal_schema(schema)

    def dict_schema(self, schema: core_schema.DictSchema) -> dict[str, Any]:
        """Return a dict whose keys are the JSON spellings of the key type, as texts."""
        written = super().dict_schema(schema)
        # Pydantic lets keys through that do not match a pattern of theirs.
        written.pop("patternProperties", None)
        if "values_schema" in schema:
            written["additionalProperties"] = self.generate_inner(schema["values_schema"])
        keys = self._key_schema(self.generate_inner(schema["keys_schema"])) if "keys_schema" in schema else {}
        written.pop("propertyNames", None)
        return {**written, "propertyNames": keys} if keys not in ({}, {"type": "string"}) else written

    def _key_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Turn the schema of a value into that of its spelling as a key."""
        if not schema:
            return {}
        if "anyOf" in schema:
            return {"anyOf": [self._key_schema(option) for option in schema["anyOf"] if option != {"type": "null"}]}
        target = self.get_schema_from_definitions(JsonRef(schema["$ref"])) if "$ref" in schema else schema
        kind = (target or {}).get("type")
        if kind == "string":
            return schema
        if kind in _KEY_OF_TYPE and not schema.keys() - {"type", "title", "description"}:
            return _KEY_OF_TYPE[kind]
        raise ConfigError(
            f"The keys of a dict have the schema {schema}; they can be texts, or int, float or bool without limits."
        )


def _check_spelling(python_type: Any, value: object, spelled: object, what: str) -> None:
    """Refuse a value that is another one, or none, when it is read from the JSON that spells it."""
    if type(spelled) in _SCALARS:
        return
    try:
        is_read = TypeAdapter(python_type).validate_json(to_json(spelled)) == value
    except ValueError:
        is_read = False
    if not is_read:
        raise ConfigError(
            f"{what} is {spelled!r}, which cannot be read back from JSON. It can be a text, a finite number, True, "
            "False or None."
        )


def _moment(pattern: str, schema: core_schema.DatetimeSchema | core_schema.TimeSchema) -> dict[str, Any]:
    match schema.get("tz_constraint"):
        case None:
            offset = f"{_OFFSET}?"
        case "naive":
            offset = ""
        case _:
            offset = _OFFSET
    return {"type": "string", "pattern": f"^{pattern}{offset}$"}
