"""The fields of `/v1/agents/run`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

from sureact.agent.call_rules import OnRepeat
from sureact.agent.formats.registry import FORMATS
from sureact.agent.token_limits import TokenLimits
from sureact.server.field_values import boolean, integer, number, read_object, read_text, read_texts, refuse, text
from sureact.server.request_fields import Field, Read, honored, ignored, neutral, refused
from sureact.server.sampling_fields import MODEL_FIELD

SIGNATURE = "question -> answer"
MAX_ITERS = 20

_MAX_SIGNATURE_CHARS = 1_000
_LIMITS = TokenLimits()


def _signature(value: Any, path: str) -> str:
    signature = read_text(value, path)
    if len(signature) > _MAX_SIGNATURE_CHARS:
        refuse(signature, path, f"at most {_MAX_SIGNATURE_CHARS:,} characters long")
    return signature


def _one_of(names: Sequence[str]) -> tuple[str, Read]:
    allowed = ", ".join(f'`"{name}"`' for name in names[:-1]) + f' or `"{names[-1]}"`'

    def read(value: Any, path: str) -> str:
        return value if value in names else refuse(value, path, allowed.replace("`", ""))

    return allowed, read


AGENT_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    text("question", default_text="none", note="The input `question`. This, or `inputs`."),
    honored("inputs", "an object", read_object, default_text="none", note="The inputs of the signature by name."),
    honored(
        "signature",
        "a text",
        _signature,
        SIGNATURE,
        note="Inputs and outputs with their types, such as `question, unit: str -> amount: float`.",
    ),
    text("instructions", "", note="What is to be done, where the names of the signature do not say it."),
    honored(
        "tools",
        "a list of texts",
        read_texts,
        default_text="all",
        note="Names of the server's tools.",
        schema="tool_names",
    ),
    integer("max_iters", MAX_ITERS, least=1, most=1_000, note="Most steps; then the outputs are given."),
    honored(
        "on_repeat",
        *_one_of(get_args(OnRepeat)),
        "mask",
        note="What becomes of a call that was made before: it is taken back and another tool is called, its "
        "observation is shown again, or it is run again.",
    ),
    honored(
        "require_tools",
        "a list of texts",
        read_texts,
        (),
        default_text="none",
        note="Tools of each of which a call must have succeeded before the run may finish.",
        schema="tool_names",
    ),
    honored("format", *_one_of(tuple(FORMATS)), default_text="the model's best", note="How steps are written."),
    integer("max_tokens", None, least=1, default_text="none", note="Tokens that are generated in the run."),
    number(
        "max_seconds",
        None,
        least=0,
        is_open=True,
        default_text="none",
        note="After these no step is begun; then the outputs are given.",
    ),
    integer("max_thought_tokens", _LIMITS.thought, least=1),
    integer("max_call_tokens", _LIMITS.call, least=1, note="Name and arguments together; they are closed then."),
    integer("max_observation_tokens", _LIMITS.observation, least=1, note="Longer ones are cut."),
    integer("max_output_tokens", _LIMITS.outputs, least=1),
    boolean("dry_run", False, note="Runs no tool; the observations say so."),
    boolean("stream", False, note="Tells the run as events."),
    text("cache_salt", default_text="none", note="Cached beginnings are shared only with requests of the same salt."),
    ignored("user", "a text", read_text, note="Not looked at."),
    ignored("metadata", "an object", read_object, note="Not stored."),
    neutral("store", False),
    neutral("temperature", 0, 0.0, note="Each step takes the likeliest tokens."),
    neutral("n", 1),
    refused("messages", "Give `question`, or `inputs` with a `signature`."),
    refused("tool_choice", "Use `tools` and `require_tools`."),
    refused("stream_options", "The last event holds the usage anyway."),
    refused("approve", "Nobody is asked over HTTP; name the `tools` that may be called."),
)
