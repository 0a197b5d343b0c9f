"""Our own engine among its peers."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.peers.contestant import Contestant, SchemaRefusedError, WrittenJson
from typing_extensions import override

from sureact.engine import Engine
from sureact.errors import ConstraintError
from sureact.evaluation.bench import decode_seconds, prefill_seconds
from sureact.evaluation.bench_constrained import decode_call
from sureact.evaluation.bench_react import SessionContext, play_script, play_together
from sureact.evaluation.react_script import play

if TYPE_CHECKING:
    from benchmarks.peers.engine_settings import EngineSettings

    from sureact.evaluation.react_script import ReactRun, ReactScript


class SureactContestant(Contestant):
    """An engine with the settings of a row."""

    def __init__(self, model: str, settings: EngineSettings, num_threads: int) -> None:
        self._engine = Engine(model, device="cpu", num_threads=num_threads, **asdict(settings))

    @override
    def decode_seconds(self, prompt: list[int], num_tokens: int) -> float:
        """Return how long `num_tokens` tokens take after the prompt and the first token."""
        return decode_seconds(self._engine, prompt, num_tokens)

    @override
    def prefill_seconds(self, prompt: list[int]) -> float:
        """Return how long a prompt takes up to its first token."""
        return prefill_seconds(self._engine, prompt)

    @override
    def write_json(self, prompt: list[int], schema: str, max_tokens: int) -> WrittenJson:
        """Generate JSON under a schema after a prompt."""
        try:
            call = decode_call(self._engine, prompt, schema, max_tokens)
        except ConstraintError as error:
            raise SchemaRefusedError(str(error)) from error
        return WrittenJson(call.text, call.num_tokens, call.decode_s, call.compile_s)

    @override
    def play(self, script: ReactScript, opening: list[int]) -> ReactRun:
        """Play a script on a session."""
        with self._engine.session() as session:
            session.append(opening)
            return play(script, SessionContext(session))

    def play_all(self, scripts: list[ReactScript], *, together: bool, cache_salt: str) -> list[ReactRun]:
        """Play scripts at the same time or one after another, sharing what they leave in the prefix cache."""
        if together:
            return play_together(self._engine, scripts, cache_salt=cache_salt)
        return [play_script(self._engine, script, cache_salt=cache_salt) for script in scripts]

    @override
    def close(self) -> None:
        """Close the engine."""
        self._engine.close()
