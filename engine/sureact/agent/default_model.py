"""The model of agents that are given none: one engine per process, opened when it is first needed."""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel

DEFAULT_AGENT_MODEL = "qwen2.5-coder-1.5b-instruct"
"""The smallest model of the catalog that answers questions of several steps."""

_opening = threading.Lock()


def default_model() -> LanguageModel:
    """Return the engine of `SUREACT_MODEL`, or of `DEFAULT_AGENT_MODEL` where that is not set.

    All that ask for it share one engine, which stays open until the process ends. To choose other options, or to give
    its memory back, open an `Engine` yourself.

    Raises:
        ModelNotFoundError: the model is not on this disk; the message names the command that gets it.
        SureactError: see `Engine`.
    """
    # Two threads that need it first must not both load it.
    with _opening:
        return _engine(os.environ.get("SUREACT_MODEL") or DEFAULT_AGENT_MODEL)


@cache
def _engine(model: str) -> LanguageModel:
    from sureact.engine import Engine

    return Engine(model)
