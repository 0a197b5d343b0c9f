"""JSON text that is valid under a JSON schema."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, cast

from sureact.constraints.compiler import GrammarConstraint
from sureact.constraints.schema.check import check_schema
from sureact.constraints.schema.fault import schema_error
from sureact.constraints.schema.judge import UnexcludedJsonError, json_validator, parse_json
from sureact.constraints.schema.object_closing import close_objects
from sureact.constraints.schema.preparation import prepare_schema, with_null
from sureact.errors import ConfigError, ConstraintCompileError, ConstraintError, InternalError

if TYPE_CHECKING:
    from jsonschema.protocols import Validator
    from llguidance import LLTokenizer

    from sureact.constraints.schema.keywords import Schema

_ITEM_SEPARATOR = re.compile(r"[ \t\r\n]*,[ \t\r\n]*")
_KEY_SEPARATOR = re.compile(r"[ \t\r\n]*:[ \t\r\n]*")


def json_schema(
    schema: Mapping[str, Any] | bool | str,
    *,
    separators: tuple[str, str] = (", ", ": "),
    whitespace: Literal["any"] | None = None,
    additional_properties: Literal["schema", "closed"] = "schema",
    key_order: Literal["schema"] = "schema",
    ensure_ascii: bool = False,
    format: Literal["assert"] = "assert",  # noqa: A002  the keyword's own name
) -> JsonSchemaConstraint:
    """Constrain a text to be JSON that is valid under `schema`.

    The schema is checked when the constraint is compiled.

    Args:
        schema: the schema, or its JSON text; its draft is that of `$schema`, else 2020-12.
        separators: texts between members and between key and value, as in `json.dumps`.
        whitespace: None for none but the separators; `"any"` for any amount wherever JSON allows it, and then
            `separators` is not used. Greedy decoding can loop on free whitespace.
        additional_properties: `"schema"` takes the schema as it is; `"closed"` forbids other keys in every object that
            declares `properties` and does not say.
        key_order: `"schema"`: keys come in the order in which the schema declares them.
        ensure_ascii: False: characters outside ASCII may be written as they are or as escapes.
        format: `"assert"`: known formats are enforced, unknown ones are annotations.

    Raises:
        ConfigError: an option is not one of these, or `schema` is neither a schema nor its text.
    """
    _require(key_order == "schema", "key_order", key_order, "'schema'")
    _require(ensure_ascii is False, "ensure_ascii", ensure_ascii, "False")
    _require(format == "assert", "format", format, "'assert'")
    _require(whitespace in (None, "any"), "whitespace", whitespace, "None or 'any'")
    _require(
        additional_properties in ("schema", "closed"),
        "additional_properties",
        additional_properties,
        "'schema' or 'closed'",
    )
    _check_separators(separators)
    return JsonSchemaConstraint(
        _schema_text(schema),
        item_separator=separators[0],
        key_separator=separators[1],
        free_whitespace=whitespace == "any",
        closed=additional_properties == "closed",
    )


@dataclass(frozen=True, slots=True)
class JsonSchemaConstraint(GrammarConstraint):
    """JSON valid under a schema, in the spellings that the options leave."""

    schema_text: str
    """The schema as JSON text, its keys in the user's order."""
    item_separator: str
    key_separator: str
    free_whitespace: bool
    closed: bool

    @property
    def cache_key(self) -> str:
        """The schema and the options."""
        options = [self.item_separator, self.key_separator, self.free_whitespace, self.closed]
        return f"json_schema:{json.dumps(options)}{self.schema_text}"

    @property
    def schema(self) -> Schema:
        """A copy of the schema as it was given."""
        return json.loads(self.schema_text)

    def prepared_schema(self) -> dict[str, Any]:
        """Return the schema that the grammar is built from, with the spelling options under `x-guidance`.

        Raises:
            ConstraintCompileError: malformed.
            UnsupportedSchemaError: a keyword cannot be enforced.
        """
        schema = self.schema
        check_schema(schema)
        options: dict[str, Any] = {"whitespace_flexible": True}
        if not self.free_whitespace:
            # Both are regexes to llguidance.
            options = {
                "whitespace_flexible": False,
                "item_separator": re.escape(self.item_separator),
                "key_separator": re.escape(self.key_separator),
            }
        options["json_allow_general_unicode_escapes"] = True
        return {**prepare_schema(schema, closed=self.closed), "x-guidance": options}

    def grammar(self, tokenizer: LLTokenizer) -> str:
        """Return llguidance's own form of the prepared schema."""
        from llguidance import LLMatcher

        schema_text = json.dumps(self.prepared_schema())
        try:
            return LLMatcher.grammar_from_json_schema(schema_text)
        except ValueError as error:  # a lone surrogate in a key or constant: no UTF-8 text can hold it
            raise ConstraintCompileError(f"The JSON schema cannot be read: {error}.") from error

    def compile_error(self, reason: str) -> ConstraintError:
        """Return the error that names the keyword at fault and its place, where `reason` lets them be found."""
        return schema_error(reason, self.schema)

    def parse(self, text: str) -> Any:
        """Return the JSON value of `text`, judged against the schema.

        Raises:
            ConstraintError: a text that the grammar could not exclude: a key twice in an open object, a number that is
                not finite, or more digits or levels than Python reads.
            InternalError: not strict JSON, or not valid.
        """
        try:
            value = parse_json(text)
            # The first error, not best_match: it is enough to condemn, and there should be none.
            fault = next(_validator(self.schema_text, self.closed).iter_errors(value), None)
        except (UnexcludedJsonError, RecursionError) as error:
            raise ConstraintError(
                f"The finished text {text!r} is no value: {error}. The grammar cannot exclude it; give the value a "
                "schema with declared properties and additionalProperties false, or a minimum and a maximum."
            ) from error
        except ValueError as error:
            raise InternalError(f"The finished text {text!r} is not strict JSON: {error}.") from error
        if fault is not None:
            raise InternalError(f"The finished text {text!r} violates its schema: {fault.message}.")
        return value


@lru_cache(maxsize=256)
def _validator(schema_text: str, closed: bool) -> Validator:
    schema = with_null(json.loads(schema_text))
    return json_validator(close_objects(schema) if closed else schema, check_formats=True)


def _schema_text(schema: object) -> str:
    if isinstance(schema, str):
        try:
            schema = parse_json(schema)
        except ValueError as error:
            raise ConfigError(f"The schema text is not JSON: {error}.") from error
    if not isinstance(schema, bool | Mapping):
        raise ConfigError(f"The schema is {type(schema).__name__}; it must be a mapping, a boolean, or JSON text.")
    try:
        plain = schema if isinstance(schema, bool) else dict(cast("Mapping[str, Any]", schema))
        return json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"The schema is not JSON: {error}.") from error


def _check_separators(separators: tuple[str, str]) -> None:
    _require(
        len(separators) == 2
        and bool(_ITEM_SEPARATOR.fullmatch(separators[0]) and _KEY_SEPARATOR.fullmatch(separators[1])),
        "separators",
        separators,
        "a comma and a colon, each alone or with JSON whitespace around it",
    )


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise ConfigError(f"{name} is {value!r}; json_schema takes {allowed}.")
