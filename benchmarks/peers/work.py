"""What the engines are asked to do, and what comes of it. Plain data, since it travels between processes."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from benchmarks.peers.contestant import Contestant, SchemaRefusedError
from typing_extensions import override

if TYPE_CHECKING:
    from benchmarks.peers.sureact_contestant import SureactContestant

    from sureact.evaluation.react_script import ReactRun, ReactScript


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one piece of work took."""

    num_tokens: int
    seconds: float
    num_unfinished: int = 0
    """Constrained texts that did not end within their budget, or are not valid."""
    refusal: str | None = None
    """Why the work was not done; then the numbers mean nothing."""
    seconds_of: dict[str, float] = field(default_factory=dict[str, float])
    """Parts of the time, and what was timed beside it."""


class Work(ABC):
    """Something to do."""

    time_limit_s: ClassVar[float] = 1200.0
    """After which nobody waits any longer; sixteen agents one after another stay below it at their slowest."""

    @abstractmethod
    def do(self, contestant: Contestant) -> Outcome:
        """Have it done."""


@dataclass(frozen=True, slots=True)
class Decode(Work):
    """Tokens one after another."""

    prompt: list[int]
    num_tokens: int

    @override
    def do(self, contestant: Contestant) -> Outcome:
        """Time the tokens after the first."""
        return Outcome(self.num_tokens, contestant.decode_seconds(self.prompt, self.num_tokens))


@dataclass(frozen=True, slots=True)
class Prefill(Work):
    """A prompt."""

    prompt: list[int]

    @override
    def do(self, contestant: Contestant) -> Outcome:
        """Time it up to the first token."""
        return Outcome(len(self.prompt), contestant.prefill_seconds(self.prompt))


@dataclass(frozen=True, slots=True)
class JsonText(Work):
    """JSON under a schema."""

    time_limit_s: ClassVar[float] = 60.0
    """Mostly for outlines, whose index of some schemas takes minutes."""

    prompt: list[int]
    schema: str
    max_tokens: int

    @override
    def do(self, contestant: Contestant) -> Outcome:
        """Time the tokens after the first; the compilation is counted apart."""
        try:
            written = contestant.write_json(self.prompt, self.schema, self.max_tokens)
        except SchemaRefusedError as error:
            return Outcome(0, 0.0, refusal=str(error))
        is_valid = _is_valid(written.text, self.schema)
        return Outcome(written.num_tokens, written.decode_s, not is_valid, seconds_of={"compile": written.compile_s})


@dataclass(frozen=True, slots=True)
class AgentRun(Work):
    """An agent's run with scripted observations."""

    script: ReactScript
    opening: list[int]

    @override
    def do(self, contestant: Contestant) -> Outcome:
        """Time the whole run."""
        run = contestant.play(self.script, self.opening)
        return _outcome([run], run.seconds)


@dataclass(frozen=True, slots=True)
class AgentRuns(Work):
    """Several of them on our engine, whose prefix cache holds nothing of use at first."""

    scripts: list[ReactScript]
    together: bool
    cache_salt: str

    @override
    def do(self, contestant: Contestant) -> Outcome:
        """Time all runs by the clock."""
        ours: SureactContestant = contestant  # pyright: ignore[reportAssignmentType]  nobody else gets this work
        start = time.perf_counter()
        runs = ours.play_all(self.scripts, together=self.together, cache_salt=self.cache_salt)
        return _outcome(runs, time.perf_counter() - start)


def _outcome(runs: list[ReactRun], seconds: float) -> Outcome:
    timings = [turn.timings for run in runs for turn in run.turns]
    return Outcome(
        sum(run.num_tokens for run in runs),
        seconds,
        sum(run.num_unfinished for run in runs),
        seconds_of={
            "prefill": sum(timing.prefill_s for timing in timings),
            "decode": sum(timing.decode_s for timing in timings),
            "mask": sum(timing.mask_s for timing in timings),
        },
    )


def _is_valid(text: str, schema: str) -> bool:
    """Tell whether a text is JSON that the schema allows; one that was cut is not."""
    from sureact.constraints.json_schema import json_schema

    try:
        value = json.loads(text)
    except ValueError:
        return False
    return not any(json_schema(schema).faults(value))
