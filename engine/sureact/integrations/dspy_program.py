"""Grammars for the predictors of a dspy program, so that no answer fails to parse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

import dspy
from dspy.adapters.utils import parse_value
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter

from sureact.agent.tool_sources import dspy_arguments
from sureact.constraints.json_schema import json_schema
from sureact.errors import ConfigError, ConstraintCompileError, UnsupportedSchemaError
from sureact.integrations.dspy_fields import (
    CALL_FIELDS,
    DATA_KEYWORDS,
    METADATA_KEY,
    TEXT_KEYWORDS,
    Field,
    FieldLayout,
    is_bare,
    with_definitions_on_top,
)
from sureact.option_values import require_whole

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

# dspy wraps the class in what marks it as experimental, which hides from a type checker that it is one.
_REACT_V2: type[dspy.Module] = cast("Any", dspy.ReActV2)

_Program = TypeVar("_Program", bound=dspy.Module)

_THOUGHTS = ("next_thought", "reasoning")
"""Fields that small models do not always end by themselves."""

_TEXT_CHECKS = {"type", "min_length", "max_length", "strip_whitespace", "strict", "metadata"}
"""What pydantic may check of a text without asking more than its length; dspy strips it anyway."""

_LIMITING = {"enum", "const", "format", "pattern", "maxLength"}


def constrain(
    program: _Program, *, max_thought_length: int | None = 1000, max_string_length: int | None = 500
) -> _Program:
    """Let every answer that this program gets on a sureact engine hold the fields it must, with values of their types.

    A `dspy.ReAct` and a `dspy.ReActV2` can then name no tool but theirs, with arguments of that tool's schema; the
    tools are those of the module, whatever an optimizer makes of the prompt. Call it again when signatures or tools
    have changed. Other language models do not know what this adds to a call: `release` takes it off.

    Args:
        program: a module; its predictors are changed in place.
        max_thought_length: most characters of a thought (`next_thought`, `reasoning`), after which the answer must go
            on with the next field; None for no limit.
        max_string_length: most characters of a text in a tool's arguments where the schema has no limit; None for none.

    Returns:
        The same program.

    Raises:
        ConfigError: a field has the name `completed`, or a type without a JSON schema; a schema cannot be enforced; or
            a limit is not positive; or the program is no module of dspy.
    """
    for option, value in (("max_thought_length", max_thought_length), ("max_string_length", max_string_length)):
        if value is not None:
            require_whole(option, value)
    _require_module(program)
    tools_of = {id(agent.react): agent for agent in _agents(program)}
    for name, predictor in program.named_predictors():
        agent = tools_of.get(id(predictor))
        tools = {} if agent is None else _tool_schemas(agent, max_string_length)
        layout = _layout_of(name, predictor, isinstance(agent, dspy.ReAct), tools, max_thought_length)
        kept = {key: value for key, value in _metadata(predictor).items() if key != METADATA_KEY}
        predictor.update_config(metadata={**kept, METADATA_KEY: layout.write()})
        if isinstance(agent, _REACT_V2):
            predictor.update_config(tool_choice="required")
    return program


def release(program: _Program) -> _Program:
    """Take off what `constrain` added; return the same program.

    Raises:
        ConfigError: it is no module of dspy.
    """
    _require_module(program)
    tools_of = {id(agent.react): agent for agent in _agents(program)}
    for _, predictor in program.named_predictors():
        kept = {key: value for key, value in _metadata(predictor).items() if key != METADATA_KEY}
        dropped = {"metadata", "tool_choice"} if isinstance(tools_of.get(id(predictor)), _REACT_V2) else {"metadata"}
        config = {key: value for key, value in predictor.config.items() if key not in dropped}
        predictor.config = {**config, **({"metadata": kept} if kept else {})}
    return program


def _require_module(program: object) -> None:
    if not isinstance(program, dspy.Module):
        raise ConfigError(f"The program is {program!r}; it must be a module of dspy, such as dspy.ReAct(...).")


def _metadata(predictor: Any) -> Mapping[str, Any]:
    return predictor.config.get("metadata") or {}


def _agents(program: dspy.Module) -> Iterator[Any]:
    for _, module in program.named_sub_modules(dspy.Module):
        if isinstance(module, dspy.ReAct | _REACT_V2):
            yield module


def _layout_of(
    name: str, predictor: Any, is_react: bool, tools: dict[str, dict[str, Any]], max_thought_length: int | None
) -> FieldLayout:
    fields: list[Field] = []
    for field_name, info in predictor.signature.output_fields.items():
        if is_react and field_name in CALL_FIELDS:
            continue
        # dspy calls the predictor of a program that is one `self`.
        what = f"The output {field_name!r}" + (f" of the predictor {name!r}" if name != "self" else "")
        if field_name == "completed":
            raise ConfigError(f"{what} is called as dspy's marker of the end is; rename it.")
        schema = _schema_of(what, info, tools)
        _check(what, schema)
        if field_name in _THOUGHTS and schema.get("type") == "string" and max_thought_length is not None:
            schema = {"maxLength": max(max_thought_length, schema.get("minLength", 0)), **schema}
        fields.append(Field(field_name, schema))
    return FieldLayout(tuple(fields), tools if is_react else {})


def _tool_schemas(agent: Any, max_string_length: int | None) -> dict[str, dict[str, Any]]:
    schemas: dict[str, dict[str, Any]] = {}
    for name, tool in agent.tools.items():
        args = dspy_arguments(tool)
        schema = {
            "type": "object",
            "properties": {arg: _with_limit(schema, max_string_length) for arg, schema in args.items()},
            "required": [arg for arg, schema in args.items() if "default" not in schema],
            "additionalProperties": False,
        }
        schemas[name] = with_definitions_on_top(schema)
        _check(f"The tool {name!r}", schemas[name])
    return schemas


def _check(what: str, schema: Mapping[str, Any]) -> None:
    """Refuse now what would be refused at the first answer."""
    try:
        json_schema(schema, additional_properties="closed").check()
    except (UnsupportedSchemaError, ConstraintCompileError) as error:
        raise ConfigError(f"{what} has a schema that cannot be enforced: {error}") from error


def _with_limit(schema: Any, max_length: int | None) -> Any:
    """Limit the texts of a schema that nothing else limits; small models do not always end them."""
    if isinstance(schema, list):
        return [_with_limit(item, max_length) for item in schema]
    if not isinstance(schema, dict) or max_length is None:
        return schema
    limited = {key: value if key in DATA_KEYWORDS else _with_limit(value, max_length) for key, value in schema.items()}
    is_free = schema.get("type") == "string" and not _LIMITING & set(schema)
    return {**limited, "maxLength": max_length} if is_free else limited


def _schema_of(what: str, info: FieldInfo, tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    annotation: Any = info.annotation
    if annotation in (str, dspy.Reasoning):
        return _text_schema(what, info)
    if annotation is dspy.ToolCalls and tools:
        return _tool_calls_schema(tools)
    if get_origin(annotation) is Literal or (isinstance(annotation, type) and issubclass(annotation, Enum)):
        return _choice_schema(what, info)
    if isinstance(annotation, type) and issubclass(annotation, dspy.Type):
        raise ConfigError(f"{what} is a {annotation.__name__}, which dspy reads in a way of its own; leave it alone.")
    try:
        schema = TypeAdapter(info.rebuild_annotation()).json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigError(f"{what} has a type without a JSON schema: {error}") from error
    _require_read_as_written(what, annotation, schema)
    return schema


def _text_schema(what: str, info: FieldInfo) -> dict[str, Any]:
    adapter: TypeAdapter[str] = TypeAdapter(Annotated[(str, *info.metadata)] if info.metadata else str)
    schema, core = adapter.json_schema(), cast("Mapping[str, Any]", adapter.core_schema)
    unheld = set(schema) - TEXT_KEYWORDS
    unheld |= set(core) - _TEXT_CHECKS if core["type"] == "str" else {"a validator"}
    if unheld:
        raise ConfigError(
            f"{what} is a text with {', '.join(sorted(unheld))}, to which a bare text between dspy's headers cannot be "
            "held. Take a Literal, or a pydantic model with such a field."
        )
    _require_room(what, schema)
    return schema


def _require_room(what: str, schema: Mapping[str, Any]) -> None:
    if schema.get("maxLength", 1) < 1:
        raise ConfigError(f"{what} is a text of no characters, and a bare text has one at least; allow one or more.")


def _choice_schema(what: str, info: FieldInfo) -> dict[str, Any]:
    annotation: Any = info.annotation
    if info.metadata:
        told = ", ".join(map(repr, info.metadata))
        raise ConfigError(f"{what} is one of fixed values, and is not held to {told} too; name only the values wanted.")
    if get_origin(annotation) is Literal:
        values = list(get_args(annotation))
    else:
        # dspy takes a member by its value, if that is a text, or by its name.
        has_texts = all(isinstance(member.value, str) for member in annotation)
        values = [member.value if has_texts else member.name for member in annotation]
    if all(isinstance(value, str) for value in values):
        return {"enum": _readable(what, values)}
    schema = TypeAdapter(annotation).json_schema()
    for value in schema.get("enum", [schema.get("const")]):
        if not _is_read_back(value, annotation):
            raise ConfigError(_not_read_back(what, value))
    return schema


def _is_read_back(value: object, annotation: Any) -> bool:
    """Return whether dspy makes of a choice in JSON what it stands for; it does not read all of them as JSON."""
    text = json.dumps(value, ensure_ascii=False)
    try:
        found = TypeAdapter(annotation).dump_python(parse_value(text, annotation), mode="json")
    except ValueError:  # pydantic's ValidationError is one
        return False
    return json.dumps(found, ensure_ascii=False) == text


def _require_read_as_written(what: str, annotation: Any, schema: Mapping[str, Any]) -> None:
    """Refuse a text that dspy would take for JSON, and JSON that it would take for text."""
    kinds = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    is_read_as_text = str in kinds and type(None) in kinds
    if is_read_as_text != Field("", schema).is_text:
        raise ConfigError(
            f"{what} may be a text beside other things, which dspy does not read back as it is. Take `str` or "
            "`str | None`, with lengths as options of the OutputField, or a pydantic model with such a field."
        )
    for kind in schema.get("anyOf", ()) if is_read_as_text else ():
        _require_room(what, kind)


def _readable(what: str, texts: Sequence[str]) -> list[str]:
    for text in texts:
        if not is_bare(text):
            raise ConfigError(_not_read_back(what, text))
    return list(texts)


def _not_read_back(what: str, choice: object) -> str:
    return f"{what} has the choice {choice!r}, which dspy does not read back as it is; rename it."


def _tool_calls_schema(tools: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": name}, "args": schema},
            "required": ["name", "args"],
            "additionalProperties": False,
        }
        for name, schema in tools.items()
    ]
    schema = {
        "type": "object",
        "properties": {"tool_calls": {"type": "array", "minItems": 1, "items": {"anyOf": calls}}},
        "required": ["tool_calls"],
        "additionalProperties": False,
    }
    return with_definitions_on_top(schema)
