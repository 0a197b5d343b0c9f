"""An `Engine` as the language model of dspy, 3.4 and later.

    dspy.configure(lm=lm("qwen2.5-coder-1.5b-instruct"))
    react = constrain(dspy.ReAct("question -> answer", tools=[search]))

`lm` opens a model and wraps it; `dspy_engine` and `async_dspy_engine` are the two halves of it, for an engine that is
open already: `dspy.LM("sureact/" + engine.name, engine=dspy_engine(engine), async_engine=async_dspy_engine(engine))`.
`constrain` sees to it that no answer fails to parse. Threads of `batch` share the engine's passes.
"""

from __future__ import annotations

from typing import Any

try:
    import dspy
except ImportError as error:
    raise ImportError("dspy is not installed, or older than 3.4: pip install 'sureact[dspy]'.") from error

from sureact.async_engine import EngineOptions
from sureact.engine import Engine
from sureact.errors import ConfigError
from sureact.integrations.dspy_engine import PREFIX, AnswerTruncatedError, AsyncDspyEngine, DspyEngine, open_engine
from sureact.integrations.dspy_program import constrain, release
from sureact.isolation.engine_process import EngineProcess

__all__ = [
    "AnswerTruncatedError",
    "AsyncDspyEngine",
    "DspyEngine",
    "async_dspy_engine",
    "constrain",
    "dspy_engine",
    "lm",
    "release",
]


def lm(
    model: Engine | EngineProcess | str,
    *,
    engine_options: EngineOptions | None = None,
    cache: bool = False,
    temperature: float = 0.0,
    max_tokens: int | None = None,
    **options: Any,
) -> dspy.LM:
    """Return a language model for `dspy.configure`.

    Args:
        model: an open engine, which stays yours to close, or the name of a model to open. An `EngineProcess` answers
            dspy's threads, not its coroutines.
        engine_options: how to open it; see `Engine`.
        cache: whether dspy keeps answers, on disk too. Its key holds the model's name and not its quantization.
        temperature: 0 is greedy.
        max_tokens: most tokens of an answer; None for 1,024, or a quarter of the context if that is less.
        **options: further ones of `dspy.LM`.

    Raises:
        SureactError: the model cannot be opened; see `Engine`.
        ConfigError: `engine_options` are given for an engine that is open.
    """
    if not isinstance(model, str):
        if engine_options:
            raise ConfigError("engine_options are for a model to open; this engine is open already. Leave them out.")
        engine = model
    else:
        engine = open_engine(model, engine_options or {})
    return dspy.LM(
        PREFIX + engine.name,
        engine=dspy_engine(engine),
        async_engine=async_dspy_engine(engine) if isinstance(engine, Engine) else None,
        cache=cache,
        temperature=temperature,
        max_tokens=max_tokens,
        **options,
    )


def dspy_engine(engine: Engine | EngineProcess) -> DspyEngine:
    """Return what `dspy.LM(engine=...)` takes."""
    return DspyEngine(engine)


def async_dspy_engine(engine: Engine) -> AsyncDspyEngine:
    """Return what `dspy.LM(async_engine=...)` takes."""
    return AsyncDspyEngine(engine)
