"""Measures what HTTP costs: tokens per second of the server beside the engine itself, and time to the first token.

    python -m benchmarks.server.overhead --json

One engine, in this process, is asked directly and through the server, in turns: random prompts, the same ones in both
ways of a pair, and always as many tokens. The server runs as `sureact serve` runs it; its clients are processes of
their own at the lowest priority. `--profile` tells what the server's thread did meanwhile.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.server.clients import Clients
from benchmarks.server.server_thread import ServerThread

from sureact.cli.model_options import SMALL_MODEL
from sureact.cli.option_fields import positive_int
from sureact.engine import Engine
from sureact.errors import SureactError
from sureact.evaluation.machine import hardware, versions
from sureact.sampling_params import SamplingParams

Way = Literal["engine", "whole", "streamed"]
"""How a text is asked for: of the engine, or of the server at once or token by token."""

MAX_FALL = {1: 0.03, 16: 0.08}
"""Largest share of the tokens per second that the server may cost, by clients."""
MAX_FIRST_TOKEN_MS = 5.0
"""Largest time that it may add to the first token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """How much is asked."""

    num_clients: tuple[int, ...] = (1, 16)
    prompt_len: int = 64
    num_tokens: int = 128
    repeats: int = 9
    """Pairs for each number of clients."""
    num_first_tokens: int = 40
    """Pairs for the time to the first token."""


TINY = Workload(num_clients=(1, 2), prompt_len=8, num_tokens=6, repeats=2, num_first_tokens=2)


@dataclass(frozen=True, slots=True)
class Window:
    """What was generated in which time."""

    num_tokens: int
    seconds: float
    first_ms: tuple[float, ...] = ()
    """Milliseconds to the first text of each client, where it was streamed."""

    @property
    def tokens_per_s(self) -> float:
        """Tokens over the time by the clock."""
        return self.num_tokens / self.seconds


class Bench:
    """An engine, its server, and clients that are connected."""

    def __init__(self, engine: Engine, clients: Clients, server: ServerThread, workload: Workload) -> None:
        self._engine = engine
        self._clients = clients
        self._server = server
        self._workload = workload
        self._random = random.Random(0)

    def throughput(self, num_clients: int) -> dict[str, Any]:
        """Measure tokens per second of the three ways, in turns, and sum up."""
        ways: tuple[Way, ...] = ("engine", "whole", "streamed")
        windows: dict[Way, list[Window]] = {way: [] for way in ways}
        server_share: list[float] = []
        for repeat in range(-1, self._workload.repeats):  # the first round warms up
            prompts = self._prompts(num_clients)
            for way in ways[repeat % 3 :] + ways[: repeat % 3]:
                before = self._server.cpu_s()
                window = self.measure(way, prompts, self._workload.num_tokens)
                if repeat >= 0:
                    windows[way].append(window)
                    if way == "streamed":
                        server_share.append((self._server.cpu_s() - before) / window.seconds)
        return throughput_row(num_clients, windows, server_share)

    def first_token(self) -> dict[str, Any]:
        """Measure the time to the first token of one request, with the engine and over HTTP, in turns."""
        direct: list[float] = []
        served: list[float] = []
        for repeat in range(-1, self._workload.num_first_tokens):
            (prompt,) = self._prompts(1)
            pair: dict[bool, float] = {}
            for is_served in (False, True) if repeat % 2 else (True, False):
                self._engine.clear_prefix_cache()
                pair[is_served] = self._first_ms(prompt, is_served=is_served)
            if repeat >= 0:
                direct.append(pair[False])
                served.append(pair[True])
        return first_token_row(direct, served)

    def measure(self, way: Way, prompts: Sequence[list[int]], num_tokens: int) -> Window:
        """Ask for a text after each prompt, all at once."""
        self._engine.clear_prefix_cache()
        if way == "engine":
            return self._of_engine(prompts, num_tokens)
        answers = self._clients.ask([body(prompt, num_tokens, is_streamed=way == "streamed") for prompt in prompts])
        first_ms = tuple(1000 * (each["first"] - each["sent"]) for each in answers) if way == "streamed" else ()
        seconds = max(each["end"] for each in answers) - min(each["sent"] for each in answers)
        return Window(sum(each["tokens"] for each in answers), seconds, first_ms)

    def _of_engine(self, prompts: Sequence[list[int]], num_tokens: int) -> Window:
        params = SamplingParams(max_tokens=num_tokens, ignore_eos=True)

        def generate(prompt: list[int]) -> int:
            return len(self._engine.generate(prompt, params).token_ids)

        with ThreadPoolExecutor(len(prompts)) as pool:
            start = time.monotonic()
            num_generated = sum(pool.map(generate, prompts))
            seconds = time.monotonic() - start
        return Window(num_generated, seconds)

    def _first_ms(self, prompt: list[int], *, is_served: bool) -> float:
        if is_served:
            (answer,) = self._clients.ask([body(prompt, 8, is_streamed=True)])
            return 1000 * (answer["first"] - answer["sent"])
        start, first = time.monotonic(), 0.0
        for delta in self._engine.stream(prompt, SamplingParams(max_tokens=8, ignore_eos=True)):
            if delta.text and not first:
                first = time.monotonic()
        return 1000 * (first - start)

    def _prompts(self, num_prompts: int) -> list[list[int]]:
        """Draw prompts of tokens that are plain text."""
        ids = [i for i, text in enumerate(self._engine.vocabulary.token_bytes[:5000]) if text and text.isalpha()]
        return [self._random.choices(ids, k=self._workload.prompt_len) for _ in range(num_prompts)]


def body(prompt: list[int], num_tokens: int, *, is_streamed: bool) -> dict[str, Any]:
    """Return a request for a text of a length."""
    asked: dict[str, Any] = {"prompt": prompt, "max_tokens": num_tokens, "ignore_eos": True, "stream": is_streamed}
    return asked | {"stream_options": {"include_usage": True}} if is_streamed else asked


def throughput_row(num_clients: int, windows: dict[Way, list[Window]], server_share: Sequence[float]) -> dict[str, Any]:
    """Sum up; a fall is the median over the pairs of one round."""
    falls = {
        way: [
            1 - window.tokens_per_s / other.tokens_per_s
            for window, other in zip(windows[way], windows["engine"], strict=True)
        ]
        for way in windows
    }
    target = MAX_FALL.get(num_clients)
    return {
        "clients": num_clients,
        "tokens_per_s": {way: statistics.median(w.tokens_per_s for w in windows[way]) for way in windows},
        "fall": {way: statistics.median(falls[way]) for way in windows},
        "falls": falls,
        "tokens": {way: [window.num_tokens for window in windows[way]] for way in windows},
        "first_ms": statistics.median(ms for window in windows["streamed"] for ms in window.first_ms),
        "server_thread": statistics.median(server_share),
        "target": target,
        "reached": None if target is None else all(statistics.median(falls[way]) < target for way in windows),
    }


def first_token_row(direct: Sequence[float], served: Sequence[float]) -> dict[str, Any]:
    """Sum up the time to the first token."""
    added = [over_http - alone for alone, over_http in zip(direct, served, strict=True)]
    return {
        "engine_ms": statistics.median(direct),
        "server_ms": statistics.median(served),
        "added_ms": statistics.median(added),
        "all_added_ms": added,
        "target": MAX_FIRST_TOKEN_MS,
        "reached": statistics.median(added) < MAX_FIRST_TOKEN_MS,
    }


def table(rows: Sequence[dict[str, Any]], first: dict[str, Any]) -> str:
    """Return the results as a table."""
    lines = [f"{'clients':>8}{'engine':>10}{'server':>10}{'fall':>8}{'streamed':>10}{'fall':>8}{'its thread':>12}"]
    for row in rows:
        rate, fall = row["tokens_per_s"], row["fall"]
        verdict = f"  missed: {row['target']:.0%}" if row["reached"] is False else ""
        lines.append(
            f"{row['clients']:>8}{rate['engine']:>10.1f}{rate['whole']:>10.1f}{fall['whole']:>8.1%}"
            f"{rate['streamed']:>10.1f}{fall['streamed']:>8.1%}{row['server_thread']:>12.1%}{verdict}"
        )
    verdict = "" if first["reached"] else f"  missed: {first['target']:.0f} ms"
    lines.append(
        f"first token: {first['engine_ms']:.1f} ms of the engine, {first['server_ms']:.1f} ms over HTTP, "
        f"{first['added_ms']:.2f} ms more{verdict}"
    )
    return "\n".join(lines)


def measure(engine: Engine, workload: Workload, *, is_profiled: bool = False) -> dict[str, Any]:
    """Measure everything."""
    with (
        ServerThread(engine, is_profiled=is_profiled) as server,
        Clients(server.port, max(workload.num_clients)) as clients,
    ):
        bench = Bench(engine, clients, server, workload)
        rows: list[dict[str, Any]] = []
        for num_clients in workload.num_clients:
            rows.append(bench.throughput(num_clients))
            print(f"{num_clients} clients: {rows[-1]['fall']}", file=sys.stderr)
        result = {"throughput": rows, "first_token": bench.first_token()}
    return result | ({"profile": server.profile_text()} if is_profiled else {})


def main() -> int:
    """Read the options, measure, and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.server.overhead",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--model", default=SMALL_MODEL, help="as `sureact --model` (default: %(default)s)")
    parser.add_argument("--quantization", default="int8", help="as `sureact --quantization` (default: %(default)s)")
    parser.add_argument("--repeats", type=positive_int, default=9, metavar="N", help="pairs (default: %(default)s)")
    parser.add_argument("--profile", action="store_true", help="profile the server's thread, which slows it")
    parser.add_argument("--tiny", action="store_true", help="a few short texts, to see that it works")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    workload = TINY if options.tiny else Workload(repeats=options.repeats)
    try:
        with Engine(
            options.model, quantization=options.quantization, max_model_len=None if options.tiny else 1024
        ) as engine:
            measured = measure(engine, workload, is_profiled=options.profile)
            settings = asdict(engine.config)
    except SureactError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    record = {"settings": settings, "workload": asdict(workload), **measured}
    if options.json:
        print(json.dumps(record | {"versions": versions(), "hardware": hardware()}))
    else:
        print(table(measured["throughput"], measured["first_token"]), measured.get("profile", ""), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
