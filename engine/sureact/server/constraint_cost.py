"""What constraints of a request may cost: bounded before anything compiles them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.server.api_error import ApiError

if TYPE_CHECKING:
    from sureact.server.server_config import ServerConfig


def check_constraint_cost(body: Mapping[str, Any], config: ServerConfig) -> None:
    """Refuse a body whose schemas, patterns, choices or grammars are larger than the server compiles.

    What is no constraint at all is left to whoever reads the field.

    Raises:
        ApiError: a limit is exceeded.
    """
    cost = _Cost(config)
    for place, schema in _schemas(body):
        cost.add_schema(_parsed(schema, place, config), place)
    structured = body.get("structured_outputs")
    if isinstance(structured, dict):
        cost.add_text(structured.get("regex"), "structured_outputs.regex", config.max_pattern_chars)
        cost.add_text(structured.get("grammar"), "structured_outputs.grammar", config.max_grammar_chars)
        choices = structured.get("choice")
        if isinstance(choices, list):
            cost.add_values(len(choices), "structured_outputs.choice")


def _schemas(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every schema of a body, and its place."""
    tools: Any = body.get("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        yield f"tools[{index}].parameters", _member(tool, "parameters")
        yield f"tools[{index}].function.parameters", _member(_member(tool, "function"), "parameters")
    response_format, text_format = body.get("response_format"), _member(body.get("text"), "format")
    yield "response_format.json_schema.schema", _member(_member(response_format, "json_schema"), "schema")
    yield "text.format.schema", _member(text_format, "schema")
    yield "structured_outputs.json", _member(body.get("structured_outputs"), "json")


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _parsed(schema: Any, place: str, config: ServerConfig) -> Any:
    """Return a schema that may be given as its text."""
    if not isinstance(schema, str):
        return schema
    try:
        return json.loads(schema)
    except RecursionError as error:
        raise _too_deep(place, config) from error
    except ValueError:  # whoever reads the field says what is wrong with it
        return None


@dataclass(slots=True)
class _Cost:
    """What was counted so far."""

    config: ServerConfig
    num_nodes: int = 0
    num_values: int = 0

    def add_schema(self, schema: Any, place: str) -> None:
        """Count all values of a schema, level by level."""
        level: list[Any] = [schema]
        for _ in range(self.config.max_json_depth):
            self.num_nodes += len(level)
            if self.num_nodes > self.config.max_schema_nodes:
                raise _too_large(place, "schemas of more than", self.config.max_schema_nodes, "values")
            level = [child for node in level if isinstance(node, dict | list) for child in self._children(node, place)]
            if not level:
                return
        raise _too_deep(place, self.config)

    def add_text(self, text: Any, place: str, most: int) -> None:
        """Check the length of a pattern or grammar."""
        if isinstance(text, str) and len(text) > most:
            raise _too_large(place, "a text of more than", most, "characters")

    def add_values(self, num_values: int, place: str) -> None:
        """Count values to choose from."""
        self.num_values += num_values
        if self.num_values > self.config.max_enum_values:
            raise _too_large(place, "more than", self.config.max_enum_values, "values to choose from")

    def _children(self, node: Any, place: str) -> list[Any]:
        if isinstance(node, list):
            return node
        enum, patterns = node.get("enum"), node.get("patternProperties")
        if isinstance(enum, list):
            self.add_values(len(enum), place)
        for pattern in (node.get("pattern"), *(patterns if isinstance(patterns, dict) else ())):
            self.add_text(pattern, place, self.config.max_pattern_chars)
        return list(node.values())


def _too_large(place: str, what: str, most: int, unit: str) -> ApiError:
    return ApiError(
        f"{place} brings {what} {most:,} {unit}, the most that this server compiles for a request. Make it smaller.",
        param=place,
        code="constraint_too_large",
    )


def _too_deep(place: str, config: ServerConfig) -> ApiError:
    return ApiError(
        f"{place} is nested deeper than {config.max_json_depth} levels.", param=place, code="constraint_too_large"
    )
