"""The options that say which model runs and how, and loading it with them."""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from sureact.cli.console import note, working
from sureact.cli.option_fields import add_field_options, field_docs, field_values
from sureact.config import EngineConfig

if TYPE_CHECKING:
    from sureact.agent.language_model import LanguageModel
    from sureact.engine import Engine

SMALL_MODEL = "qwen2.5-coder-0.5b-instruct"
AGENT_MODEL = "qwen2.5-coder-1.5b-instruct"
"""What agents take: the small one picks the right tool but repeats its calls."""


def add_model_options(
    parser: argparse.ArgumentParser, *, default_model: str = SMALL_MODEL, default_words: str | None = None
) -> None:
    """Add `--model` and an option per engine setting.

    Args:
        parser: of the command.
        default_model: what runs where neither the option nor `SUREACT_MODEL` names another.
        default_words: what the help says about the default, of a command that looks for it itself: the option is None
            then where it is not given.
    """
    default = usual_model(default_model) if default_words is None else None
    words = default_words or f"$SUREACT_MODEL, else {default_model}"
    what = field_docs(EngineConfig)["model"]
    parser.add_argument("--model", default=default, metavar="NAME", help=f"{what} (default: {words})")
    add_field_options(parser, "engine", EngineConfig, skip=("model",))


def usual_model(default_model: str) -> str:
    """Return the model that the environment names, or else the default."""
    return os.environ.get("SUREACT_MODEL") or default_model


def engine_config(arguments: argparse.Namespace, model: str | None = None) -> EngineConfig:
    """Return the settings that the options ask for.

    Args:
        arguments: the options.
        model: the model, where the command looks for it itself; None for that of the options.

    Raises:
        ConfigError: a value is not allowed.
    """
    return EngineConfig(model=model or arguments.model, **field_values(arguments, EngineConfig, skip=("model",)))


def unloaded_model(name: str) -> LanguageModel:
    """Return what stands in place of a model of that name until it is loaded, so that an agent is judged before."""
    from sureact.agent.scripted_model import ScriptedModel

    model = ScriptedModel([])
    model.name = name
    return model


def load_engine(config: EngineConfig) -> Engine:
    """Load the model, saying so, and pass on what the engine has to say about it.

    Raises:
        SureactError: see `Engine`.
    """
    converts = " (a GGUF file is converted once)" if config.model.endswith(".gguf") else ""
    with working(f"Loading {config.model}{converts}") as say:
        from sureact.engine import Engine

        engine = Engine(**asdict(config), progress=say)
    for notice in engine.config.notices:
        note(notice)
    return engine
