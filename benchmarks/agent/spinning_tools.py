"""Measures what tools that spin in pure Python cost the agents beside them.

    python -m benchmarks.agent.spinning_tools --json
    python -m benchmarks.agent.spinning_tools --engine-process --json

64 runs of an agent share one engine. Eight are inside their tool all the while: it sleeps, or it spins in a loop. The
other 56 think, call and answer, and are timed: they generate the same tokens in every case, unless that takes too
long. With `--engine-process` the engine has a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.agent.held_tools import (
    FOLDER_VARIABLE,
    count,
    count_sleeping,
    count_spinning,
    end_all,
    num_begun,
)

from sureact.agent.cancellation import Cancellation
from sureact.agent.module_scope import cancelled_by
from sureact.agent.react import ReAct
from sureact.agent.token_limits import TokenLimits
from sureact.agent.tool import Tool
from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.engine import Engine
from sureact.errors import OutputTruncatedError, SureactError
from sureact.evaluation.machine import hardware, versions
from sureact.isolation.engine_process import EngineProcess

AnyEngine = Engine | EngineProcess

MAX_FALL = 0.15
"""Largest share of the decoded tokens per second that spinning tools may cost."""

_START_TIMEOUT_S = 120.0
_SIGNATURE = "question: str -> answer: bool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """How much is asked of the engine."""

    num_runs: int = 64
    num_held: int = 8
    """Runs that are inside their tool all the while."""
    num_turns: int = 1
    limits: TokenLimits = field(default_factory=lambda: TokenLimits(thought=32, call=96, observation=32, outputs=96))
    most_s: float = 30.0
    """Seconds after which the timed runs are cancelled; what they generated until then counts."""
    repeats: int = 3


TINY = Workload(num_runs=4, num_held=2, num_turns=1, limits=TokenLimits(thought=4, call=96, outputs=4), repeats=1)


def cases() -> dict[str, Tool]:
    """Return the tool of the held runs by the name of the case; the model sees one and the same."""
    return {
        "sleeping": Tool(count_sleeping, "count"),
        "spinning": Tool(count_spinning, "count"),
        "isolated": Tool(count_spinning, "count", isolate=True),
    }


@dataclass(frozen=True, slots=True)
class Window:
    """What the timed runs did."""

    num_tokens: int
    seconds: float
    decode_tokens_per_s: float
    """Of the passes that only decode, without what lies between passes."""
    is_cut: bool = False
    """Whether the runs were cancelled."""

    @property
    def tokens_per_s(self) -> float:
        """Generated tokens over the time by the clock."""
        return self.num_tokens / self.seconds


def agent_with(engine: AnyEngine, tool: Tool, workload: Workload) -> ReAct:
    """Return an agent that calls the tool at least once before it finishes."""
    return ReAct(
        _SIGNATURE,
        [tool],
        lm=engine,
        max_iters=workload.num_turns,
        prompt_format="fields",
        on_repeat="run",
        require_tools=[tool.name],
        limits=workload.limits,
    )


def measure_case(engine: AnyEngine, case: str, workload: Workload) -> Window:
    """Hold some runs inside their tool, and time the others."""
    engine.clear_prefix_cache()
    timed = agent_with(engine, Tool(count, "count"), workload)
    held = agent_with(engine, cases()[case], workload)
    with held_runs(held, workload.num_held) as let_go:
        runs = Runs(timed, workload.num_runs - workload.num_held)
        before, start = engine.stats(), time.perf_counter()
        runs.start()
        is_cut = not runs.wait(workload.most_s)
        if is_cut:
            let_go()  # else it would take minutes until all are told
            runs.cancel()
        seconds, after = time.perf_counter() - start, engine.stats()
    decode_s = after.decode_s - before.decode_s
    return Window(
        after.generated_tokens - before.generated_tokens,
        seconds,
        (after.decode_tokens - before.decode_tokens) / decode_s if decode_s else 0.0,
        is_cut,
    )


class Runs:
    """Runs of one agent, all at once."""

    def __init__(self, agent: ReAct, num_runs: int) -> None:
        self._agent = agent
        self._cancellations = [Cancellation() for _ in range(num_runs)]
        self._errors: list[Exception] = []
        self._threads = [threading.Thread(target=self._run, args=(i,), daemon=True) for i in range(num_runs)]

    def start(self) -> None:
        """Begin all."""
        for thread in self._threads:
            thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for all; tell whether they ended in time. What one of them raised is raised."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(None if deadline is None else max(deadline - time.monotonic(), 0.0))
        if self._errors:
            raise self._errors[0]
        return not any(thread.is_alive() for thread in self._threads)

    def cancel(self) -> None:
        """Cancel all, each on a thread, since each waits for a step of the engine; return when they have ended."""
        with ThreadPoolExecutor(len(self._threads)) as pool:
            list(pool.map(Cancellation.cancel, self._cancellations))
        self.wait()

    def _run(self, index: int) -> None:
        try:
            # The tokens count, not the answer.
            with cancelled_by(self._cancellations[index]), suppress(OutputTruncatedError):
                self._agent(question=f"Is more than {index + 2} of article {index * 37 % 100} in stock?")
        except Exception as error:  # raised by the thread that waits
            if not self._cancellations[index].is_cancelled:  # then it only tells of its session, which is closed
                self._errors.append(error)


@contextmanager
def held_runs(agent: ReAct, num_runs: int) -> Generator[Callable[[], None]]:
    """Have runs inside their tool while the block runs, or until what is yielded is called.

    A tool in processes of its own has no more of them than the machine has processors; its further calls wait.
    """
    num_calls = min(num_runs, os.cpu_count() or 1) if agent.tools["count"].is_isolated else num_runs
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ[FOLDER_VARIABLE] = name
        runs = Runs(agent, num_runs)
        runs.start()
        try:
            deadline = time.monotonic() + _START_TIMEOUT_S
            while num_begun(folder) < num_calls:
                if runs.wait(0.05) or time.monotonic() > deadline:
                    raise TimeoutError(f"only {num_begun(folder)} of {num_calls} calls have begun")
            yield lambda: end_all(folder)
        finally:
            end_all(folder)
            runs.wait()
            del os.environ[FOLDER_VARIABLE]


def measure(engine: AnyEngine, workload: Workload) -> list[dict[str, Any]]:
    """Measure all cases in turn, the first one twice to warm up, and sum up."""
    names = list(cases())
    measure_case(engine, names[0], workload)
    windows: dict[str, list[Window]] = {name: [] for name in names}
    for repeat in range(workload.repeats):
        first = repeat % len(names)
        for name in names[first:] + names[:first]:
            windows[name].append(measure_case(engine, name, workload))
            print(f"{name}: {windows[name][-1].tokens_per_s:.1f} tokens/s", file=sys.stderr)
    return [row(name, windows[name], windows[names[0]]) for name in names]


def row(name: str, windows: Sequence[Window], beside: Sequence[Window]) -> dict[str, Any]:
    """Sum up a case; the fall is the median over the pairs of one round."""
    falls = [1 - window.tokens_per_s / other.tokens_per_s for window, other in zip(windows, beside, strict=True)]
    return {
        "case": name,
        "tokens_per_s": statistics.median(window.tokens_per_s for window in windows),
        "decode_tokens_per_s": statistics.median(window.decode_tokens_per_s for window in windows),
        "fall": statistics.median(falls),
        "falls": falls,
        "tokens": [window.num_tokens for window in windows],
        "seconds": [window.seconds for window in windows],
        "num_cut": sum(window.is_cut for window in windows),
        "reached": None if windows is beside else statistics.median(falls) < MAX_FALL,
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a table."""
    lines = [f"{'tools of the held runs':<24}{'tokens/s':>10}{'in decoding':>13}{'fall':>8}  (least to largest)"]
    for each in rows:
        spread = f"{min(each['falls']):.1%} to {max(each['falls']):.1%}"
        verdict = {None: "", True: "", False: f"  missed: {MAX_FALL:.0%}"}[each["reached"]]
        lines.append(
            f"{each['case']:<24}{each['tokens_per_s']:>10.1f}{each['decode_tokens_per_s']:>13.1f}"
            f"{each['fall']:>8.1%}  ({spread}){verdict}"
        )
    return "\n".join(lines)


def main() -> int:
    """Read the options, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agent.spinning_tools",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", default=SMALL_MODEL, help="as `sureact --model` (default: %(default)s)")
    parser.add_argument("--repeats", type=positive_int, metavar="N", help="rounds over all cases (default: 3)")
    parser.add_argument("--engine-process", action="store_true", help="run the engine in a process of its own")
    parser.add_argument("--tiny", action="store_true", help="a few short runs, to see that it works")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    workload = TINY if options.tiny else Workload()
    most_len = None if options.tiny else 2048
    engine_class = EngineProcess if options.engine_process else Engine
    try:
        with engine_class(
            options.model, max_running_requests=workload.num_runs, max_model_len=most_len, kv_cache_gb=0.8
        ) as engine:
            rows = measure(engine, workload)
            settings = asdict(engine.config)
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    record = {"engine": engine_class.__name__, "settings": settings, "workload": asdict(workload), "rows": rows}
    print(json.dumps(record | {"versions": versions(), "hardware": hardware()}) if options.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
