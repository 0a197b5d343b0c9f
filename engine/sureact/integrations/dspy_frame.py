"""Output fields in the frame of dspy's ChatAdapter: a grammar for all of it, and a guard for the values in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sureact.constraints.choice import lark_string
from sureact.constraints.compiler import compile_once, try_compile
from sureact.constraints.constraint import CompiledConstraint, Constraint
from sureact.constraints.guards.guard import Guard, GuardState
from sureact.constraints.guards.guarded_state import GuardedConstraint
from sureact.constraints.json_schema import JsonSchemaConstraint, json_schema
from sureact.errors import ConstraintCompileError, InternalError
from sureact.integrations.dspy_fields import CALL_FIELDS, Field, FieldLayout

if TYPE_CHECKING:
    from sureact.tokens.vocabulary import Vocabulary

# Anything that does not open a header: no "[[ " inside, and a first character that is visible.
_TEXT = r"/(?:[^\[\s]|\[[^\[\s])(?:[^\[]|\[[^\[]|\[\[+[^\[ ])*/"


def _length(least: int, most: int | None) -> str:
    """Return what a text of these many characters matches; blanks at its end are not read."""
    end = "" if most is None else most - 1
    return rf"/(?s:.{{{least - 1},{end}}}\S)/" if least > 1 else f"/(?s:.{{1,{'' if most is None else most}}})/"


@lru_cache(maxsize=256)
def _layout_of(text: str) -> FieldLayout:
    return FieldLayout.read(json.loads(text))


@dataclass(frozen=True)
class FrameConstraint(Constraint):
    """Fields in the frame of dspy's ChatAdapter: `[[ ## name ## ]]`, the value, and so on, to the marker at the end."""

    layout_text: str
    """The layout as JSON text."""

    @classmethod
    def of(cls, layout: FieldLayout) -> FrameConstraint:
        """Return the constraint of a layout."""
        return cls(json.dumps(layout.write()))

    @property
    def cache_key(self) -> str:
        """The layout."""
        return "dspy_frame:" + self.layout_text

    @property
    def layout(self) -> FieldLayout:
        """The fields."""
        return _layout_of(self.layout_text)

    @cached_property
    def _values(self) -> dict[str, JsonSchemaConstraint]:
        """Constraints of the values that are JSON, by field or, for arguments, by tool after a space."""
        found = {
            field.name: json_schema(field.schema, additional_properties="closed")
            for field in self.layout.fields
            if not (field.is_text or field.choices)
        }
        for name, schema in self.layout.tools.items():
            found[" " + name] = json_schema(schema, additional_properties="closed")
        return found

    def compile(self, vocabulary: Vocabulary) -> CompiledConstraint:
        """Bind to a vocabulary, or return what an earlier call bound.

        Raises:
            ConstraintCompileError, UnsupportedSchemaError: a field's schema cannot be enforced in this frame.
        """

        def bind() -> CompiledConstraint:
            compiled = try_compile(self.lark(), vocabulary, spells_json=True)
            if isinstance(compiled, str):
                raise ConstraintCompileError(f"The fields cannot be compiled together: {compiled.strip()}")
            return GuardedConstraint(compiled, FrameGuard(self._judged_values()), vocabulary)

        return compile_once(self.cache_key, vocabulary, bind)

    def lark(self) -> str:
        """Return the grammar: one rule per field, each up to and with the header after it."""
        names = [field.name for field in self.layout.fields]
        followers = [*names[1:], CALL_FIELDS[0] if self.layout.tools else "completed"]
        first = names[0] if names else followers[-1]
        rules = [f"field_{index}" for index in range(len(names))] + (["call"] if self.layout.tools else [])
        lines = [f"start: {lark_string(_header(first))} {' '.join(rules)}"]
        for index, (field, follower) in enumerate(zip(self.layout.fields, followers, strict=True)):
            lines += self._field_lines(index, field, _header(follower))
        return "\n".join([*lines, *self._call_lines()]) + "\n"

    def _field_lines(self, index: int, field: Field, header: str) -> list[str]:
        if field.is_text:
            # One terminal with the header in it: a lexer that had ended the text could not know that a header comes.
            text = f"({_TEXT} & {_length(*field.lengths)})"
            return [f"field_{index}: TEXT_{index}", f"TEXT_{index}: {text} {lark_string(chr(10) + header)}"]
        if field.choices:
            alternatives = " | ".join(lark_string(f"{text}\n\n{header}") for text in field.choices)
            return [f"field_{index}: CHOICE_{index}", f"CHOICE_{index}: {alternatives}"]
        end = lark_string("\n\n" + header)
        return [f"field_{index}: value_{index} {end}", f"value_{index}: %json {self._grammar_schema(field.name)}"]

    def _call_lines(self) -> list[str]:
        if not self.layout.tools:
            return []
        lines = ["call: " + " | ".join(f"call_{index}" for index in range(len(self.layout.tools)))]
        for index, name in enumerate(self.layout.tools):
            opening = lark_string(f"{name}\n\n{_header(CALL_FIELDS[1])}")
            end = lark_string("\n\n" + _header("completed"))
            lines.append(f"call_{index}: {opening} args_{index} {end}")
            lines.append(f"args_{index}: %json {self._grammar_schema(' ' + name)}")
        return lines

    def _grammar_schema(self, key: str) -> str:
        return json.dumps(self._values[key].grammar_for_any_vocabulary().schema)

    def _judged_values(self) -> dict[bytes, Guard]:
        """Return what judges a value beside the grammar, by the text that stands before that value."""
        judged: dict[bytes, Guard] = {}
        for key, constraint in self._values.items():
            guard = constraint.grammar_for_any_vocabulary().guard
            opening = _header(key)
            if key.startswith(" "):
                opening = f"{_header(CALL_FIELDS[0])}{key[1:]}\n\n{_header(CALL_FIELDS[1])}"
            if guard is not None:
                judged[opening.encode()] = guard
        return judged

    def parse(self, text: str) -> dict[str, Any]:
        """Return the values by field, judged once more.

        Raises:
            ConstraintError: JSON that stands for no value, as in `json_schema`.
            InternalError: the text is not these fields with such values.
        """
        found = dict(_sections(text))
        names = self.layout.names
        if list(found) != [*names, "completed"]:
            raise InternalError(f"The finished text {text!r} does not hold the fields {', '.join(names)}.")
        values: dict[str, Any] = {}
        for field in self.layout.fields:
            judge = self._values.get(field.name)
            values[field.name] = judge.parse(found[field.name]) if judge else found[field.name]
            if field.choices and found[field.name] not in field.choices:
                raise InternalError(f"The finished text {text!r} has a value of {field.name} that is not allowed.")
        if self.layout.tools:
            name = found[CALL_FIELDS[0]]
            if name not in self.layout.tools:
                raise InternalError(f"The finished text {text!r} names no tool of {', '.join(self.layout.tools)}.")
            values |= {CALL_FIELDS[0]: name, CALL_FIELDS[1]: self._values[" " + name].parse(found[CALL_FIELDS[1]])}
        return values


def _header(name: str) -> str:
    return "[[ ## completed ## ]]" if name == "completed" else f"[[ ## {name} ## ]]\n"


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each section, as dspy's ChatAdapter finds them."""
    parts: Sequence[str] = re.split(r"^\[\[ ## (\w+) ## \]\]", text, flags=re.MULTILINE)
    for name, value in zip(parts[1::2], parts[2::2], strict=True):
        yield name, value.strip()


_OTHER_LINE_BREAKS = tuple(mark.encode() for mark in "\x85\u2028\u2029")
"""What ends a line for dspy too, and may stand in a text of JSON as it is: a header could follow inside a value."""


class FrameGuard(Guard):
    """Judges the values of JSON in a frame, each by the text that stands before it, and allows no odd line breaks.

    A value ends at the first line feed: JSON spells one as an escape. So the text before a value, which has one,
    cannot be inside another value.
    """

    def __init__(self, judged: Mapping[bytes, Guard]) -> None:
        self._judged = dict(judged)

    def new_state(self) -> FrameGuardState:
        """Return a position at the start of the text."""
        return FrameGuardState(self._judged)


class _Position(NamedTuple):
    num_bytes: int
    start: int
    value: GuardState | None
    place: object


class FrameGuardState(GuardState):
    """A position in one frame."""

    def __init__(self, judged: Mapping[bytes, Guard]) -> None:
        self._judged = judged
        self._text = bytearray()
        self._start = 0  # of the value that is read
        self._value: GuardState | None = None

    def feed(self, data: bytes) -> bool:
        """Read on; False when a value cannot become valid, or ended before it was."""
        return all(self._feed_line(line) for line in data.splitlines(keepends=True))

    def _feed_line(self, line: bytes) -> bool:
        self._text += line
        recent = self._text[-len(line) - 2 :]
        if any(mark in recent for mark in _OTHER_LINE_BREAKS):
            return False
        if self._value is not None:
            if not self._value.feed(line.rstrip(b"\n")):
                return False
            if line.endswith(b"\n"):
                is_valid = self._value.can_end()
                self._value = None
                return is_valid
        elif line.endswith(b"\n"):
            guard = next((guard for opening, guard in self._judged.items() if self._text.endswith(opening)), None)
            if guard is not None:
                self._start, self._value = len(self._text), guard.new_state()
        return True

    def can_end(self) -> bool:
        """Whether no value is open; that the frame is whole, the grammar knows."""
        return self._value is None

    def position(self) -> object:
        """Return where the text stands."""
        return _Position(len(self._text), self._start, self._value, self._value and self._value.position())

    def go_back(self, position: object) -> None:
        """Forget what was read after `position`."""
        num_bytes, self._start, self._value, place = cast("_Position", position)
        del self._text[num_bytes:]
        if self._value is not None:
            self._value.go_back(place)

    @property
    def num_settled_bytes(self) -> int:
        """Bytes before what the guard of an open value may take back."""
        return len(self._text) if self._value is None else self._start + self._value.num_settled_bytes
