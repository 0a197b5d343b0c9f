"""Tool-using agents on a local model, fully offline, with every tool call valid.

Names are loaded when they are first used, so that `import sureact` takes no time and loads neither torch nor a model.
"""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sureact.agent.callback import Callback
    from sureact.agent.history import History
    from sureact.agent.module import Module
    from sureact.agent.module_scope import track_usage
    from sureact.agent.predict import ChainOfThought, Predict
    from sureact.agent.prediction import Example, Prediction
    from sureact.agent.prompt import prompt
    from sureact.agent.react import ReAct
    from sureact.agent.react_v2 import ReActV2
    from sureact.agent.signature import Signature
    from sureact.agent.tool import Tool
    from sureact.agent.trajectory import Trajectory
    from sureact.async_engine import AsyncEngine
    from sureact.config import EngineConfig
    from sureact.constraints.choice import choice
    from sureact.constraints.grammar import grammar
    from sureact.constraints.json_schema import json_schema
    from sureact.constraints.regex import regex
    from sureact.engine import Engine
    from sureact.errors import (
        CheckpointError,
        ChecksumError,
        ConfigError,
        ConstraintCompileError,
        ConstraintError,
        ConstraintStateError,
        ContextWindowExceededError,
        DiskSpaceError,
        IndexUnreachableError,
        InternalError,
        ListenError,
        ModelNotFoundError,
        ModuleStateError,
        OutOfMemoryError,
        OutputTruncatedError,
        PromptTooLongError,
        PullError,
        RequestAbortedError,
        SessionError,
        SignatureError,
        SureactError,
        TemplateVariableError,
        ToolDefinitionError,
        ToolError,
        ToolExecutionError,
        ToolTimeoutError,
        TraceError,
        UnsupportedModelError,
        UnsupportedSchemaError,
        WorkerLostError,
    )
    from sureact.isolation.engine_process import EngineProcess
    from sureact.sampling_params import RunawayLimits, SamplingParams
    from sureact.session import Session

_NAMES_OF_MODULE = {
    "sureact.agent.callback": ("Callback",),
    "sureact.agent.history": ("History",),
    "sureact.agent.module": ("Module",),
    "sureact.agent.module_scope": ("track_usage",),
    "sureact.agent.predict": ("ChainOfThought", "Predict"),
    "sureact.agent.prediction": ("Example", "Prediction"),
    "sureact.agent.prompt": ("prompt",),
    "sureact.agent.react": ("ReAct",),
    "sureact.agent.react_v2": ("ReActV2",),
    "sureact.agent.signature": ("Signature",),
    "sureact.agent.tool": ("Tool",),
    "sureact.agent.trajectory": ("Trajectory",),
    "sureact.async_engine": ("AsyncEngine",),
    "sureact.config": ("EngineConfig",),
    "sureact.constraints.choice": ("choice",),
    "sureact.constraints.grammar": ("grammar",),
    "sureact.constraints.json_schema": ("json_schema",),
    "sureact.constraints.regex": ("regex",),
    "sureact.engine": ("Engine",),
    "sureact.errors": (
        "CheckpointError",
        "ChecksumError",
        "ConfigError",
        "ConstraintCompileError",
        "ConstraintError",
        "ConstraintStateError",
        "ContextWindowExceededError",
        "DiskSpaceError",
        "IndexUnreachableError",
        "InternalError",
        "ListenError",
        "ModelNotFoundError",
        "ModuleStateError",
        "OutOfMemoryError",
        "OutputTruncatedError",
        "PromptTooLongError",
        "PullError",
        "RequestAbortedError",
        "SessionError",
        "SignatureError",
        "SureactError",
        "TemplateVariableError",
        "ToolDefinitionError",
        "ToolError",
        "ToolExecutionError",
        "ToolTimeoutError",
        "TraceError",
        "UnsupportedModelError",
        "UnsupportedSchemaError",
        "WorkerLostError",
    ),
    "sureact.isolation.engine_process": ("EngineProcess",),
    "sureact.sampling_params": ("RunawayLimits", "SamplingParams"),
    "sureact.session": ("Session",),
}
_MODULE_OF_NAME = {name: module for module, names in _NAMES_OF_MODULE.items() for name in names}

__all__ = [
    "AsyncEngine",
    "Callback",
    "ChainOfThought",
    "CheckpointError",
    "ChecksumError",
    "ConfigError",
    "ConstraintCompileError",
    "ConstraintError",
    "ConstraintStateError",
    "ContextWindowExceededError",
    "DiskSpaceError",
    "Engine",
    "EngineConfig",
    "EngineProcess",
    "Example",
    "History",
    "IndexUnreachableError",
    "InternalError",
    "ListenError",
    "ModelNotFoundError",
    "Module",
    "ModuleStateError",
    "OutOfMemoryError",
    "OutputTruncatedError",
    "Predict",
    "Prediction",
    "PromptTooLongError",
    "PullError",
    "ReAct",
    "ReActV2",
    "RequestAbortedError",
    "RunawayLimits",
    "SamplingParams",
    "Session",
    "SessionError",
    "Signature",
    "SignatureError",
    "SureactError",
    "TemplateVariableError",
    "Tool",
    "ToolDefinitionError",
    "ToolError",
    "ToolExecutionError",
    "ToolTimeoutError",
    "TraceError",
    "Trajectory",
    "UnsupportedModelError",
    "UnsupportedSchemaError",
    "WorkerLostError",
    "choice",
    "grammar",
    "json_schema",
    "prompt",
    "regex",
    "track_usage",
]

try:
    __version__ = version("sureact")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> object:
    """Load a public name from its module."""
    if name not in _MODULE_OF_NAME:
        raise AttributeError(f"module 'sureact' has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF_NAME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
