"""The config.json of a checkpoint as it lies on disk: reading it, typed access, and refusing remote code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from sureact.errors import CheckpointError, UnsupportedModelError


def read_json_object(path: Path) -> dict[str, object]:
    """Read a JSON file that holds an object.

    Raises:
        CheckpointError: the file is missing, is not JSON, or holds something else.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is missing; a model folder holds config.json and safetensors files.") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} must hold a JSON object.")
    return cast("dict[str, object]", value)


def refuse_remote_code(config: Mapping[str, object]) -> None:
    """Refuse a checkpoint that brings its own modeling code.

    Raises:
        UnsupportedModelError: it does; the message names the architecture and, for the first Qwen, its successor.
    """
    names = architectures(config)
    if "QWenLMHeadModel" in names or config.get("model_type") == "qwen":
        raise UnsupportedModelError(
            "Architecture QWenLMHeadModel (the first Qwen) runs only with code that comes with the checkpoint, which "
            "is never executed. Use its successor Qwen2.5, such as Qwen/Qwen2.5-7B-Instruct for Qwen-7B-Chat."
        )
    if config.get("auto_map"):
        raise UnsupportedModelError(
            f"Architecture {' or '.join(names) or 'of this checkpoint'} runs only with code that comes with the "
            "checkpoint (`auto_map` in config.json), which is never executed. Use a model that transformers knows."
        )


def architectures(config: Mapping[str, object]) -> list[str]:
    """Return the class names that the checkpoint lists; empty when it lists none."""
    value = config.get("architectures")
    return [str(name) for name in cast("list[object]", value)] if isinstance(value, list) else []


def read_int(config: Mapping[str, object], key: str, default: int | None = None) -> int:
    """Return a whole number above 0.

    Raises:
        CheckpointError: it is missing without a default, or not such a number.
    """
    value = config.get(key)
    if value is None and default is not None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise CheckpointError(f"config.json: {key} is {value!r}; it must be a whole number above 0.")
    return value


def read_float(config: Mapping[str, object], key: str, default: float) -> float:
    """Return a number.

    Raises:
        CheckpointError: it is something else.
    """
    value = config.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise CheckpointError(f"config.json: {key} is {value!r}; it must be a number.")
    return float(value)


def read_token_ids(config: Mapping[str, object], key: str) -> tuple[int, ...]:
    """Return token ids that are written as one number, a list or null.

    Raises:
        CheckpointError: it is something else.
    """
    value = config.get(key)
    items = cast("list[object]", value) if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(item, int) and not isinstance(item, bool) for item in items):
        raise CheckpointError(f"config.json: {key} is {value!r}; it must be a token id or a list of them.")
    return tuple(cast("list[int]", items))
