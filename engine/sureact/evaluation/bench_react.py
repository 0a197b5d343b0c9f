"""Wall time of an agent's turns on an engine of ours."""

from __future__ import annotations

import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sureact.constraints.json_schema import json_schema
from sureact.evaluation.react_script import Generated, ReactRun, play, react_script
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sureact.config import ResolvedConfig
    from sureact.engine import Engine
    from sureact.evaluation.react_script import ReactScript
    from sureact.outputs import StepOutput
    from sureact.session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class ReactMeasurement:
    """Runs of scripts that share their system message and tools."""

    config: ResolvedConfig
    runs: tuple[ReactRun, ...]

    @property
    def median(self) -> float:
        """Median seconds of a run."""
        return statistics.median(run.seconds for run in self.runs)

    def turn_seconds(self, index: int) -> float:
        """Median seconds of the turn at an index."""
        return statistics.median(run.turns[index].seconds for run in self.runs)


class SessionContext:
    """A session that a script is played on."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def append(self, text: str) -> None:
        """Add text to the end."""
        self._session.append(text)

    def think(self, num_tokens: int) -> Generated:
        """Generate exactly as many tokens."""
        return _generated(self._session.generate(SamplingParams(max_tokens=num_tokens, ignore_eos=True)))

    def write_json(self, schema: str, max_tokens: int) -> Generated:
        """Generate JSON that is valid under a schema."""
        return _generated(self._session.generate(SamplingParams(max_tokens=max_tokens), json_schema(schema)))


def measure_react(engine: Engine, *, num_turns: int, repeats: int) -> ReactMeasurement:
    """Play one script per repeat, after one that leaves system message and tools in the prefix cache.

    Raises:
        PromptTooLongError: a run does not fit into the context.
        ConfigError: the model has no chat template.
    """
    runs = tuple(play_script(engine, react_script(seed, num_turns=num_turns)) for seed in range(-1, repeats))
    return ReactMeasurement(config=engine.config, runs=runs[1:])


def play_script(engine: Engine, script: ReactScript, *, cache_salt: str | None = None) -> ReactRun:
    """Play a script on a session of its own.

    Args:
        engine: the model.
        script: what is played.
        cache_salt: shares the prefix cache with the sessions of the same salt only.
    """
    with engine.session(cache_salt=cache_salt) as session:
        session.append(engine.render_chat(script.messages))
        return play(script, SessionContext(session))


def play_together(engine: Engine, scripts: Sequence[ReactScript], *, cache_salt: str | None = None) -> list[ReactRun]:
    """Play scripts at the same time, each on a thread of its own."""
    with ThreadPoolExecutor(max_workers=len(scripts)) as pool:
        return list(pool.map(partial(play_script, engine, cache_salt=cache_salt), scripts))


def _generated(output: StepOutput) -> Generated:
    return Generated(
        text=output.text,
        num_tokens=output.usage.completion_tokens,
        is_complete=output.finish_reason == "stop",
        timings=output.timings,
    )
