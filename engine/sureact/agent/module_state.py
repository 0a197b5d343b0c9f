"""What of a module is saved: demos, instructions and descriptions of its predictors, as JSON.

Code is not saved, and pickle is refused: reading it can run anything.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sureact import __version__
from sureact.errors import ModuleStateError

if TYPE_CHECKING:
    from sureact.agent.signature import Signature

STATE_VERSION = 1
NO_PICKLE = (
    "reading it can run any code. Save the state with module.save('module.json'), keep the code of the module as code, "
    "and load the state into a new object of it."
)
_logger = logging.getLogger(__name__)


def write_state(path: str | Path, state: Mapping[str, Any], *, save_program: bool) -> None:
    """Write a state file. It replaces an older one only when it is whole.

    Raises:
        ModuleStateError: the file cannot be written, is not to be JSON, or the state is not.
    """
    file = Path(path)
    if save_program:
        raise ModuleStateError(f"save_program=True would pickle the module, and {NO_PICKLE}")
    _require_json(file)
    content = {"metadata": {"state_version": STATE_VERSION, "dependency_versions": _versions()}, "state": state}
    try:
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2)
    except (TypeError, ValueError) as error:
        raise ModuleStateError(f"The state cannot be written as JSON: {error}.") from error
    beside = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        # What UTF-8 cannot hold is written as JSON escapes it.
        beside.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        os.replace(beside, file)
    except OSError as error:
        raise ModuleStateError(f"State file {file} cannot be written: {error.strerror}.") from error
    finally:
        beside.unlink(missing_ok=True)


def read_state(path: str | Path, *, allow_pickle: bool) -> dict[str, Any]:
    """Return the state in a file; log a warning where it was saved by other versions.

    Raises:
        ModuleStateError: the file cannot be read, or holds no state of this or an older version.
    """
    file = Path(path)
    _require_json(file)
    if allow_pickle:
        raise ModuleStateError(f"allow_pickle=True is not served for a pickle: {NO_PICKLE}")
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModuleStateError(f"State file {file} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ModuleStateError(f"State file {file} is not JSON: {error}.") from error
    metadata = content.get("metadata") if isinstance(content, dict) else None
    state = content.get("state") if isinstance(content, dict) else None
    if not isinstance(metadata, dict) or not isinstance(state, dict) or "state_version" not in metadata:
        raise ModuleStateError(
            f"State file {file} was not written by sureact. To take over a program of dspy, load it there, and copy "
            "the demos and instructions of its predictors."
        )
    version = cast("dict[str, Any]", metadata)["state_version"]
    if not isinstance(version, int) or version > STATE_VERSION:
        raise ModuleStateError(
            f"State file {file} has the version {version}; this sureact reads up to {STATE_VERSION}. Update sureact."
        )
    _warn_of_versions(file, cast("dict[str, Any]", metadata).get("dependency_versions"))
    return cast("dict[str, Any]", state)


def signature_state(signature: Signature) -> dict[str, Any]:
    """Return what is saved of a signature."""
    kinds = {**dict.fromkeys(signature.inputs, "input"), **dict.fromkeys(signature.outputs, "output")}
    fields = [
        {"name": name, "kind": kinds[name], "description": field.desc} for name, field in signature.fields.items()
    ]
    return {"instructions": signature.instructions, "fields": fields}


def restored_signature(signature: Signature, state: object, name: str) -> Signature:
    """Return the signature with the saved instructions and descriptions.

    Raises:
        ModuleStateError: the state is malformed, or that of other fields.
    """
    try:
        saved = cast("dict[str, Any]", state)
        descriptions = {field["name"]: str(field["description"]) for field in saved["fields"]}
        instructions = str(saved["instructions"])
    except (TypeError, KeyError) as error:
        raise ModuleStateError(f"The signature of {name} in the state is malformed: {error!r}.") from error
    if list(descriptions) != list(signature.fields):
        raise ModuleStateError(
            f"The state of {name} is one of the fields {list(descriptions)}; the module has {list(signature.fields)}."
        )
    return signature.with_instructions(instructions).with_descriptions(descriptions)


def check_names(saved: Iterable[str], present: Sequence[str]) -> None:
    """Judge whether a state is one of these predictors.

    Raises:
        ModuleStateError: it is not, or two predictors have one name.
    """
    saved = list(saved)
    missing = [name for name in present if name not in saved]
    unknown = [name for name in saved if name not in present]
    if missing or unknown:
        raise ModuleStateError(
            f"The state is that of another module. It lacks the predictors {missing}, and has {unknown} in addition."
        )


def _require_json(file: Path) -> None:
    if file.suffix in (".pkl", ".pickle"):
        raise ModuleStateError(f"{file} would be a pickle, and {NO_PICKLE}")
    if file.suffix != ".json":
        raise ModuleStateError(f"The state file is {str(file)!r}; its name must end in .json.")


def _versions() -> dict[str, str]:
    return {"python": f"{sys.version_info.major}.{sys.version_info.minor}", "sureact": __version__}


def _warn_of_versions(file: Path, saved: object) -> None:
    if not isinstance(saved, dict):
        return
    for name, current in _versions().items():
        other = cast("dict[str, Any]", saved).get(name)
        if other != current:
            _logger.warning(
                "State file %s was saved with %s %s, and this is %s: prompts may differ, and with them the results.",
                file,
                name,
                other,
                current,
            )
