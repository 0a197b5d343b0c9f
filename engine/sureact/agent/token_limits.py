"""How much a run may take: tokens per part, tokens and seconds of the whole, and whether another step fits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

from sureact.agent.call_policy import require_seconds
from sureact.errors import ConfigError
from sureact.option_values import require_whole
from sureact.sampling_params import RunawayLimits, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sureact.agent.prediction import RunUsage


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLimits:
    """Most tokens per part of a run, each at least 1, and limits of the whole run."""

    thought: int = 200
    call: int = 512
    """Tool name and arguments together."""
    observation: int = 1024
    """Longer observations are cut, with a note; never more than a quarter of the context."""
    outputs: int = 1024
    """Steps leave so many free in the context, or an eighth of it if that is less; the outputs then get the rest."""
    kept_observation: int = 128
    """What an observation keeps at least when the context is full and the longest old ones are cut, before a step is
    dropped. As many as `observation` leave them whole."""
    run: int | None = None
    """Most tokens generated in a run. A step is begun only if it and the outputs fit, whatever they take, so it must be
    at least `thought` + `call` + `outputs`. None for no limit."""
    max_seconds: float | None = None
    """Seconds after which no step is begun, nor a call decided; nor a step that would go beyond them if it took as long
    as the longest one before. The outputs are given after that. None for no limit."""

    on_max_tokens: Literal["cut", "close"] = "close"
    """What the tokens of a call or of outputs do to them: as in `SamplingParams`, but they are closed by default."""
    runaway: RunawayLimits | None = field(default_factory=RunawayLimits)
    """What ends thoughts, calls and outputs that run on; None for nothing."""

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("thought", "call", "observation", "outputs", "kept_observation"):
            require_whole(f"TokenLimits.{name}", getattr(self, name))
        if self.run is not None and require_whole("TokenLimits.run", self.run) < self.step + self.outputs:
            raise ConfigError(
                f"TokenLimits.run is {self.run:,}; one step and the outputs take up to {self.step + self.outputs:,} "
                "tokens (thought + call + outputs). Raise it, or lower those."
            )
        SamplingParams(on_max_tokens=self.on_max_tokens, runaway=self.runaway)  # refuses what they cannot be
        if self.max_seconds is not None:
            require_seconds("TokenLimits.max_seconds", self.max_seconds)

    @property
    def step(self) -> int:
        """Most tokens generated in a step."""
        return self.thought + self.call

    @classmethod
    def recorded(cls, header: Mapping[str, Any]) -> TokenLimits:
        """Return the limits of the header of a trace; before version 3, observations were not cut again.

        Where it does not tell how text is ended that runs on, none was.
        """
        known = {field.name for field in fields(cls)}
        limits = {name: value for name, value in header["limits"].items() if name in known}
        runaway = limits.get("runaway")
        options: dict[str, Any] = {"on_max_tokens": "cut", "kept_observation": limits["observation"], **limits}
        options["runaway"] = runaway and RunawayLimits(**runaway)
        return cls(**options)


def checked_limits(limits: TokenLimits | None) -> TokenLimits:
    """Return the limits; None gives the default ones.

    Raises:
        ConfigError: they are something else.
    """
    if not isinstance(limits, TokenLimits | None):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"limits is {limits!r}; it must be a TokenLimits, such as TokenLimits(thought=100), or None.")
    return TokenLimits() if limits is None else limits


class RunBudget:
    """What is left of the tokens and seconds of a run; its clock starts now."""

    def __init__(self, limits: TokenLimits, usage: RunUsage) -> None:
        self._limits = limits
        self._usage = usage
        self._started = time.perf_counter()
        self._step_started: float | None = None
        self._longest_step_s = 0.0

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.perf_counter() - self._started

    def reason_to_end(self) -> Literal["token_budget", "time_budget"] | None:
        """Begin a step; or return why there is none."""
        now = time.perf_counter()
        if self._step_started is not None:
            self._longest_step_s = max(self._longest_step_s, now - self._step_started)
        if not self.has_tokens(self._limits.step):
            return "token_budget"
        limit = self._limits.max_seconds
        if limit is not None and now - self._started + self._longest_step_s >= limit:
            return "time_budget"
        self._step_started = now
        return None

    def has_tokens(self, num_tokens: int) -> bool:
        """Whether so many can be generated, and the outputs after them."""
        limit = self._limits.run
        return limit is None or self._usage.completion_tokens + num_tokens + self._limits.outputs <= limit

    @property
    def is_out_of_time(self) -> bool:
        """Whether the seconds are over."""
        limit = self._limits.max_seconds
        return limit is not None and self.seconds >= limit
