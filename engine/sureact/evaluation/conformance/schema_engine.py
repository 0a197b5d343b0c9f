"""What a conformance run asks of an engine, ours or a peer, for one vocabulary. Only interfaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sureact.constraints.schema.keywords import Schema

if TYPE_CHECKING:
    from sureact.evaluation.conformance.cases import ConformanceCase

EngineName = Literal["sureact", "llguidance", "xgrammar", "outlines"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaPolicy:
    """The options of `json_schema` that a run can choose; peers get what they have by default."""

    key_order: Literal["schema", "any"] = "schema"
    format: Literal["assert", "annotate"] = "assert"
    closed: bool = False
    resources: Mapping[str, Schema] = field(default_factory=dict[str, Schema])


class SchemaEngine(ABC):
    """Compiles cases for one vocabulary."""

    @abstractmethod
    def compile(self, case: ConformanceCase) -> CompiledCase:
        """Compile the case anew.

        Raises:
            SureactError: the engine refuses it.
        """


class CompiledCase(ABC):
    """A case that an engine took."""

    is_guarded: bool = False
    """Whether more than a grammar decides what may be written."""

    @abstractmethod
    def new_walk(self) -> Walk:
        """Return a position at the start of a text."""

    def fault(self, text: str) -> str | None:
        """Return why the judge of finished texts refuses `text`; None where it does not, or there is no judge."""
        return None


class Walk(ABC):
    """A position inside a text."""

    @abstractmethod
    def accept(self, token_ids: Sequence[int]) -> int:
        """Advance over tokens up to the first that is not allowed; return how many there were."""

    @abstractmethod
    def fill_mask(self) -> None:
        """Compute the mask of the next token. What is timed."""

    @property
    @abstractmethod
    def can_end(self) -> bool:
        """Whether the text may end here."""
