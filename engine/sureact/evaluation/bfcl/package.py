"""The package `bfcl-eval`: where its cases lie, and its checker without the clients of every vendor."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from sureact.errors import ConfigError

INSTALL_COMMAND = "pip install --no-deps bfcl-eval"
"""Without its dependencies: it pins those of dozens of vendors, and its checker and cases need none."""

_MODEL_CONFIG = "bfcl_eval.constants.model_config"

Check = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]], str], str]
"""Takes functions, calls, right answers and a category; returns what is wrong, or nothing."""


def data_folder() -> Path:
    """Return the folder of the cases.

    Raises:
        ConfigError: the package is not installed; the message names the command.
    """
    spec = find_spec("bfcl_eval")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError(f"`eval bfcl` needs the package bfcl-eval, which is not installed: {INSTALL_COMMAND}")
    return Path(next(iter(spec.submodule_search_locations))) / "data"


@cache
def load_checker() -> Check:
    """Return the package's own check of calls in Python.

    Raises:
        ConfigError: the package is not installed, or it is another version that cannot be used.
    """
    data_folder()
    try:
        with _StubbedModelConfig():
            checker = importlib.import_module("bfcl_eval.eval_checker.ast_eval.ast_checker")
            python = importlib.import_module("bfcl_eval.constants.enums").Language.PYTHON
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"The checker of bfcl-eval cannot be loaded ({error}). Install it anew: {INSTALL_COMMAND}"
        ) from error

    def check(
        functions: Sequence[Mapping[str, Any]],
        calls: Sequence[Mapping[str, Any]],
        answers: Sequence[Mapping[str, Any]],
        category: str,
    ) -> str:
        result = checker.ast_checker(list(functions), list(calls), list(answers), python, category, "sureact")
        return "" if result["valid"] else _told(result)

    return check


def _told(result: Mapping[str, Any]) -> str:
    return str(result.get("error") or result.get("error_type") or "The checker says no more.")


class _StubbedModelConfig:
    """Stands in, while the checker is imported, for the module that imports the clients of every vendor.

    The checker looks up one thing in it: whether a model writes the dots of names as underscores. Ours are mapped back
    before it sees them.
    """

    def __enter__(self) -> None:
        self._earlier = sys.modules.get(_MODEL_CONFIG)
        stub = ModuleType(_MODEL_CONFIG)
        stub.MODEL_CONFIG_MAPPING = {"sureact": SimpleNamespace(underscore_to_dot=False)}  # pyright: ignore
        sys.modules[_MODEL_CONFIG] = stub

    def __exit__(self, *_: object) -> None:
        if self._earlier is None:
            sys.modules.pop(_MODEL_CONFIG, None)
        else:
            sys.modules[_MODEL_CONFIG] = self._earlier
