"""The output fields of a dspy predictor, and the tools that the last of them may call.

`constrain(program)` writes down, for every predictor, which fields it has and of which types; for the predictors of
`dspy.ReAct` and `dspy.ReActV2` also the tools with the schemas of their arguments, read from the module's tools and
never from a prompt. The note travels as `metadata` of the call, so it needs no adapter of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from sureact.constraints.json_schema import JsonSchemaConstraint, json_schema
from sureact.errors import ConfigError

METADATA_KEY = "sureact"
"""Where in a call's `metadata` a layout is."""

CALL_FIELDS = ("next_tool_name", "next_tool_args")
"""The fields of `dspy.ReAct` that the tools decide together."""

TOOL_CALLS_FIELD = "tool_calls"
"""The field of `dspy.ReActV2` that native calls take the place of."""


DATA_KEYWORDS = frozenset({"enum", "const", "default", "examples"})
"""Keywords whose values are no schemas."""


TEXT_KEYWORDS = frozenset({"type", "minLength", "maxLength"})
"""Keywords that a bare text can be held to."""


def is_bare(text: str) -> bool:
    """Return whether dspy's ChatAdapter, which reads line by line and strips, reads a text back as it is."""
    return text == text.strip() and "[[ ##" not in text and (not text or text.splitlines() == text.split("\n"))


@dataclass(frozen=True, slots=True)
class Field:
    """An output field: its name and the JSON schema of its value.

    In ChatAdapter's frame a schema of plain text (`{"type": "string"}`, maybe with `minLength` and `maxLength`) and an
    `enum` of texts are bare, and all else is JSON.
    """

    name: str
    schema: Mapping[str, Any]

    @property
    def is_text(self) -> bool:
        """Whether the value is any text, or maybe nothing."""
        return self._text_schema.get("type") == "string" and not set(self._text_schema) - TEXT_KEYWORDS

    @property
    def lengths(self) -> tuple[int, int | None]:
        """The least and the most characters of a text; it has at least one."""
        return max(1, self._text_schema.get("minLength", 1)), self._text_schema.get("maxLength")

    @property
    def _text_schema(self) -> Mapping[str, Any]:
        kinds: list[Mapping[str, Any]] = [kind for kind in self.schema.get("anyOf", ()) if kind != {"type": "null"}]
        return kinds[0] if len(kinds) == 1 and not set(self.schema) - {"anyOf"} else self.schema

    @property
    def choices(self) -> tuple[str, ...]:
        """The texts that the value is one of; none if it is something else."""
        values: list[object] = list(self.schema.get("enum", []))
        return tuple(map(str, values)) if all(isinstance(value, str) and is_bare(value) for value in values) else ()


@dataclass(frozen=True)
class FieldLayout:
    """The output fields of one predictor, and the tools that the last two are a call of."""

    fields: tuple[Field, ...]
    tools: Mapping[str, Mapping[str, Any]]
    """Schema of the arguments by the tool's name; empty where no call is among the fields."""

    @classmethod
    def read(cls, notation: object) -> FieldLayout:
        """Read what `write` wrote.

        Raises:
            ConfigError: it is not that.
        """
        try:
            written = cast("dict[str, Any]", notation)
            fields = tuple(Field(str(name), dict(schema)) for name, schema in written["fields"])
            return cls(fields, dict(written.get("tools", {})))
        except (TypeError, KeyError, ValueError) as error:
            raise ConfigError(
                f"metadata[{METADATA_KEY!r}] is {notation!r}; it is what constrain(...) writes."
            ) from error

    def write(self) -> dict[str, Any]:
        """Return the layout as JSON."""
        fields = [[field.name, dict(field.schema)] for field in self.fields]
        return {"fields": fields, **({"tools": dict(self.tools)} if self.tools else {})}

    @property
    def names(self) -> list[str]:
        """Names of all fields, in order."""
        return [*(field.name for field in self.fields), *(CALL_FIELDS if self.tools else ())]

    def without_calls(self) -> FieldLayout:
        """Return what is left where calls are native."""
        return replace(self, fields=tuple(field for field in self.fields if field.name != TOOL_CALLS_FIELD))

    def json_constraint(self) -> JsonSchemaConstraint:
        """Return the fields as one JSON object, in order."""
        before = {field.name: field.schema for field in self.fields}
        branches = [
            _object_of({**before, CALL_FIELDS[0]: {"const": name}, CALL_FIELDS[1]: schema})
            for name, schema in self.tools.items()
        ] or [_object_of(before)]
        whole = {"anyOf": branches} if self.tools else branches[0]
        return json_schema(with_definitions_on_top(whole), additional_properties="closed")


def _object_of(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: dict(schema) for name, schema in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }


def with_definitions_on_top(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Move all `$defs` of a schema to its top, where the references point that pydantic writes.

    dspy puts the schema of a type into that of a tool or an answer, with its `$defs` and with references that were
    made for the type alone.

    Raises:
        ConfigError: two of them have one name and differ.
    """
    definitions: dict[str, Any] = {}
    moved = cast("dict[str, Any]", _without_definitions(schema, definitions))
    return {**moved, "$defs": definitions} if definitions else moved


def _without_definitions(node: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_without_definitions(item, definitions) for item in cast("list[Any]", node)]
    if not isinstance(node, Mapping):
        return node
    kept: dict[str, Any] = {}
    for key, value in cast("Mapping[str, Any]", node).items():
        if key == "$defs" and isinstance(value, Mapping):
            for name, definition in cast("Mapping[str, Any]", value).items():
                found = _without_definitions(definition, definitions)
                if definitions.setdefault(name, found) != found:
                    raise ConfigError(f"Two types are called {name!r} and differ; rename one.")
        else:
            kept[key] = value if key in DATA_KEYWORDS else _without_definitions(value, definitions)
    return kept
