"""Measures what the agent's loop costs besides the model: milliseconds per turn.

    python -m benchmarks.agent.loop_overhead --json

The model says what a script tells it, and its time is left out; the tool returns at once. So what is measured is the
loop itself: prompts, the grammar of each call, the call, its observation, and where the case says so the trace.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from sureact.agent.react import ReAct
from sureact.agent.scripted_model import ScriptedModel, ScriptedSession
from sureact.agent.tool import Tool
from sureact.cli.option_fields import positive_int
from sureact.evaluation.machine import hardware, versions

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.outputs import StreamDelta
    from sureact.sampling_params import SamplingParams
    from sureact.tokens.chat_template import PromptText

MAX_MS = 2.0
"""Most milliseconds that a turn may take besides the model."""

_CALLS = {
    "fields": "Action: {}\nArguments: {}\n",
    "qwen_tool_call": '<tool_call>\n{{"name": "{}", "arguments": {}}}\n</tool_call>',
}
_THOUGHT = "I need another article, so I look it up.\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """What is special about a run."""

    prompt_format: Literal["fields", "qwen_tool_call"] = "fields"
    num_turns: int = 8
    is_traced: bool = False
    timeout_s: float | None = None
    """Of the tool: with a limit it has a thread of its own."""


CASES = {
    "plain": Case(),
    "long": Case(num_turns=64),
    "chat": Case(prompt_format="qwen_tool_call"),
    "tool on a thread": Case(timeout_s=60),
    "traced": Case(is_traced=True),
}


class TimedModel(ScriptedModel):
    """A model that adds up the seconds that its sessions take."""

    seconds = 0.0

    def session(self) -> TimedSession:
        """Open an empty session."""
        return TimedSession(self)

    @contextmanager
    def running(self) -> Generator[None]:
        """Count the seconds of the block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start


class TimedSession(ScriptedSession):
    """A session of a `TimedModel`."""

    def __init__(self, lm: TimedModel) -> None:
        super().__init__(lm)
        self._lm = lm

    def append(self, text: str | Sequence[int] | PromptText, *, parse_control_tokens: bool = False) -> int:
        """Add to the context."""
        with self._lm.running():
            return super().append(text, parse_control_tokens=parse_control_tokens)

    def stream(self, params: SamplingParams, constraint: Constraint | None = None) -> Iterator[StreamDelta]:
        """Say the next text; the time between the pieces is the reader's."""
        deltas = super().stream(params, constraint)
        while True:
            with self._lm.running():
                delta = next(deltas, None)
            if delta is None:
                return
            yield delta

    def truncate(self, num_tokens: int) -> None:
        """Keep the first tokens."""
        with self._lm.running():
            super().truncate(num_tokens)


def look_up(article: int) -> str:
    """Look up how many of an article are in stock."""
    return f"There are {article * 37 % 100} of article {article} in stock."


def script_of(case: Case) -> list[str]:
    """Return what the model says: a call in every turn but the last, which ends the run, and the answer."""
    calls = [("look_up", json.dumps({"article": number})) for number in range(case.num_turns - 1)]
    said: list[str] = []
    for name, args in [*calls, ("finish", "{}")]:
        said += [_THOUGHT, _CALLS[case.prompt_format].format(name, args)]
    return [*said, '{"reasoning": "All are counted.", "answer": "enough"}']


def measure_run(case: Case, folder: Path) -> float:
    """Run an agent once; return the milliseconds of a turn besides the model, the making of the agent left out."""
    lm = TimedModel(script_of(case), context_len=1_000_000)
    agent = ReAct(
        "question -> answer",
        [Tool(look_up, timeout_s=case.timeout_s)],
        lm=lm,
        max_iters=case.num_turns,
        prompt_format=case.prompt_format,
        trace=folder / "trace.jsonl" if case.is_traced else None,
    )
    start = time.perf_counter()
    prediction = agent(question="How many are in stock?")
    seconds = time.perf_counter() - start - lm.seconds
    assert len(prediction.trajectory.steps) == case.num_turns, "the run took another way than the script"
    return 1000 * seconds / case.num_turns


def measure(cases: Iterable[str], repeats: int) -> list[dict[str, Any]]:
    """Measure all cases in turn, once more before to warm up, and sum up."""
    names = list(cases)
    turns_ms: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        for repeat in range(repeats + 1):
            for name in names:
                turn_ms = measure_run(CASES[name], Path(folder))
                if repeat:
                    turns_ms[name].append(turn_ms)
    return [row(name, turns_ms[name]) for name in names]


def row(name: str, turns_ms: Sequence[float]) -> dict[str, Any]:
    """Sum up a case."""
    median = statistics.median(turns_ms)
    return {
        "case": name,
        **asdict(CASES[name]),
        "ms": median,
        "least_ms": min(turns_ms),
        "largest_ms": max(turns_ms),
        "reached": median < MAX_MS,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    lines = [f"{'case':<18}{'turns':>6}{'ms per turn':>13}  (least to largest)"]
    for each in rows:
        spread = f"{each['least_ms']:.2f} to {each['largest_ms']:.2f}"
        verdict = "" if each["reached"] else f"  missed: {MAX_MS:g} ms"
        lines.append(f"{each['case']:<18}{each['num_turns']:>6}{each['ms']:>13.2f}  ({spread}){verdict}")
    return "\n".join(lines)


def main() -> int:
    """Read the options, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agent.loop_overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--repeats", type=positive_int, default=25, metavar="N", help="runs of each case (default: 25)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    rows = measure(CASES, options.repeats)
    record = {"rows": rows, "versions": versions(), "hardware": hardware()}
    print(json.dumps(record) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
