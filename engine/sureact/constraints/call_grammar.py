"""A tool call as one constraint: the name of one of the tools, then arguments that fit that tool.

One grammar holds both, with the text of the prompt format between them, because only then is the model asked what
follows a name: `search` and then the delimiter, or `search_web`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

from sureact.constraints.choice import lark_string
from sureact.constraints.compiler import compile_once, tokenizer_of, try_compile
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.guards.call_guard import CallGuard, GuardedCall
from sureact.constraints.guards.guarded_state import GuardedConstraint
from sureact.constraints.json_schema import JsonSchemaConstraint, json_schema
from sureact.constraints.llguidance_tokenizer import control_token_id
from sureact.errors import ConfigError, ConstraintCompileError, InternalError, UnsupportedSchemaError

if TYPE_CHECKING:
    from typing import Literal

    from llguidance import LLTokenizer

    from sureact.constraints.prepared_schema import ChosenGrammar
    from sureact.errors import ConstraintError
    from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class ControlToken:
    """A control token inside the text of a prompt format, by the name the tokenizer gives it."""

    name: str
    """Such as `<tool_call>`."""


FormatText: TypeAlias = str | Sequence[str | ControlToken]
"""Text of a prompt format. A string is always text, whatever it spells; only a `ControlToken` is a control token."""


@dataclass(frozen=True, slots=True)
class ToolCallBranch:
    """A tool as the grammar sees it."""

    name: str
    """The name as the prompt format writes it."""
    args_schema: Mapping[str, Any]
    """JSON schema of the arguments object."""


def tool_call_grammar(
    tools: Sequence[ToolCallBranch],
    *,
    prefix: FormatText,
    delimiter: FormatText,
    suffix: FormatText,
    separators: tuple[str, str] = (", ", ": "),
    additional_properties: Literal["schema", "closed"] = "closed",
    endings: Mapping[str, str] | None = None,
) -> ToolCallConstraint:
    """Constrain a text to be a call of one of `tools`: prefix, name, delimiter, arguments, suffix.

    Args:
        tools: each name once; at least one, or an ending.
        prefix: what the format writes before the name; may be empty.
        delimiter: what it writes between name and arguments; not empty.
        suffix: what it writes after the arguments; may be empty.
        separators: of the arguments' JSON, as in `json_schema`.
        additional_properties: as in `json_schema`; closed by default, because open arguments invite made-up keys.
        endings: whole texts that may stand in place of a call, by the name that they parse to, without arguments.

    Raises:
        ConfigError: no tools, a name that is empty or comes twice, arguments that are no object, or an empty delimiter.
    """
    _check_tools([*tools, *(ToolCallBranch(name, {}) for name in endings or {})])
    if not _parts(delimiter):
        raise ConfigError("The delimiter is empty; without it one name could be the start of another.")
    args = tuple(
        json_schema(
            {"type": "object", **tool.args_schema}, separators=separators, additional_properties=additional_properties
        )
        for tool in tools
    )
    return ToolCallConstraint(
        tuple(tool.name for tool in tools),
        args,
        _parts(prefix),
        _parts(delimiter),
        _parts(suffix),
        tuple((endings or {}).items()),
    )


@dataclass(frozen=True, slots=True)
class ToolCallConstraint(Constraint):
    """A call of one of several tools."""

    names: tuple[str, ...]
    args: tuple[JsonSchemaConstraint, ...]
    """One per name."""
    prefix: tuple[str | ControlToken, ...]
    delimiter: tuple[str | ControlToken, ...]
    suffix: tuple[str | ControlToken, ...]
    endings: tuple[tuple[str, str], ...] = ()
    """Name and text of what may stand in place of a call."""

    @property
    def cache_key(self) -> str:
        """Names, texts and the keys of the arguments."""
        texts = [[_key(part) for part in parts] for parts in (self.prefix, self.delimiter, self.suffix)]
        return "tool_call:" + json.dumps([self.names, [args.cache_key for args in self.args], texts, self.endings])

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary, or return what an earlier call bound.

        Raises:
            ConstraintCompileError: the tokenizer has no such control token, or no arguments can satisfy a schema.
            UnsupportedSchemaError: a schema has a keyword that cannot be enforced; the message names the tool.
        """
        return compile_once(self.cache_key, vocabulary, lambda: self._compile(vocabulary))

    def _compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        tokenizer = tokenizer_of(vocabulary)
        chosen = [_chosen(name, args) for name, args in zip(self.names, self.args, strict=True)]
        grammar = self._grammar([choice.schema for choice in chosen], tokenizer)
        compiled = try_compile(grammar, vocabulary, self._control_ids(tokenizer), spells_json=True)
        if isinstance(compiled, str):
            raise ConstraintCompileError(f"The tools cannot be compiled together: {compiled.strip()}")
        if all(choice.guard is None for choice in chosen):
            return compiled
        guards = [*(choice.guard for choice in chosen), *(None for _ in self.endings)]
        calls = [GuardedCall(call.opening, guard) for call, guard in zip(self.unguarded_calls(), guards, strict=True)]
        return GuardedConstraint(compiled, CallGuard(calls), vocabulary)

    @property
    def all_names(self) -> tuple[str, ...]:
        """What a call can name: the tools, then the endings."""
        return (*self.names, *(name for name, _ in self.endings))

    def unguarded_calls(self) -> list[GuardedCall]:
        """Return how a call of each of `all_names` begins."""
        openings = [*map(self._opening, self.names), *(text.encode() for _, text in self.endings)]
        return [GuardedCall(opening, None) for opening in openings]

    def _grammar(self, schemas: Sequence[Mapping[str, Any]], tokenizer: LLTokenizer) -> str:
        """Return an alternation over the tools, each with the schema of its own arguments, and the endings."""
        calls = [f"call_{index}" for index in range(len(self.names))]
        lines = ["start: " + " | ".join([*calls, *(lark_string(text) for _, text in self.endings)])]
        for index, (name, schema) in enumerate(zip(self.names, schemas, strict=True)):
            before = _lark((*self.prefix, name, *self.delimiter), tokenizer)
            after = _lark(self.suffix, tokenizer)
            lines.append(f"call_{index}: {before} args_{index} {after}")
            lines.append(f"args_{index}: %json {json.dumps(schema)}")
        return "\n".join(lines) + "\n"

    def _control_ids(self, tokenizer: LLTokenizer) -> frozenset[int]:
        parts = (*self.prefix, *self.delimiter, *self.suffix)
        return frozenset(_control_id(part, tokenizer) for part in parts if isinstance(part, ControlToken))

    def _opening(self, name: str) -> bytes:
        """Return the text before the arguments, in which control tokens have no bytes."""
        parts = (*self.prefix, name, *self.delimiter)
        return "".join(part for part in parts if isinstance(part, str)).encode()

    def parse(self, text: str) -> tuple[str, dict[str, Any]]:
        """Return the tool's name and its arguments, judged against its schema.

        Control tokens of the format may be in `text` by name, or left out as a detokenizer does.

        Raises:
            ConstraintError: the arguments are a text that the grammar could not exclude, as in `json_schema`.
            InternalError: `text` is not a call of one of the tools, or its arguments are not valid.
        """
        for name, ending in self.endings:
            if text == ending:
                return name, {}
        for name, args in zip(self.names, self.args, strict=True):
            before = _optional_controls((*self.prefix, name, *self.delimiter))
            match = re.fullmatch(f"{before}(.*){_optional_controls(self.suffix)}", text, re.DOTALL)
            if match is not None:
                return name, args.parse(match[1])
        raise InternalError(f"The finished text {text!r} is not a call of one of {', '.join(self.names)}.")


def _check_tools(tools: Sequence[ToolCallBranch]) -> None:
    if not tools:
        raise ConfigError("tool_call_grammar takes at least one tool or ending.")
    names = [tool.name for tool in tools]
    for tool in tools:
        if not tool.name or names.count(tool.name) > 1:
            raise ConfigError(f"The tool name {tool.name!r} is {'given twice' if tool.name else 'empty'}.")
        args_type = tool.args_schema.get("type", "object")
        if args_type != "object":
            raise ConfigError(f"The arguments of the tool {tool.name!r} have type {args_type!r}; it must be 'object'.")


def _parts(text: FormatText) -> tuple[str | ControlToken, ...]:
    return tuple(part for part in ((text,) if isinstance(text, str) else text) if part != "")


def _key(part: str | ControlToken) -> list[str]:
    return ["control", part.name] if isinstance(part, ControlToken) else ["text", part]


def _lark(parts: Sequence[str | ControlToken], tokenizer: LLTokenizer) -> str:
    """Write format text as Lark: neighboring texts as one literal, control tokens by id."""
    symbols: list[str] = []
    for is_text, run in groupby(parts, key=lambda part: isinstance(part, str)):
        if is_text:
            symbols.append(lark_string("".join(part for part in run if isinstance(part, str))))
        else:
            symbols += [f"<[{_control_id(part, tokenizer)}]>" for part in run if isinstance(part, ControlToken)]
    return " ".join(symbols)


def _control_id(token: ControlToken, tokenizer: LLTokenizer) -> int:
    token_id = control_token_id(tokenizer, token.name)
    if token_id is None:
        raise ConstraintCompileError(
            f"The tokenizer has no control token {token.name!r}. Write it as text, or use another prompt format."
        )
    return token_id


def _chosen(name: str, args: JsonSchemaConstraint) -> ChosenGrammar[bool]:
    try:
        return args.grammar_for_any_vocabulary()
    except (ConstraintCompileError, UnsupportedSchemaError) as error:
        raise _of_tool(name, error) from error


def _of_tool(name: str, error: ConstraintError) -> ConstraintError:
    message = f"Arguments of the tool {name!r}: {error}"
    if isinstance(error, UnsupportedSchemaError):
        return UnsupportedSchemaError(message, keyword=error.keyword, pointer=error.pointer)
    return ConstraintCompileError(message)


def _optional_controls(parts: Sequence[str | ControlToken]) -> str:
    return "".join(
        f"(?:{re.escape(part.name)})?" if isinstance(part, ControlToken) else re.escape(part) for part in parts
    )
