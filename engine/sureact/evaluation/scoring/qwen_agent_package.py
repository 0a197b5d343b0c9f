"""The package `qwen-agent`: its loops, imported without the clients of services that nothing here asks."""

from __future__ import annotations

import logging
import sys
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

_UNUSED = ("dashscope", "soundfile")
"""A service's client and a reader of audio: imported wherever the package is, and named by it among its dependencies in
part only."""


@contextmanager
def _stand_ins() -> Generator[None]:
    missing = [name for name in _UNUSED if name not in sys.modules and find_spec(name) is None]
    sys.modules.update({name: ModuleType(name) for name in missing})
    try:
        yield
    finally:
        for name in missing:
            del sys.modules[name]


try:
    with _stand_ins():
        from qwen_agent.agents.fncall_agent import FnCallAgent
        from qwen_agent.agents.react_chat import ReActChat
        from qwen_agent.llm.function_calling import BaseFnCallModel
        from qwen_agent.llm.schema import Message
        from qwen_agent.tools.base import BaseTool
        from qwen_agent.utils.utils import json_loads
except ImportError as error:
    raise ImportError(f"Qwen-Agent cannot be imported ({error}): pip install qwen-agent") from error

# It logs every turn to standard error, and what a tool raises, which the model is told anyway.
logging.getLogger("qwen_agent_logger").setLevel(logging.CRITICAL)

__all__ = ["BaseFnCallModel", "BaseTool", "FnCallAgent", "Message", "ReActChat", "json_loads"]
