"""Who runs the cases: an engine in this process, or in one that may die of a schema."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sureact.evaluation.conformance.cases import ConformanceCase
from sureact.evaluation.conformance.judging import judge_case
from sureact.evaluation.conformance.schema_engine import EngineName, SchemaPolicy
from sureact.evaluation.conformance.timing import time_case
from sureact.evaluation.conformance.vocabularies import byte_vocabulary, read_case_vocabulary

if TYPE_CHECKING:
    from sureact.evaluation.conformance.judging import CaseOutcome
    from sureact.evaluation.conformance.schema_engine import SchemaEngine
    from sureact.evaluation.conformance.timing import CaseTimes
    from sureact.tokens.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """Which engine runs, and with what; can be sent to another process."""

    engine: EngineName = "sureact"
    policy: SchemaPolicy = field(default_factory=SchemaPolicy)
    text_model: Path | None = None
    """Folder of the model whose tokens the instances are cut into; None for bytes."""
    timing_model: Path | None = None
    """Folder of the model whose vocabulary the times are measured with; None for bytes."""


_WARM_UP = ConformanceCase(file="", name="warm-up", schema={"type": "string"}, instances=())


class CaseRunner(ABC):
    """Runs one case after another."""

    def __init__(self, settings: RunnerSettings) -> None:
        self.settings = settings

    @abstractmethod
    def judge(self, case: ConformanceCase) -> CaseOutcome:
        """Compile a case and write its instances."""

    @abstractmethod
    def time(self, case: ConformanceCase) -> CaseTimes:
        """Time a case on the vocabulary for times; to be called before the case is judged."""

    @property
    @abstractmethod
    def peak_memory_bytes(self) -> int:
        """The most memory that the process of the engine held."""

    def close(self) -> None:  # noqa: B027  not every runner has something to end
        """End what the runner started."""


class LocalRunner(CaseRunner):
    """Runs an engine in this process."""

    def __init__(self, settings: RunnerSettings) -> None:
        super().__init__(settings)
        self._texts = read_case_vocabulary(settings.text_model)
        same = settings.timing_model == settings.text_model
        self._timed = self._texts if same else read_case_vocabulary(settings.timing_model)
        self._engine = make_engine(settings, self._texts.vocabulary)
        self._timed_engine = make_engine(settings, self._timed.vocabulary)
        # Imports and the tokenizer's trie are no schema's own time.
        self._timed_engine.compile(_WARM_UP)

    def judge(self, case: ConformanceCase) -> CaseOutcome:
        """Compile a case and write its instances."""
        return judge_case(self._engine, case, self._texts)

    def time(self, case: ConformanceCase) -> CaseTimes:
        """Time a case on the vocabulary for times."""
        return time_case(self._timed_engine, case, self._timed)

    @property
    def peak_memory_bytes(self) -> int:
        """The most memory that this process held."""
        return peak_memory_bytes()


def make_engine(settings: RunnerSettings, vocabulary: Vocabulary) -> SchemaEngine:
    """Return the engine of the settings for a vocabulary.

    Raises:
        ConfigError: it is not installed.
    """
    match settings.engine:
        case "sureact":
            from sureact.evaluation.conformance.own_engine import OwnEngine

            return OwnEngine(vocabulary, settings.policy)
        case "llguidance":
            from sureact.evaluation.conformance.peer_engines import LlguidanceEngine

            return LlguidanceEngine(vocabulary)
        case "xgrammar":
            from sureact.evaluation.conformance.peer_engines import XgrammarEngine

            return XgrammarEngine(vocabulary)
        case "outlines":
            from sureact.evaluation.conformance.peer_engines import OutlinesEngine

            return OutlinesEngine(vocabulary)


def require_engine(settings: RunnerSettings) -> None:
    """Raise unless the engine can be used here.

    Raises:
        ConfigError: it is not installed.
    """
    make_engine(settings, byte_vocabulary().vocabulary)


def peak_memory_bytes() -> int:
    """Return the most memory that this process has held at once; 0 where the system does not tell."""
    if sys.platform == "win32":
        return 0
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
