"""Schemas of the fields whose tables say in words only what they hold, by name, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sureact.server.guard_fields import RUNAWAY_NAMES


def _object(required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


_TEXT: dict[str, Any] = {"type": "string"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}
TOKEN_IDS: dict[str, Any] = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": (1 << 31) - 1}}
"""Whether the model has them is not looked at."""
_PART = _object(("type", "text"), type={"const": "text"}, text=_TEXT)
_CONTENT = {"anyOf": [_TEXT, {"type": "array", "items": _PART}]}
_ARGUMENTS = {"anyOf": [{"type": "object"}, {"type": "string", "contentMediaType": "application/json"}]}
_CALL = _object(
    ("function",),
    id=_TEXT,
    type={"const": "function"},
    function=_object(("name",), name=_TEXT, arguments=_ARGUMENTS),
)
_MESSAGE = {
    "oneOf": [
        _object(("role", "content"), role={"enum": ["system", "developer", "user"]}, content=_CONTENT, name=_TEXT),
        _object(
            ("role",),
            role={"const": "assistant"},
            content=_CONTENT,
            tool_calls={"type": "array", "items": _CALL},
            reasoning_content=_TEXT,
            name=_TEXT,
        ),
        _object(("role", "content"), role={"const": "tool"}, content=_CONTENT, tool_call_id=_TEXT, name=_TEXT),
    ]
}
_JSON_SCHEMA = {"type": ["object", "boolean"]}
_FUNCTION_NAME = {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$"}
_FUNCTION = _object(
    ("name",), name=_FUNCTION_NAME, description=_TEXT, parameters={"type": "object"}, strict={"type": "boolean"}
)

_NAMED_FUNCTION = _object(("type", "function"), type={"const": "function"}, function=_object(("name",), name=_TEXT))
_NAMED_TOOL = _object(("type", "name"), type={"const": "function"}, name=_TEXT)


def _tool_choice(named: Mapping[str, Any], *, is_flat: bool) -> dict[str, Any]:
    kind = {"const": "allowed_tools"}
    members: dict[str, Any] = {
        "mode": {"enum": ["auto", "required"]},
        "tools": {"type": "array", "items": named, "minItems": 1, "maxItems": 128},
    }
    allowed = (
        _object(("type", "mode", "tools"), type=kind, **members)
        if is_flat
        else _object(("type", "allowed_tools"), type=kind, allowed_tools=_object(("mode", "tools"), **members))
    )
    return {"anyOf": [{"enum": ["none", "auto", "required"]}, named, allowed]}


def _of_item(kind: str, required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return _object(("type", *required), type={"const": kind}, id=_TEXT, status=_TEXT, **properties)


def _parts(*kinds: str, **properties: Any) -> dict[str, Any]:
    part = _object(("type", "text"), type={"enum": list(kinds)}, text=_TEXT, **properties)
    return {"anyOf": [_TEXT, {"type": "array", "items": part}]}


_ANY_LIST = {"type": "array"}
_ITEM_PARTS = _parts("input_text", "output_text", annotations=_ANY_LIST, logprobs=_ANY_LIST)
_ROLE = {"enum": ["user", "assistant", "system", "developer"]}
_ITEMS = [
    _object(
        ("role", "content"),
        type={"const": "message"},
        role=_ROLE,
        content=_ITEM_PARTS,
        id=_TEXT,
        status=_TEXT,
        phase=_TEXT,
    ),
    _of_item("function_call", ("call_id", "name", "arguments"), call_id=_TEXT, name=_TEXT, arguments=_ARGUMENTS),
    _of_item(
        "function_call_output",
        ("call_id", "output"),
        call_id=_TEXT,
        output=_parts("input_text", annotations=_ANY_LIST, logprobs=_ANY_LIST),
        name=_TEXT,
    ),
    _of_item(
        "reasoning", (), content=_parts("reasoning_text"), summary={"const": []}, encrypted_content={"type": "null"}
    ),
]
_LIMIT = {"type": "integer", "minimum": 1}
_FLAT_TOOL = _object(
    ("type", "name"),
    type={"const": "function"},
    name=_FUNCTION_NAME,
    description=_TEXT,
    parameters={"type": "object"},
    strict={"type": "boolean"},
)


NAMED_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "messages": {"type": "array", "items": _MESSAGE, "minItems": 1, "maxItems": 10_000},
    "prompt": {"anyOf": [_TEXT, TOKEN_IDS, {"type": "array", "items": {"anyOf": [_TEXT, TOKEN_IDS]}, "minItems": 1}]},
    "tokens": TOKEN_IDS,
    "stop": {"anyOf": [{**_TEXT, "minLength": 1}, {**_TEXTS, "items": {**_TEXT, "minLength": 1}, "maxItems": 64}]},
    "tool_names": _TEXTS,
    "stream_options": _object(include_usage={"type": "boolean"}),
    "tools": {
        "type": "array",
        "maxItems": 128,
        "items": _object(("type", "function"), type={"const": "function"}, function=_FUNCTION),
    },
    "tool_choice": _tool_choice(_NAMED_FUNCTION, is_flat=False),
    "response_format": {
        "oneOf": [
            _object(("type",), type={"enum": ["text", "json_object"]}),
            _object(
                ("type", "json_schema"),
                type={"const": "json_schema"},
                json_schema=_object(
                    ("schema",), name=_TEXT, description=_TEXT, schema=_JSON_SCHEMA, strict={"type": "boolean"}
                ),
            ),
        ]
    },
    "structured_outputs": {
        "oneOf": [
            _object(("json",), json={"type": ["object", "boolean", "string"]}),
            _object(("regex",), regex=_TEXT),
            _object(("choice",), choice=_TEXTS),
            _object(("grammar",), grammar=_TEXT),
            _object(("json_object",), json_object={"const": True}),
        ]
    },
    "input": {
        "anyOf": [
            {**_TEXT, "minLength": 1},
            {"type": "array", "items": {"oneOf": _ITEMS}, "minItems": 1, "maxItems": 10_000},
        ]
    },
    "response_metadata": {
        "type": "object",
        "maxProperties": 16,
        "propertyNames": {"maxLength": 64},
        "additionalProperties": {**_TEXT, "maxLength": 512},
    },
    "include": {"type": "array", "items": {"const": "message.output_text.logprobs"}},
    "flat_tools": {"type": "array", "maxItems": 128, "items": _FLAT_TOOL},
    "flat_tool_choice": _tool_choice(_NAMED_TOOL, is_flat=True),
    "response_text": _object(
        format={
            "oneOf": [
                _object(("type",), type={"enum": ["text", "json_object"]}),
                _object(
                    ("type", "schema"),
                    type={"const": "json_schema"},
                    name=_TEXT,
                    description=_TEXT,
                    schema=_JSON_SCHEMA,
                    strict={"type": "boolean"},
                ),
            ]
        },
        verbosity={"const": "medium"},
    ),
    "reasoning": _object(effort={"const": "none"}, context={"const": "auto"}, mode={"const": "standard"}),
    "response_stream_options": _object(include_usage={"const": True}, include_obfuscation={"const": False}),
    "runaway": {
        "anyOf": [
            {"type": "boolean"},
            {**_object((), **dict.fromkeys(RUNAWAY_NAMES, _LIMIT)), "minProperties": 1},
        ]
    },
    "on_max_tokens": {"enum": ["cut", "close"]},
    "chat_template_kwargs": {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
    },
}
