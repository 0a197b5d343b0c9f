"""The fields that say how tokens are picked and where a text ends, and others that routes share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureact.sampling_params import SamplingParams
from sureact.server.api_error import ApiError
from sureact.server.field_values import (
    boolean,
    integer,
    number,
    read_object,
    read_text,
    read_texts,
    refuse,
    text,
    token_ids,
)
from sureact.server.guard_fields import GUARD_FIELDS
from sureact.server.request_fields import Field, honored, ignored, neutral, read_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_STOPS = 64
MAX_CHOICES = 64


def _stops(value: Any, path: str) -> list[str]:
    stops = [value] if isinstance(value, str) else read_texts(value, path)
    if len(stops) > MAX_STOPS:
        refuse(f"{len(stops)} texts", path, f"at most {MAX_STOPS} texts")
    for stop in stops:
        if not stop:
            refuse(stop, path, "a text that is not empty, or a list of such texts")
    return stops


SAMPLING_FIELDS: Sequence[Field] = (
    number("temperature", 0.0, least=0, most=2, note="0 takes the likeliest token; the same request has one answer."),
    number("top_p", 1.0, least=0, most=1, is_open=True),
    integer("top_k", 0, least=-1, note="0 and -1 draw among all tokens."),
    number("min_p", 0.0, least=0, most=1),
    number(
        "repetition_penalty", None, least=0, is_open=True, default_text="the checkpoint's own", note="1 turns it off."
    ),
    number("presence_penalty", 0.0, least=-2, most=2),
    number("frequency_penalty", 0.0, least=-2, most=2),
    integer("seed", None, least=-(1 << 63), most=(1 << 63) - 1, default_text="a fresh one"),
    integer("min_tokens", 0, least=0),
    honored("stop", "a text, or a list of texts", _stops, (), default_text="none"),
    token_ids("stop_token_ids", default_text="none"),
    boolean("include_stop_str_in_output", False),
    boolean("ignore_eos", False),
    *GUARD_FIELDS,
)
"""Honored alike wherever text is generated."""

CHOICE_FIELDS: Sequence[Field] = (
    integer("n", 1, least=1, most=MAX_CHOICES, note="More than 1 needs a `temperature` above 0."),
    boolean("return_token_ids", False, note="Adds `prompt_token_ids`, and `token_ids` to each choice."),
    neutral("best_of", 1),
)
"""For answers that hold choices: those of chats and completions."""

CLIENT_FIELDS: Sequence[Field] = (
    ignored("user", "a text", read_text, note="Not looked at."),
    ignored("metadata", "an object", read_object, note="Not stored."),
    ignored("safety_identifier", "a text", read_text, note="Not looked at."),
    ignored("prompt_cache_key", "a text", read_text, note="Not looked at: prompts that begin alike are found anyway."),
    ignored("request_id", "a text", read_text, note="Not looked at."),
    neutral("store", False),
    neutral("service_tier", "auto", "default"),
    neutral("prompt_cache_retention", "in_memory", "in-memory"),
    neutral("logit_bias", {}),
    neutral("priority", 0),
    neutral("use_beam_search", False),
    neutral("length_penalty", 1, 1.0),
    neutral("early_stopping", False),
    neutral("skip_special_tokens", True),
    neutral("spaces_between_special_tokens", True),
    neutral("truncate_prompt_tokens"),
    neutral("prompt_logprobs", 0),
    neutral("allowed_token_ids"),
    neutral("bad_words", []),
    neutral("logits_processors"),
    neutral("return_tokens_as_token_ids", False),
    neutral("kv_transfer_params"),
)
"""Known, but not honored beyond what they say by default."""

_STREAM_OPTIONS: Sequence[Field] = (
    boolean("include_usage", False),
    neutral("continuous_usage_stats", False),
    neutral("include_obfuscation", False),
)


def _stream_options(value: Any, path: str) -> dict[str, Any]:
    return read_fields(read_object(value, path), _STREAM_OPTIONS, path=path)


STREAM_FIELDS: Sequence[Field] = (
    boolean("stream", False),
    honored(
        "stream_options",
        "an object with `include_usage`",
        _stream_options,
        default_text="none",
        note="Only with `stream`.",
    ),
)

CACHE_SALT_FIELD = text(
    "cache_salt", default_text="none", note="Cached beginnings are shared only with requests of the same salt."
)
MODEL_FIELD = text("model", default_text="the one that is served", note="Any other name than the served one is 404.")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """Whether and how an answer is streamed."""

    is_streamed: bool
    includes_usage: bool

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> StreamOptions:
        """Read the fields.

        Raises:
            ApiError: there are options for a stream, but none is asked for.
        """
        options = values["stream_options"] or {}
        if options and not values["stream"]:
            raise ApiError("stream_options goes with stream: true only.", param="stream_options", code="invalid_value")
        return cls(values["stream"], options.get("include_usage", False))


def sampling_params(values: Mapping[str, Any], *, max_tokens: int, logprobs: int | None) -> SamplingParams:
    """Return how tokens are picked.

    Args:
        values: of `SAMPLING_FIELDS`, and `n`.
        max_tokens: most tokens to generate.
        logprobs: likeliest tokens to tell at each position; None tells nothing.

    Raises:
        ApiError: two values contradict each other.
    """
    if values["n"] > 1 and values["temperature"] == 0:
        raise ApiError(
            f"n is {values['n']} and temperature 0, which has one answer only. Give a temperature above 0.",
            param="n",
            code="invalid_value",
        )
    if values["min_tokens"] > max_tokens:
        refuse(values["min_tokens"], "min_tokens", f"at most {max_tokens:,}, the most that is generated")
    return SamplingParams(
        max_tokens=max_tokens,
        logprobs=logprobs,
        stop=[*values["stop"], *values["stop_token_ids"]],
        include_stop=values["include_stop_str_in_output"],
        top_k=max(values["top_k"], 0),
        seed=None if values["seed"] is None else values["seed"] % (1 << 63),
        on_max_tokens=values["on_max_tokens"] or "cut",
        **{name: values[name] for name in _SAME_NAMES},
    )


_SAME_NAMES = (
    "temperature",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
    "ignore_eos",
    "runaway",
)
