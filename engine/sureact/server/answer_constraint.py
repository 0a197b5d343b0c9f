"""The constraint on an answer that a request asks for: `response_format`, or vLLM's `structured_outputs`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from sureact.server.api_error import ApiError
from sureact.server.field_values import one_of, read_boolean, read_list, read_object, read_text, read_texts, refuse
from sureact.server.request_fields import MISSING, Field, honored, neutral, read_fields, refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from sureact.constraints.constraint import Constraint


@dataclass(frozen=True, slots=True)
class AnswerConstraint:
    """A constraint, and where in the request it comes from."""

    make: Callable[[], Constraint]
    """Makes it; may take long, and raise what is wrong with it."""
    param: str


def _schema(value: Any, path: str) -> Mapping[str, Any] | bool:
    """Read a schema: JSON, or its text."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ApiError(f"{path} is a text that is not JSON: {error}.", param=path, code="invalid_value") from error


_SCHEMA = one_of((dict, _schema), (bool, _schema), (str, _schema), allowed="a JSON schema, as an object or as its text")

_JSON_SCHEMA_FIELDS: Sequence[Field] = (
    honored("name", "a text", read_text),
    honored("description", "a text", read_text),
    honored("schema", "a JSON schema", _SCHEMA, MISSING),
    honored("strict", "`true` or `false`", read_boolean, note="A schema is always enforced."),
)


_KIND = honored("type", "a word", read_text, MISSING)


def read_response_format(value: Any, path: str) -> AnswerConstraint | None:
    """Read the field `response_format` of a chat.

    Raises:
        ApiError: it is none of the forms that are honored.
    """
    fields, kind = _format(value, path)
    own = (honored("json_schema", "an object", read_object, MISSING),) if kind == "json_schema" else ()
    values = read_fields(fields, (_KIND, *own), path=path)
    if kind != "json_schema":
        return _of_kind(kind, path)
    place = f"{path}.json_schema"
    schema = read_fields(values["json_schema"], _JSON_SCHEMA_FIELDS, path=place)["schema"]
    return _of_schema(schema, f"{place}.schema")


def read_text_format(value: Any, path: str) -> AnswerConstraint | None:
    """Read the field `text.format` of a response, where the schema stands beside the type.

    Raises:
        ApiError: it is none of the forms that are honored.
    """
    fields, kind = _format(value, path)
    own = _JSON_SCHEMA_FIELDS if kind == "json_schema" else ()
    values = read_fields(fields, (_KIND, *own), path=path)
    return _of_schema(values["schema"], f"{path}.schema") if own else _of_kind(kind, path)


def _format(value: Any, path: str) -> tuple[Mapping[str, Any], str]:
    fields = read_object(value, path)
    kind = fields.get("type")
    if kind not in ("text", "json_object", "json_schema"):
        refuse(kind, f"{path}.type", "'text', 'json_object' or 'json_schema'")
    return fields, kind


def _of_kind(kind: str, path: str) -> AnswerConstraint | None:
    return _of_schema({"type": "object"}, path) if kind == "json_object" else None


def _choices(value: Any, path: str) -> list[str]:
    return read_texts(read_list(value, path), path)


_STRUCTURED_FIELDS: Sequence[Field] = (
    honored("json", "a JSON schema, or its text", _SCHEMA),
    honored("regex", "a regular expression", read_text),
    honored("choice", "a list of texts", _choices),
    honored("grammar", "a Lark grammar", read_text),
    honored("json_object", "`true` or `false`", read_boolean),
    neutral("structural_tag"),
    neutral("whitespace_pattern"),
    neutral("disable_fallback", True, False),
    neutral("disable_any_whitespace", True),
    neutral("disable_additional_properties", False),
)


def read_structured_outputs(value: Any, path: str) -> AnswerConstraint:
    """Read the field `structured_outputs`.

    Raises:
        ApiError: it holds not exactly one constraint.
    """
    values = read_fields(read_object(value, path), _STRUCTURED_FIELDS, path=path)
    makers = {name: values[name] for name in ("json", "regex", "choice", "grammar") if values[name] is not None}
    if values["json_object"]:
        makers["json_object"] = True
    if len(makers) != 1:
        raise ApiError(
            f"{path} holds {len(makers)} constraints; it must hold exactly one of json, regex, choice, grammar and "
            "json_object.",
            param=path,
            code="invalid_value",
        )
    ((name, given),) = makers.items()
    if name == "json":
        return _of_schema(given, f"{path}.json")
    if name == "json_object":
        return _of_schema({"type": "object"}, f"{path}.json_object")
    return AnswerConstraint(lambda: _of_text(name, given), f"{path}.{name}")


RESPONSE_FORMAT_FIELD = honored(
    "response_format",
    "an object of type `text`, `json_object` or `json_schema`",
    read_response_format,
    default_text="`text`",
)
STRUCTURED_FIELDS: Sequence[Field] = (
    honored(
        "structured_outputs",
        "an object with one of `json`, `regex`, `choice`, `grammar`",
        read_structured_outputs,
        default_text="none",
        note="`grammar` is Lark.",
    ),
    *(refused(f"guided_{name}", "Use `structured_outputs`.") for name in ("json", "regex", "choice", "grammar")),
)
"""vLLM's ways to constrain an answer: today's, and those before."""


def only_one(*constraints: AnswerConstraint | None) -> AnswerConstraint | None:
    """Return the one constraint that is given, or None.

    Raises:
        ApiError: there are two.
    """
    given = [constraint for constraint in constraints if constraint is not None]
    if len(given) > 1:
        raise ApiError(
            f"{given[0].param} and {given[1].param} both constrain the answer. Give one of them.",
            param=given[1].param,
            code="invalid_value",
        )
    return given[0] if given else None


def _of_schema(schema: Mapping[str, Any] | bool, param: str) -> AnswerConstraint:
    def make() -> Constraint:
        from sureact.constraints.json_schema import json_schema

        return json_schema(schema)

    return AnswerConstraint(make, param)


def _of_text(name: str, given: Any) -> Constraint:
    from sureact.constraints.choice import choice
    from sureact.constraints.grammar import grammar
    from sureact.constraints.regex import regex

    makers: Mapping[str, Callable[[Any], Constraint]] = {"regex": regex, "choice": choice, "grammar": grammar}
    return cast("Constraint", makers[name](given))
