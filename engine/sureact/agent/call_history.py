"""The texts that modules had a model generate, kept to be looked at."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, TextIO

from sureact.errors import ConfigError
from sureact.visible_text import visible

if TYPE_CHECKING:
    from sureact.agent.transcript import Transcript
    from sureact.outputs import StepOutput
    from sureact.sampling_params import SamplingParams

MAX_CALLS_KEPT = 100
"""Calls that a module remembers; their prompts may be long."""

_RED, _GREEN, _BLUE, _END = "\033[31m", "\033[32m", "\033[34m", "\033[0m"


@dataclass(frozen=True, slots=True)
class LmCall:
    """One generation: what the model read, and what it wrote."""

    call_id: str
    time_s: float
    """When it began, in seconds since the epoch."""
    model: str
    params: SamplingParams
    is_constrained: bool
    output: StepOutput
    seconds: float
    transcript: Transcript
    """What stood in the context before it."""

    @property
    def prompt(self) -> str:
        """All that the model read, with control tokens spelled out."""
        return self.transcript.text


def print_history(history: Iterable[LmCall], n: int = 1, file: TextIO | None = None) -> None:
    """Print the last calls, oldest first.

    Args:
        history: the calls, in order.
        n: how many, at least 1.
        file: where to; None for standard output, in color if that is a terminal and `NO_COLOR` is not set.

    Raises:
        ConfigError: `n` is no whole number, or below 1.
    """
    if not isinstance(n, int) or isinstance(n, bool) or n < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigError(f"n is {n!r}; it must be a whole number, at least 1.")
    out = file or sys.stdout
    has_color = file is None and out.isatty() and not os.environ.get("NO_COLOR")
    for call in list(history)[-n:]:
        out.write(_shown(call, has_color))


def _shown(call: LmCall, has_color: bool) -> str:
    usage = call.output.usage
    rows = (
        (_BLUE, f"[{datetime.fromtimestamp(call.time_s):%Y-%m-%d %H:%M:%S}] {call.model}"),
        (_RED, "Prompt:"),
        ("", call.prompt.strip()),
        (_RED, f"Response, {'constrained' if call.is_constrained else 'free'}:"),
        (_GREEN, call.output.text.strip()),
        (
            _BLUE,
            f"[{usage.prompt_tokens} prompt tokens, {usage.cached_tokens} of them cached, {usage.completion_tokens} "
            f"generated in {call.seconds:.2f} s, ended by {call.output.finish_reason}]",
        ),
    )
    texts = [(color, visible(text)) for color, text in rows]
    return "\n".join(f"{color}{text}{_END}" if has_color and color else text for color, text in texts) + "\n\n"
