"""Where adversaries play against constraints: the engine's loop and sampler over a model without weights."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.constraints.adversary import Adversary, Strategy, adversarial_vocabulary

from sureact.errors import ConstraintError
from sureact.execution.engine_loop import EngineLoop
from sureact.execution.sampler import Sampler
from sureact.kv_cache.cached_sequence import CachedSequence
from sureact.kv_cache.paged_cache import PagedCache
from sureact.sampling_params import SamplingParams
from sureact.scheduling.request import Request
from sureact.scheduling.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sureact.constraints.constraint import CompiledConstraint, Constraint

_BATCH_SIZE = 16
_BLOCK_SIZE = 128
_PROMPT = b"prompt"
_NUM_WORST = 20
_MAX_SHOWN = 300


class Opponent(NamedTuple):
    """What an adversary plays against."""

    name: str
    constraint: Constraint
    strategy: Strategy


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that was broken."""

    opponent: Opponent
    what: str
    text: str


class Arena:
    """Plays and counts."""

    def __init__(self, *, max_tokens: int, max_rollbacks: int, seed: int) -> None:
        self._max_tokens = max_tokens
        self._max_rollbacks = max_rollbacks
        self._seed = seed
        self._vocabulary = adversarial_vocabulary()
        # Each step adds a token, or meets a dead end and takes one back; the last dead end may take none.
        self._adversary = Adversary(self._vocabulary, seed, max_steps=max_tokens + 2 * max_rollbacks + 1)
        cache = PagedCache(-(-(len(_PROMPT) + max_tokens) // _BLOCK_SIZE) * _BATCH_SIZE, _BLOCK_SIZE)
        self._cache = cache
        self._scheduler = Scheduler(cache, max_running_requests=_BATCH_SIZE, prefill_chunk_len=512)
        self._loop = EngineLoop(self._scheduler, self._adversary, Sampler(self._vocabulary), cache)
        self._outcomes: Counter[str] = Counter()
        self._rollbacks: Counter[str] = Counter()
        self._exhausted: Counter[str] = Counter()
        self._refused: dict[str, str] = {}
        self._num_played = 0
        self._slowest_step: tuple[float, list[str]] = (0.0, [])
        self.violations: list[Violation] = []

    def compiled(self, name: str, constraint: Constraint) -> CompiledConstraint | None:
        """Compile a constraint; None if it is refused, which is noted."""
        try:
            return constraint.compile(self._vocabulary)
        except ConstraintError as error:
            self._refused[name] = str(error)
            return None

    def play(self, opponents: Iterable[Opponent]) -> None:
        """Generate a text against each opponent, some at a time."""
        opponents = iter(opponents)
        while batch := [*islice(opponents, _BATCH_SIZE)]:
            requests = [self._request(opponent) for opponent in batch]
            self._run([opponent.name for opponent in batch])
            for opponent, request in zip(batch, requests, strict=True):
                self._judge(opponent, request)

    def report(self) -> dict[str, Any]:
        """Return the counts."""
        stats = self._loop.stats
        return {
            "texts": self._num_played,
            **{name: self._outcomes[name] for name in ("valid", "cut", "budget_errors", "no_text_errors")},
            "violations": len(self.violations),
            "refused": self._refused,
            "vetoes": stats.num_vetoes,
            "dead_ends": stats.num_dead_ends,
            "rollbacks": stats.num_rollbacks,
            "tokens": stats.decode_tokens,
            "slowest_step_ms": round(self._slowest_step[0] * 1000, 1),
            "slowest_step_of": self._slowest_step[1],
            "most_rollbacks": dict((+self._rollbacks).most_common(_NUM_WORST)),
            "most_budget_errors": dict((+self._exhausted).most_common(_NUM_WORST)),
            "violation_list": [
                [violation.opponent.name, violation.opponent.strategy, violation.what, violation.text]
                for violation in self.violations[:_NUM_WORST]
            ],
        }

    def _request(self, opponent: Opponent) -> Request:
        self._num_played += 1
        # Every other round draws, so that what comes first is not always what the adversary likes best.
        temperature = float(self._num_played // 5 % 2)
        request = Request(
            CachedSequence([*_PROMPT]),
            SamplingParams(max_tokens=self._max_tokens, temperature=temperature, seed=self._seed + self._num_played),
            self._vocabulary,
            str.encode,
            opponent.constraint.compile(self._vocabulary).new_state(),
            max_rollbacks=self._max_rollbacks,
            owns_sequence=True,
        )
        self._adversary.play(request, opponent.strategy)
        self._cache.add(request.sequence)
        self._scheduler.add(request)
        return request

    def _run(self, names: list[str]) -> None:
        """Run the loop on this thread, so that each step can be timed."""
        while True:
            start = time.thread_time()
            if not self._loop.step():
                return
            self._slowest_step = max(self._slowest_step, (time.thread_time() - start, names))

    def _judge(self, opponent: Opponent, request: Request) -> None:
        refusals = request.refusals
        self._rollbacks[opponent.name] += refusals.rollbacks
        self._exhausted[f"{opponent.name} {opponent.strategy}"] += refusals.is_budget_exhausted
        try:
            outcome = self._outcome(opponent, request)
        except Exception as error:  # whatever it is, it is a broken promise
            text = b"".join(self._vocabulary.token_bytes[token_id] for token_id in request.generated_ids)
            shown = text.decode(errors="replace")[-_MAX_SHOWN:]
            self.violations.append(Violation(opponent, f"{type(error).__name__}: {error}"[:_MAX_SHOWN], shown))
            outcome = "violations"
        self._outcomes[outcome] += 1

    def _outcome(self, opponent: Opponent, request: Request) -> str:
        try:
            *_, last = request.deltas()
        except ConstraintError:
            return "budget_errors" if request.refusals.is_budget_exhausted else "no_text_errors"
        assert last.output is not None, "the last delta has the output"
        if last.output.finish_reason == "length":
            return "cut"
        opponent.constraint.parse(last.output.text)  # an error of it is a late refusal
        return "valid"
