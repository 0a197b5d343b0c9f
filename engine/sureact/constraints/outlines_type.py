"""From outlines' output types to constraints. They are told by shape; outlines is imported only to read a term."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sureact.constraints.choice import choice
from sureact.constraints.grammar import grammar
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.errors import ConfigError

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint


def is_outlines_type(value: object) -> bool:
    """Whether `value` is an instance of one of outlines' own output types."""
    return type(value).__module__.partition(".")[0] == "outlines"


def outlines_constraint(term: object) -> Constraint:
    """Return the constraint that means what an outlines output type means.

    `Choice` and `JsonSchema` do not go through outlines' regexes, which drop options and keywords.

    Raises:
        ConfigError: not a type of text, such as a template.
    """
    content = cast("Any", term)
    match type(term).__name__:
        case "JsonSchema":
            _refuse_whitespace_pattern(content.whitespace_pattern)
            return json_schema(content.schema)
        case "CFG":
            return grammar(content.definition)
        case "Choice":
            return choice([str(item) for item in content.items])
        case "Regex":
            return regex(content.pattern)
        case _:
            return regex(_term_regex(term))


def _refuse_whitespace_pattern(pattern: str | None) -> None:
    if pattern is not None:
        raise ConfigError(f"whitespace_pattern is {pattern!r}; it is not supported. Use json_schema's options instead.")


def _term_regex(term: object) -> str:
    from outlines.types.dsl import Term, to_regex

    if not isinstance(term, Term):
        raise ConfigError(f"{term!r} is no output type. Give a JsonSchema, Regex, CFG, Choice or a term of them.")
    try:
        return to_regex(term)
    except (TypeError, NotImplementedError) as error:
        raise ConfigError(f"{term!r} has no regex: {error}") from error
