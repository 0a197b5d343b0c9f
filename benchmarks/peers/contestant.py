"""What every engine can be asked for, and what all but ours share: they take ids and return ids."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from sureact.evaluation.react_script import Generated, play

if TYPE_CHECKING:
    from sureact.evaluation.react_script import ReactRun, ReactScript
    from sureact.outputs import StepTimings


class SchemaRefusedError(Exception):
    """An engine does not take a schema."""


@dataclass(frozen=True, slots=True)
class WrittenJson:
    """JSON under a schema, and what it took."""

    text: str
    num_tokens: int
    """Tokens after the first, an end-of-sequence token included."""
    decode_s: float
    """By the clock, from the first token on."""
    compile_s: float


class Contestant(ABC):
    """A way to run a model."""

    @abstractmethod
    def decode_seconds(self, prompt: list[int], num_tokens: int) -> float:
        """Return how long `num_tokens` tokens take after the prompt and the first token."""

    @abstractmethod
    def prefill_seconds(self, prompt: list[int]) -> float:
        """Return how long a prompt takes up to its first token."""

    @abstractmethod
    def write_json(self, prompt: list[int], schema: str, max_tokens: int) -> WrittenJson:
        """Generate JSON under a schema after a prompt.

        Raises:
            SchemaRefusedError: the engine does not take the schema.
        """

    @abstractmethod
    def play(self, script: ReactScript, opening: list[int]) -> ReactRun:
        """Play a script; `opening` are the ids of its messages."""

    def close(self) -> None:  # noqa: B027  most have nothing to do
        """Give the model's memory back."""


class GeneratedIds(NamedTuple):
    """Ids that were generated, an end-of-sequence id that stopped them included."""

    token_ids: list[int]
    is_complete: bool
    """Whether an end-of-sequence id stopped them."""
    timings: StepTimings


class IdContestant(Contestant):
    """An engine that generates ids after ids and keeps what it computed of the ids before."""

    @abstractmethod
    def generate(self, prompt: list[int], max_tokens: int, *, schema: str | None = None) -> GeneratedIds:
        """Generate greedily: under a schema to its end, without one exactly `max_tokens` ids, whatever they are.

        Raises:
            SchemaRefusedError: the engine does not take the schema.
        """

    @abstractmethod
    def compile_schema(self, schema: str) -> None:
        """Prepare a schema, or do nothing if that was done.

        Raises:
            SchemaRefusedError: the engine does not take the schema.
        """

    @abstractmethod
    def ids_of(self, text: str) -> list[int]:
        """Return the ids of a text without control tokens."""

    @abstractmethod
    def text_of(self, token_ids: list[int]) -> str:
        """Return the text of ids; control tokens have none."""

    @override
    def decode_seconds(self, prompt: list[int], num_tokens: int) -> float:
        """Return how long `num_tokens` tokens take after the prompt and the first token."""
        return self.generate(prompt, num_tokens + 1).timings.decode_s

    @override
    def prefill_seconds(self, prompt: list[int]) -> float:
        """Return how long a prompt takes up to its first token."""
        return self.generate(prompt, 1).timings.prefill_s

    @override
    def write_json(self, prompt: list[int], schema: str, max_tokens: int) -> WrittenJson:
        """Generate JSON under a schema after a prompt."""
        start = time.perf_counter()
        self.compile_schema(schema)
        compile_s = time.perf_counter() - start
        token_ids, _, timings = self.generate(prompt, max_tokens, schema=schema)
        return WrittenJson(self.text_of(token_ids), len(token_ids) - 1, timings.decode_s, compile_s)

    @override
    def play(self, script: ReactScript, opening: list[int]) -> ReactRun:
        """Play a script on one growing list of ids."""
        return play(script, _GrowingIds(self, list(opening)))


class _GrowingIds:
    """A context of ids."""

    def __init__(self, contestant: IdContestant, token_ids: list[int]) -> None:
        self._contestant = contestant
        self._token_ids = token_ids

    def append(self, text: str) -> None:
        self._token_ids += self._contestant.ids_of(text)

    def think(self, num_tokens: int) -> Generated:
        return self._keep(self._contestant.generate(self._token_ids, num_tokens))

    def write_json(self, schema: str, max_tokens: int) -> Generated:
        return self._keep(self._contestant.generate(self._token_ids, max_tokens, schema=schema))

    def _keep(self, generated: GeneratedIds) -> Generated:
        token_ids, is_complete, timings = generated
        self._token_ids += token_ids[:-1] if is_complete else token_ids
        return Generated(self._contestant.text_of(token_ids), len(token_ids), is_complete, timings)
