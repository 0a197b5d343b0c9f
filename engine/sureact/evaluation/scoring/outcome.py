"""What came of one case, and the sums over many."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from sureact import __version__

if TYPE_CHECKING:
    from sureact.evaluation.scoring.contender import Contender


class CaseKey(NamedTuple):
    """What an outcome belongs to; two runs with one key need not both be made."""

    model: str
    quantization: str
    format: str
    peer: str
    """`sureact`, or the name of a peer."""
    case: str
    prompt: str
    """Changes with the prompt, so that no outcome outlives what it was an outcome of."""
    version: str = ""
    """Changes with what runs the case and judges it; empty where an early file does not tell."""
    engine: str = ""
    """Changes with the files of the model and the settings that tokens depend on, since models may share a name; empty
    where an early file does not tell."""

    @property
    def case_asked(self) -> CaseKey:
        """The key without what an outcome becomes outdated by: how the case was run, and on which files."""
        return self._replace(version="", engine="")

    @classmethod
    def of(cls, contender: Contender, case: str, prompt: str, evaluation: int) -> CaseKey:
        """Return the key of a contender's run of a case.

        Args:
            contender: who runs it.
            case: its name.
            prompt: a digest of what is asked.
            evaluation: the version of the suite, see `Case.version`.
        """
        name = contender.peer or "sureact"
        version = ", ".join(filter(None, [f"sureact {__version__}", f"evaluation {evaluation}", contender.package]))
        asked = (contender.prompt_format, name, case, prompt)
        return cls(contender.lm.name, contender.quantization, *asked, version, contender.engine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one case."""

    is_right: bool
    is_valid: bool
    """Whether everything that had to have a form had it: calls, their arguments, the answer."""
    num_tokens: int = 0
    """Generated tokens."""
    seconds: float = 0.0
    answer: str = ""
    """What was answered or called, for who reads the file."""
    fault: str = ""
    """Why it is wrong, or not valid."""


@dataclass(slots=True)
class Score:
    """Sums over outcomes."""

    n: int = 0
    correct: int = 0
    valid: int = 0
    tokens: int = 0
    seconds: float = 0.0

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> Score:
        """Sum up."""
        score = cls()
        for outcome in outcomes:
            score.n += 1
            score.correct += outcome.is_right
            score.valid += outcome.is_valid
            score.tokens += outcome.num_tokens
            score.seconds += outcome.seconds
        return score

    @property
    def accuracy(self) -> float:
        """Share of right ones, from 0 to 1; 0 of none."""
        return self.correct / self.n if self.n else 0.0

    def as_dict(self) -> dict[str, int | float]:
        """Return what the command writes."""
        return {
            "n": self.n,
            "correct": self.correct,
            "accuracy": round(self.accuracy, 6),
            "valid": self.valid,
            "tokens": self.tokens,
            "seconds": round(self.seconds, 3),
        }
