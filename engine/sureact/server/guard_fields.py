"""The fields that say what ends a text that runs on, and how an answer tells what was ended early."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from sureact.sampling_params import RunawayLimits
from sureact.server.field_values import integer, one_of, read_boolean, read_object, refuse
from sureact.server.request_fields import Field, honored, read_fields

if TYPE_CHECKING:
    from sureact.outputs import EarlyEnd

_DEFAULTS = RunawayLimits()
RUNAWAY_NAMES = tuple(limit.name for limit in fields(RunawayLimits))
_LIMIT_FIELDS: Sequence[Field] = tuple(integer(name, least=1) for name in RUNAWAY_NAMES)


def _limits(value: Any, path: str) -> RunawayLimits:
    """Read an object with the limits that are on."""
    limits = read_fields(read_object(value, path), _LIMIT_FIELDS, path=path)
    if not any(limits.values()):
        refuse(value, path, f"true, or an object with one or more of {', '.join(RUNAWAY_NAMES)}")
    return RunawayLimits(**limits)


def _default_limits(value: Any, path: str) -> RunawayLimits | None:
    return _DEFAULTS if read_boolean(value, path) else None


def _on_max_tokens(value: Any, path: str) -> str:
    return value if value in ("cut", "close") else refuse(value, path, '"cut" or "close"')


GUARD_FIELDS: Sequence[Field] = (
    honored(
        "runaway",
        "`true`, or an object with limits",
        one_of((bool, _default_limits), (dict, _limits), allowed="true, or an object with limits"),
        default_text="off",
        note="Ends text that runs on, as agents do; the answer has `early_ends` then.",
    ),
    honored(
        "on_max_tokens",
        '`"cut"` or `"close"`',
        _on_max_tokens,
        default_text='`"cut"`',
        note="`close` ends constrained text early enough to be whole; the answer has `early_ends` then.",
    ),
)
"""Honored alike wherever text is generated."""


def are_guards_on(values: Mapping[str, Any]) -> bool:
    """Return whether a request asks for a guard, so that its answer tells what they did."""
    return values["runaway"] is not None or values["on_max_tokens"] is not None


def early_end_object(end: EarlyEnd, **place: Any) -> dict[str, Any]:
    """Return what was ended early as an answer tells it."""
    return {**place, **end._asdict()}
