"""The model of a recorded run: what goes on with it, or runs it again, takes no other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sureact.errors import CheckpointError, ConfigError, ModelNotFoundError


def recorded_model(given: str | None, header: Mapping[str, Any]) -> str:
    """Return the model to load for a run, by which the trace's is meant.

    Args:
        given: what `--model` says; None takes `SUREACT_MODEL` where that is the trace's model, else the trace's name.
        header: of the run.

    Raises:
        ConfigError: `given` is another model.
        ModelNotFoundError: the model is not on this disk by that name.
    """
    from sureact.catalog.resolve import resolve_model
    from sureact.catalog.store import ModelStore

    store, recorded = ModelStore(), header["model"]
    if given is not None:
        name = resolve_model(given, store).name
        if name != recorded:
            raise ConfigError(
                f"The run was written with the model {recorded!r}, and --model is {name!r}, to which the trace means "
                "nothing. Leave --model out, or name that model."
            )
        return given
    usual = os.environ.get("SUREACT_MODEL")
    try:
        if usual and resolve_model(usual, store).name == recorded:
            return usual
    except (CheckpointError, ModelNotFoundError):
        pass  # it is not what this run needs
    try:
        resolve_model(recorded, store)
    except ModelNotFoundError as error:
        raise ModelNotFoundError(
            f"{error} The run was written with it. If it is a folder or a file of yours, name that with --model."
        ) from error
    return recorded
