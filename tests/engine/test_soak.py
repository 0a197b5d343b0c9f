"""Two thousand turns of agents on a tiny model, of all kinds at once: nothing grows, nothing is lost, nobody waits."""

import gc
import os
import random
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from sureact.constraints.choice import choice
from sureact.constraints.json_schema import json_schema
from sureact.engine import Engine
from sureact.sampling_params import SamplingParams
from sureact.session import Session

NUM_AGENTS = 4
NUM_WARMUP_TURNS, NUM_TURNS = 100, 2000
MOST_GROWTH_BYTES = 8 << 20
"""What the allocator may keep of a peak that came late; a lost block of the cache alone has 130 kB."""

STUCK_AFTER_S = 1800
"""Many times what all turns take."""

CONSTRAINTS = (
    choice(["search", "calculate", "finish"]),
    json_schema({"type": "object", "properties": {"day": {"type": "integer"}}, "required": ["day"]}),
)
OBSERVATIONS = ("\nObservation: 27.5 degrees\n", "\nObservation: nothing found\n", "\nObservation: [1, 2, 3]\n")


class Agent:
    """Turns of one agent after another, drawn at random; every few turns its run ends and the next begins."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.random = random.Random(seed)
        self.session: Session | None = None

    def turn(self) -> None:
        """Think, act, or do what users do to agents."""
        if self.session is None or len(self.session) > 500 or self.random.random() < 0.1:
            self.end()
            self.session = self.engine.session()
            self.session.append("A system prompt that all agents share, with the tools that they have.\n")
        self.session.append(self.random.choice(OBSERVATIONS))
        self.random.choice((self.think, self.think, self.act, self.act, self.cancel, self.fork, self.go_back))()

    def think(self) -> None:
        seed = self.random.choice((None, 1))
        params = SamplingParams(
            max_tokens=24, stop=["\n", "Action:"], temperature=0.0 if seed is None else 1.0, seed=seed
        )
        assert self.session is not None
        self.session.generate(params)

    def act(self) -> None:
        assert self.session is not None
        self.session.generate(SamplingParams(max_tokens=24), self.random.choice(CONSTRAINTS))

    def cancel(self) -> None:
        assert self.session is not None
        with self.session.stream(SamplingParams(max_tokens=400, ignore_eos=True)) as deltas:
            for _ in range(self.random.randrange(4)):
                next(deltas)

    def fork(self) -> None:
        assert self.session is not None
        with self.session.fork() as fork:
            fork.append("\nAnother way: ".rstrip())
            fork.generate(SamplingParams(max_tokens=8, ignore_eos=True))
        self.session.generate(SamplingParams(max_tokens=8, ignore_eos=True))

    def go_back(self) -> None:
        assert self.session is not None
        self.session.truncate(self.random.randrange(1, len(self.session)))
        self.session.generate(SamplingParams(max_tokens=8, ignore_eos=True))

    def end(self) -> None:
        if self.session is not None:
            self.session.close()
            self.session = None


@contextmanager
def working(engine: Engine) -> Generator[list[Agent]]:
    agents = [Agent(engine, seed) for seed in range(NUM_AGENTS)]
    try:
        yield agents
    finally:
        for agent in agents:
            agent.end()


def run_turns(engine: Engine, agents: list[Agent], num_turns: int) -> None:
    """Let every agent take its share of the turns in a thread of its own."""

    def run(agent: Agent) -> None:
        for _ in range(num_turns // len(agents)):
            agent.turn()

    with ThreadPoolExecutor(len(agents)) as pool:
        futures = [pool.submit(run, agent) for agent in agents]
        stuck = wait(futures, timeout=STUCK_AFTER_S).not_done
        if stuck:
            engine.close()  # ends the requests that they wait for
    assert not stuck, f"{len(stuck)} agents are stuck"
    for future in futures:
        future.result()


def resident_bytes() -> int:
    gc.collect()
    return psutil.Process(os.getpid()).memory_info().rss


@pytest.mark.slow
def test_two_thousand_turns_leave_nothing_behind(tiny_folder: Path) -> None:
    # Room for one long context or four short ones, so that blocks are evicted and requests preempted all the time.
    with Engine(str(tiny_folder), quantization="none", dtype="float32", kv_cache_gb=0.0006) as engine:
        with working(engine) as agents:
            run_turns(engine, agents, NUM_WARMUP_TURNS)
            before = resident_bytes()
            run_turns(engine, agents, NUM_TURNS - NUM_WARMUP_TURNS)
            growth = resident_bytes() - before
            engine._cache.check()  # pyright: ignore[reportPrivateUsage]
        stats = engine.stats()
        engine._cache.check()  # pyright: ignore[reportPrivateUsage]
        cache = engine._cache  # pyright: ignore[reportPrivateUsage]
        assert cache.num_blocks_free == cache.num_blocks_total
        assert (stats.num_running, stats.num_waiting) == (0, 0)
        assert cache.num_evictions > 0
    assert growth < MOST_GROWTH_BYTES
