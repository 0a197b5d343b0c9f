"""The steps of a run, in order; also the mapping that dspy calls a trajectory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

_KEYS = ("thought", "tool_name", "tool_args", "observation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One turn: a thought, a call, and what the call gave."""

    index: int
    """Position in the run, from 0; kept when earlier steps are dropped."""
    thought: str
    tool_name: str
    """Empty where no call could be decoded."""
    tool_args: dict[str, Any]
    """Arguments as parsed JSON, before conversion to the tool's types."""
    observation: str
    """What the model read, after cutting."""
    is_error: bool = False
    """Whether the tool raised or refused the arguments."""
    outcome: str = "done"
    """How the call went: `done`, `error`, `timeout`, `denied`, `dry_run`, `skipped` where a resumed run was not to make
    it again, or `refused` before it could run. That of the earlier step for a repeat."""
    edited_args: dict[str, Any] | None = None
    """Arguments that the user had the tool run with in place of `tool_args`; None where they were not changed."""
    is_repeat: bool = False
    """Whether an earlier identical call was repeated to the model instead of running the tool."""
    prompt_tokens: int = 0
    """Context tokens before the thought plus those before the call."""
    cached_tokens: int = 0
    """Of these, tokens already in the cache."""
    completion_tokens: int = 0
    """Tokens generated for thought and call."""
    model_s: float = 0.0
    """Seconds in the model."""
    tool_s: float = 0.0
    """Seconds in the tool."""
    thinking: str = ""
    """What the model wrote between `<think>` and `</think>` before the thought; not written again when the context is
    rebuilt."""


class Trajectory(Mapping[str, Any]):
    """Steps in order. As a mapping it has the keys `thought_0`, `tool_name_0`, `tool_args_0`, `observation_0`, ..."""

    def __init__(self, steps: list[Step] | None = None) -> None:
        self.steps: list[Step] = list(steps or ())

    def append(self, step: Step) -> None:
        """Add a finished step."""
        self.steps.append(step)

    def drop_oldest(self) -> Step:
        """Remove and return the first step; the others keep their indices."""
        return self.steps.pop(0)

    def __getitem__(self, key: str) -> Any:
        name, _, index = key.rpartition("_")
        if name in _KEYS and index.isdecimal():
            for step in self.steps:
                if step.index == int(index):
                    return getattr(step, name)
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return (f"{key}_{step.index}" for step in self.steps for key in _KEYS)

    def __len__(self) -> int:
        return len(_KEYS) * len(self.steps)

    def __repr__(self) -> str:
        return f"Trajectory({self.steps!r})"

    def to_json(self) -> str:
        """Return the steps as JSON text."""
        return json.dumps([asdict(step) for step in self.steps], ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Trajectory:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is not a list of steps.
        """
        known = {field.name for field in fields(Step)}
        try:
            steps = [Step(**item) for item in json.loads(text)]
        except (TypeError, json.JSONDecodeError) as error:
            raise ValueError(f"Not a trajectory ({error}); expected a JSON list of objects with {known}.") from error
        return cls(steps)
