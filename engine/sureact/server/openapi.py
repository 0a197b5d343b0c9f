"""`/openapi.json`: the server's routes and the fields of their bodies, for programs that read such documents.

Both come from what answers the requests, the routes and the tables of fields, so the document cannot say otherwise.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from starlette.routing import Route

from sureact.server.agent_fields import AGENT_FIELDS
from sureact.server.chat_fields import CHAT_FIELDS
from sureact.server.completions import COMPLETION_FIELDS
from sureact.server.openapi_schemas import NAMED_SCHEMAS, TOKEN_IDS
from sureact.server.request_fields import MISSING, Field
from sureact.server.response_fields import RESPONSE_FIELDS
from sureact.server.tokenize import DETOKENIZE_FIELDS, TOKENIZE_FIELDS
from sureact.server.validate import VALIDATE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette.routing import BaseRoute

    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving

BODY_FIELDS: Mapping[str, Sequence[Field]] = {
    "/v1/chat/completions": CHAT_FIELDS,
    "/v1/completions": COMPLETION_FIELDS,
    "/v1/responses": RESPONSE_FIELDS,
    "/v1/agents/run": AGENT_FIELDS,
    "/tokenize": TOKENIZE_FIELDS,
    "/detokenize": DETOKENIZE_FIELDS,
    "/validate": VALIDATE_FIELDS,
}
"""The fields of a route's body. Of a body that is not here the document only says that it is an object."""

_PLAIN_TYPES = {"a whole number": "integer", "a number": "number", "a text": "string", "a word": "string"}
_RANGE = re.compile(r"(?P<least>-?[\d,.]+) to (?P<most>-?[\d,.]+)")
_LEAST = re.compile(r"(?P<how>at least|above) (?P<value>-?[\d,.]+)")
_MOST = re.compile(r"at most (?P<value>-?[\d,.]+)")
_QUOTED = re.compile(r"`([^`]*)`")
_ENUM = re.compile(r"`[^`]*`((, | or )`[^`]*`)*")


async def answer_openapi(serving: Serving, exchange: Exchange) -> None:
    """Answer with the document."""
    await exchange.send_json(openapi_document(exchange.scope["app"].routes))


def openapi_document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of an application's routes."""
    from sureact import __version__

    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        if isinstance(route, Route) and route.include_in_schema and route.path != "/openapi.json":
            for method in sorted((route.methods or set[str]()) - {"HEAD", "OPTIONS"}):
                path = re.sub(r":\w+}", "}", route.path)
                paths.setdefault(path, {})[method.lower()] = _operation(path, method)
    return {
        "openapi": "3.1.0",
        "info": {"title": "sureact", "version": __version__, "license": {"name": "Apache-2.0"}},
        # An empty requirement stands for servers without keys, of which this document knows nothing.
        "security": [{}, {"key": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
    }


def body_schema(fields: Sequence[Field]) -> dict[str, Any]:
    """Return the schema of a body that has these fields and no others."""
    return {
        "type": "object",
        "properties": {field.name: field_schema(field) for field in fields},
        "required": [field.name for field in fields if field.default is MISSING],
        "additionalProperties": False,
    }


def field_schema(field: Field) -> dict[str, Any]:
    """Return the schema of one field: what its table says in words, as a schema.

    Raises:
        KeyError: the words are none that are known here, and the field has no schema by its name.
    """
    schema = dict(_value_schema(field))
    described = {"description": " ".join(filter(None, [_sentence(field.allowed), field.note]))}
    if field.default is MISSING:
        return described | schema
    accepted = {"type": "null"} if schema == {"type": "null"} else {"anyOf": [schema, {"type": "null"}]}
    return described | accepted | ({"deprecated": True} if field.kind == "refused" else {})


def _value_schema(field: Field) -> Mapping[str, Any]:
    """Return the schema of a field's values, `null` apart."""
    if field.kind == "refused" or field.allowed == "`null`":
        return {"type": "null"}
    if field.allowed == "`true` or `false`":
        return {"type": "boolean"}
    if _ENUM.fullmatch(field.allowed):
        return {"enum": [json.loads(value) for value in _QUOTED.findall(field.allowed)]}
    if field.allowed in _PLAIN_TYPES:
        return {"type": _PLAIN_TYPES[field.allowed]}
    if (name := field.schema or field.name) in NAMED_SCHEMAS:
        return NAMED_SCHEMAS[name]
    if field.allowed == "a list of token ids":
        return TOKEN_IDS
    if field.allowed == "an object":
        return {"type": "object"}
    kind, _, limits = field.allowed.partition(", ")
    return {"type": _PLAIN_TYPES[kind], **_limits(limits)}


def _limits(words: str) -> dict[str, float]:
    """Read the range of a number."""
    if both := _RANGE.search(words):
        return {"minimum": _number(both["least"]), "maximum": _number(both["most"])}
    limits: dict[str, float] = {}
    if least := _LEAST.search(words):
        limits["minimum" if least["how"] == "at least" else "exclusiveMinimum"] = _number(least["value"])
    if most := _MOST.search(words):
        limits["maximum"] = _number(most["value"])
    return limits


def _number(text: str) -> float:
    return cast("float", json.loads(text.replace(",", "")))


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:] + "."


def _operation(path: str, method: str) -> dict[str, Any]:
    fields = BODY_FIELDS.get(path)
    content: dict[str, Any] = {"application/json": {}}
    if fields is not None and any(field.name == "stream" for field in fields):
        content["text/event-stream"] = {}
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_"),
        "responses": {
            "200": {"description": "The answer.", "content": content},
            "default": {
                "description": "What is wrong.",
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
            },
        },
    }
    if names := re.findall(r"{(\w+)}", path):
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if method == "POST":
        schema = {"type": "object"} if fields is None else body_schema(fields)
        operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return operation


_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
