"""Tool calls to measure: schemas of arguments, and the prompt that asks for a call."""

from __future__ import annotations

import json
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sureact.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sureact.tokens.chat_template import Message

FUNCTION_CALL_PREFIXES = ("Glaiveai2K", "BFCL")
"""How MaskBench names the files whose schemas are arguments of functions."""

_OWN_SCHEMAS = Path(__file__).with_name("tool_schemas.json")


@dataclass(frozen=True, slots=True)
class ToolCallTask:
    """A call that a model is asked for."""

    name: str
    schema_text: str
    """JSON schema of the arguments, as JSON text."""

    @property
    def messages(self) -> list[Message]:
        """The chat that asks for the call."""
        request = (
            "Call this function with arguments that make sense. The JSON schema of its arguments is:\n"
            f"{self.schema_text}\nAnswer with the arguments as one JSON object and nothing else."
        )
        return [{"role": "user", "content": request}]


def tool_call_tasks(path: Path | None = None, limit: int | None = None) -> list[ToolCallTask]:
    """Return the calls of a folder or tar archive of MaskBench files, else those of a dozen tools that come with us.

    Args:
        path: files whose names do not tell function calls are passed over; None takes our own.
        limit: most tasks, taken evenly from all in the order of their names.

    Raises:
        ConfigError: there is nothing at `path`, or no schema of a function call.
    """
    tasks = list(_read_tasks(path)) if path else own_tool_calls()
    if not tasks:
        raise ConfigError(f"{path} holds no file named {' or '.join(f'{p}*.json' for p in FUNCTION_CALL_PREFIXES)}.")
    num_taken = min(limit or len(tasks), len(tasks))
    return [tasks[index * len(tasks) // num_taken] for index in range(num_taken)]


def own_tool_calls() -> list[ToolCallTask]:
    """Return the calls of the tools that come with us."""
    return [ToolCallTask(tool["name"], json.dumps(tool["parameters"])) for tool in own_tools()]


def own_tools() -> list[dict[str, Any]]:
    """Return tools with `name`, `description` and `parameters`, a JSON schema."""
    return json.loads(_OWN_SCHEMAS.read_text(encoding="utf-8"))


def _read_tasks(path: Path) -> Iterator[ToolCallTask]:
    if not path.exists():
        raise ConfigError(f"{path} does not exist; give a folder or tar archive of MaskBench files.")
    try:
        files = sorted(_folder_files(path) if path.is_dir() else _archive_files(path))
        for name, content in files:
            document = json.loads(content)
            yield ToolCallTask(name.removesuffix(".json"), json.dumps(document["schema"]))
    except (OSError, tarfile.TarError, ValueError, LookupError, TypeError) as error:
        raise ConfigError(f"The schemas of {path} cannot be read: {error!r}.") from error


def _folder_files(folder: Path) -> Iterable[tuple[str, bytes]]:
    return ((file.name, file.read_bytes()) for file in folder.rglob("*.json") if _is_function_call(file.name))


def _archive_files(archive: Path) -> Iterable[tuple[str, bytes]]:
    with tarfile.open(archive) as tar:
        for member in tar:
            name = Path(member.name).name
            if member.isfile() and _is_function_call(name):
                yield name, cast("Any", tar.extractfile(member)).read()


def _is_function_call(name: str) -> bool:
    return name.startswith(FUNCTION_CALL_PREFIXES) and name.endswith(".json")
