"""What runs in the process of an isolated tool: reads calls from its standard input, answers on its standard output.

Both are lines of JSON. What the tool itself prints goes to standard error. The process ends with its input, which the
system closes when the one that started it is gone.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import queue
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import psutil

from sureact.agent.observation import cut_to_characters, error_message, observation_text
from sureact.agent.tool import Tool

if TYPE_CHECKING:
    from sureact.agent.cancellation import Cancellation

_MAX_CHARACTERS = 1_000_000


def main() -> None:
    """Load the tool that the first line names, then answer calls until the input ends."""
    requests, replies = begin()
    set_lowest_priority()
    calls = messages_of(requests)
    try:
        tool = load_tool(next(calls))
    except (Exception, SystemExit) as error:  # the user's module may raise anything
        send(replies, failure(error))
        return
    send(replies, {"text": "ready"})
    for args in calls:
        send(replies, answer(tool, args))


def begin() -> tuple[BinaryIO, BinaryIO]:
    """Make this process one that runs tools; return the ends of its pipes, which the tools do not see."""
    requests = os.fdopen(os.dup(0), "rb")
    replies = os.fdopen(os.dup(1), "wb")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    _take_terminal_for_closed()
    return requests, replies


def load_tool(start: Mapping[str, Any]) -> Tool:
    """Import the function that a first message names, as the process that sent it did."""
    take_path(start["path"])
    function: Any = load_module(start["module"], start["file"])
    for name in start["qualname"].split("."):
        function = getattr(function, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the process that started this one has warned already
        return Tool(function, start["name"], "", start["args"])


def take_path(path: Sequence[str]) -> None:
    """Import first what the process that started this one would import."""
    sys.path[:] = [*path, *(entry for entry in sys.path if entry not in path)]


def load_module(name: str, file: str | None) -> Any:
    """Import a module by its name, or where no import finds it, such as the program that was started, from its file."""
    if file is None or (name != "__main__" and importlib.util.find_spec(name) is not None):
        return importlib.import_module(name)
    own_name = "__sureact_main__" if name == "__main__" else name
    spec = importlib.util.spec_from_file_location(own_name, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[own_name] = module
    sys.path.insert(0, str(Path(file).parent))
    spec.loader.exec_module(module)
    return module


def answer(tool: Tool, args: Mapping[str, Any], cancellation: Cancellation | None = None) -> dict[str, Any]:
    """Call the tool and return its result as text, or its error."""
    try:
        text = tool.run(args, observation_text, cancellation)
    except (Exception, SystemExit) as error:  # the model reads it, whatever it is
        return failure(error)
    return {"text": cut_to_characters(text, _MAX_CHARACTERS)}


def failure(error: BaseException) -> dict[str, Any]:
    """Return what is told of an error."""
    return {
        "error": type(error).__name__,
        "types": [type_name(kind) for kind in type(error).__mro__],
        "message": error_message(error)[:_MAX_CHARACTERS],
    }


def type_name(kind: type) -> str:
    """Return what a class is called in both processes."""
    return f"{kind.__module__}.{kind.__qualname__}"


def set_lowest_priority() -> None:
    """Let every other process go first."""
    psutil.Process().nice(getattr(psutil, "IDLE_PRIORITY_CLASS", 19))


def _take_terminal_for_closed() -> None:
    """Let what a tool asks at the terminal fail; it would stop the process for good."""
    for name in ("SIGTTIN", "SIGTTOU"):
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, signal.SIG_IGN)


def messages_of(requests: BinaryIO) -> Iterator[dict[str, Any]]:
    """Yield what arrives. Another thread reads, so that the process also ends while a tool runs."""
    lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def read() -> None:
        for line in requests:
            lines.put(line)
        for child in psutil.Process().children(recursive=True):  # what tools have started
            with suppress(psutil.Error):
                child.kill()
        os._exit(0)

    threading.Thread(target=read, name="sureact-calls", daemon=True).start()
    while True:
        yield json.loads(lines.get())


def send(replies: BinaryIO, message: Mapping[str, Any]) -> None:
    """Write a message."""
    replies.write(json.dumps(message).encode() + b"\n")
    replies.flush()
