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
    from sureact.engine import Engine

SMALL_MODEL = "qwen2.5-coder-0.5b-instruct"
AGENT_MODEL = "qwen2.5-coder-1.5b-instruct"
"""What agents take: the small one picks the right tool but repeats its calls."""


def add_model_options(parser: argparse.ArgumentParser, *, default_model: str = SMALL_MODEL) -> None:
    """Add `--model` and an option per engine setting."""
    parser.add_argument(
        "--model",
        default=os.environ.get("SUREACT_MODEL") or default_model,
        metavar="NAME",
        help=f"{field_docs(EngineConfig)['model']} (default: $SUREACT_MODEL, else {default_model})",
    )
    add_field_options(parser, "engine", EngineConfig, skip=("model",))


def engine_config(arguments: argparse.Namespace) -> EngineConfig:
    """Return the settings that the options ask for.

    Raises:
        ConfigError: a value is not allowed.
    """
    return EngineConfig(model=arguments.model, **field_values(arguments, EngineConfig, skip=("model",)))


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
