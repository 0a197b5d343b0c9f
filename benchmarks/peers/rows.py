"""The rows of the comparison: with which settings of ours, against whom, in which unit, and on which work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from benchmarks.peers.comparison import Pair, Unit
from benchmarks.peers.engine_settings import EngineSettings
from benchmarks.peers.work import AgentRun, AgentRuns, Decode, Prefill

from sureact.evaluation.react_script import react_script

if TYPE_CHECKING:
    from benchmarks.peers.prompts import Prompts

    from sureact.evaluation.react_script import ReactScript

PeerName = Literal["llama.cpp", "transformers", "outlines", "sequential", "free"]
"""The last two are our own engine, asked for something else."""

OWN_PEERS = ("sequential", "free")

_MIN_ITEMS = 100
"""Of an array that is constrained for its cost: more than its budget holds, so that it never ends early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """How much is measured."""

    num_pairs: int = 5
    num_runs: int = 5
    """Pairs of agent runs."""
    num_batches: int = 2
    """Pairs of many agents at once and one after another."""
    decode_prompt_len: int = 64
    decode_len: int = 64
    prefill_len: int = 1024
    num_calls: int = 100
    call_len: int = 128
    """Most tokens of a tool call."""
    num_agents: int = 16
    num_turns: int = 6

    def of_peer(self, peer: PeerName) -> Amounts:
        """Return less for a peer that takes minutes for what others do in seconds."""
        if peer != "outlines":
            return self
        return replace(self, num_calls=-(-self.num_calls // 5), num_runs=min(self.num_runs, 2))


Works = Callable[["Prompts", Amounts], Iterator[Pair]]
"""From prompts and amounts to pairs, of which the first only warms up."""


@dataclass(frozen=True, slots=True)
class Row:
    """A figure that is compared."""

    name: str
    unit: Unit
    works: Works
    peers: tuple[PeerName, ...]
    settings: EngineSettings
    is_large: bool = False
    """Whether it takes the larger model."""


def _decode(prompts: Prompts, amounts: Amounts) -> Iterator[Pair]:
    for seed in range(-1, amounts.num_pairs):
        work = Decode(prompts.random(amounts.decode_prompt_len, seed), amounts.decode_len)
        yield Pair([work], [work])


def _prefill(prompts: Prompts, amounts: Amounts) -> Iterator[Pair]:
    for seed in range(-1, amounts.num_pairs):
        work = Prefill(prompts.random(amounts.prefill_len, seed))
        yield Pair([work], [work])


def _constrained(prompts: Prompts, amounts: Amounts) -> Iterator[Pair]:
    """Give the calls in a few large pairs: one call says little."""
    calls = prompts.calls(amounts.num_calls, amounts.call_len)
    num_pairs = min(amounts.num_pairs, len(calls))
    for works in (calls[:1], *(calls[index::num_pairs] for index in range(num_pairs))):
        yield Pair([*works], [*works])


def _react(prompts: Prompts, amounts: Amounts) -> Iterator[Pair]:
    for seed in range(-1, amounts.num_runs):
        script = react_script(seed, num_turns=amounts.num_turns)
        work = AgentRun(script, prompts.chat(script.messages))
        yield Pair([work], [work])


def _agents(prompts: Prompts, amounts: Amounts) -> Iterator[Pair]:
    yield _agents_pair([react_script(-1, num_turns=1)], "warm-up")
    for index in range(amounts.num_batches):
        seeds = range(index * amounts.num_agents, (index + 1) * amounts.num_agents)
        yield _agents_pair([react_script(seed, num_turns=amounts.num_turns) for seed in seeds], str(index))


def _agents_pair(scripts: list[ReactScript], salt: str) -> Pair:
    """Give the same agents to both sides, which share no prefix: each has a salt of its own."""
    together = AgentRuns(scripts, together=True, cache_salt=f"together {salt}")
    return Pair([together], [AgentRuns(scripts, together=False, cache_salt=f"sequential {salt}")])


def _constraint_cost(prompts: Prompts, amounts: Amounts) -> Iterator[Pair]:
    """Give calls under constraint, and the same prompts free, with as many tokens after the first."""
    calls = prompts.calls(amounts.num_pairs + 1, amounts.decode_len + 1)
    for index in range(amounts.num_pairs + 1):
        call = calls[index % len(calls)]
        schema = json.dumps({"type": "array", "items": json.loads(call.schema), "minItems": _MIN_ITEMS})
        yield Pair([replace(call, schema=schema)], [Decode(call.prompt, amounts.decode_len)])


_INT8, _INT4 = EngineSettings(), EngineSettings(quantization="int4")
_INT8_UNDRAFTED, _INT4_UNDRAFTED = replace(_INT8, max_draft_len=0), replace(_INT4, max_draft_len=0)

ROWS = (
    Row("decode_int8", "tokens/s", _decode, ("llama.cpp", "transformers"), _INT8_UNDRAFTED),
    Row("decode_int4", "tokens/s", _decode, ("llama.cpp", "transformers"), _INT4_UNDRAFTED),
    Row("decode_int4_1.5b", "tokens/s", _decode, ("llama.cpp",), _INT4_UNDRAFTED, is_large=True),
    Row("prefill_strict", "tokens/s", _prefill, ("llama.cpp", "transformers"), _INT8),
    Row("prefill_fast", "tokens/s", _prefill, ("llama.cpp", "transformers"), replace(_INT8, determinism="fast")),
    Row("constrained", "tokens/s", _constrained, ("llama.cpp", "outlines"), _INT8),
    Row("react_int8", "s", _react, ("llama.cpp", "outlines"), _INT8),
    Row("react_int4", "s", _react, ("llama.cpp",), _INT4),
    Row("agents_16", "tokens/s", _agents, ("sequential",), replace(_INT8, max_running_requests=16)),
    Row("constraint_cost", "s/token", _constraint_cost, ("free",), _INT8_UNDRAFTED),
)
"""llama.cpp reads the GGUF file that our weights come from, the others have them in bfloat16."""
