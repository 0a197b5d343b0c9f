"""How a model begins a call in a chat: with Qwen's tag, or with the bare JSON that small models write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sureact.outputs import StepOutput

OPEN_TAG = "<tool_call>"
CLOSE_TAG = "</tool_call>"
BARE_CALLS = ('{"name":', '{ "name":', '{\n"name":', '{\n  "name":', '{\n    "name":')
"""How calls begin that have no tag; Qwen's coder models write most of theirs so, in a fence."""

_FENCE = re.compile(r"```(?:json)?\s*$")


def opening_stops(tag_ids: Sequence[int]) -> list[str | tuple[int, ...]]:
    """Return what a call begins with: its tag, as text and as the given ids, or bare JSON."""
    return [*BARE_CALLS, OPEN_TAG, tuple(tag_ids)]


def is_stopped(output: StepOutput) -> bool:
    """Whether a stop that was given ended the text, not the end of the turn or of the budget."""
    return isinstance(output.stop_reason, str | tuple)


def without_fence(text: str) -> str:
    """Return the text before a call without a tag, less the fence that the call would have stood in."""
    return _FENCE.sub("", text)
