"""What is asked of an engine: a schema, texts, and whether each of them is valid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Instance:
    """A text as a decoder would write it."""

    text: str
    is_valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConformanceCase:
    """One schema, choice or regex with its instances."""

    file: str
    """The file's path inside the folder or archive."""
    name: str
    """The description of the group or the id of the case; empty where the file is one schema."""
    kind: Literal["json_schema", "regex", "choice"] = "json_schema"
    schema: Any
    """The schema, the pattern, or the list of choices."""
    instances: tuple[Instance, ...]
    may_be_refused: bool = False
    """Whether an error at compile time is as right as enforcing it."""
    must_be_refused: bool = False
    """Whether an error at compile time is the only right answer."""
