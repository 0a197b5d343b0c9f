"""Loads the tools of a Python file: its list `TOOLS`, else its public functions."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from sureact.agent.tool import Tool, tools_by_name
from sureact.errors import ToolDefinitionError


def load_tools(path: str | Path) -> list[Tool]:
    """Run a Python file and return its tools: the list `TOOLS`, else the public functions defined in it.

    Raises:
        ToolDefinitionError: there is no such file, it raises, or it holds no tools or tools that cannot be used.
    """
    file = Path(path)
    if not file.is_file():
        raise ToolDefinitionError(f"There is no tool file {str(path)!r}; give the path of a Python file.")
    module = _run(file)
    found = _listed(module, file) if hasattr(module, "TOOLS") else _public_functions(module)
    if not found:
        raise ToolDefinitionError(f"{file} holds no tools: define public functions, or a list TOOLS.")
    return list(tools_by_name(found).values())


def _run(file: Path) -> ModuleType:
    name = f"sureact_tool_file_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ToolDefinitionError(f"{file} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations written as text are looked up there
    sys.path.insert(0, str(file.parent))  # as `python FILE` does, so that a file can import its neighbors
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything; each is the same to the caller
        del sys.modules[name]
        raise ToolDefinitionError(f"{_place(error, file)}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(file.parent))
    return module


def _place(error: BaseException, file: Path) -> str:
    if isinstance(error, SyntaxError):
        return f"{error.filename or file}, line {error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(file)]
    return f"{file}, line {lines[-1]}" if lines else str(file)


def _listed(module: ModuleType, file: Path) -> list[Tool | Callable[..., object]]:
    tools: Any = module.TOOLS
    if not isinstance(tools, Iterable) or isinstance(tools, str):
        raise ToolDefinitionError(f"TOOLS in {file} is {tools!r}; it must be a list of functions or Tool objects.")
    return list(tools)


def _public_functions(module: ModuleType) -> list[Tool | Callable[..., object]]:
    return [
        value
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
