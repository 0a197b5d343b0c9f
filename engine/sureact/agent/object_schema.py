"""The JSON schema of an object's fields: pydantic's, without what only repeats or cannot be satisfied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

from sureact.constraints.type_schema import TypeSchema

if TYPE_CHECKING:
    from pydantic_core import core_schema


class ObjectSchema(GenerateJsonSchema):
    """Writes the schema; given to pydantic as `schema_generator`."""

    # The function still has a default that JSON cannot carry; only the schema cannot show it.
    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012  as pydantic declares it

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: titles only repeat the names of the fields, and the model reads them."""
        return False

    def datetime_schema(self, schema: core_schema.DatetimeSchema) -> dict[str, Any]:
        """Return date and time with an offset, or without one where the type refuses it.

        The format `date-time` asks for an offset, so no value would be one of `NaiveDatetime`. Where the type takes
        both, the format stays: it is short to read, and all values can then be compared.
        """
        if schema.get("tz_constraint") == "naive":
            return TypeSchema().datetime_schema(schema)
        return super().datetime_schema(schema)
