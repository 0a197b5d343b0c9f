"""A request of dspy (an `lm15.Request`) as what this engine can run: messages, sampling, constraint, calls.

What cannot be honored is refused by name; nothing of a request is dropped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from dspy import lm15

from sureact.constraints.choice import choice
from sureact.constraints.grammar import grammar
from sureact.constraints.json_schema import json_schema
from sureact.constraints.regex import regex
from sureact.integrations.dspy_fields import METADATA_KEY, FieldLayout
from sureact.integrations.dspy_frame import FrameConstraint
from sureact.sampling_params import SamplingParams

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.tokens.chat_template import Message

COMPLETED = "[[ ## completed ## ]]"
"""What dspy's ChatAdapter asks the model to end with."""

_PENALTIES = ("top_p", "top_k", "seed", "frequency_penalty", "presence_penalty", "logprobs")
_SAMPLING_EXTENSIONS = ("min_p", "repetition_penalty", "min_tokens", "ignore_eos")
_CONSTRAINT_EXTENSIONS = {"grammar": grammar, "regex": regex, "choice": choice}
_EXTENSIONS = (*_SAMPLING_EXTENSIONS, *_CONSTRAINT_EXTENSIONS, "metadata")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallWish:
    """The calls that an answer may or must hold."""

    tools: tuple[lm15.FunctionTool, ...]
    """Those that may be called."""
    is_required: bool
    is_parallel: bool
    num_before: int
    """Calls that the conversation already holds; the names of new ones count on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """What to generate."""

    messages: tuple[Message, ...]
    tools: tuple[lm15.FunctionTool, ...]
    """Those that the model is told of."""
    params: SamplingParams
    constraint: Constraint | None
    """What the text of the answer must match."""
    calls: CallWish | None
    ends_at_completed: bool
    """Whether the text ends at dspy's marker although nobody gave it as a stop."""
    schema: Mapping[str, Any] | None
    probabilities: str | None
    """`required`, `if_available`, or None."""


def read_request(request: lm15.Request, default_max_tokens: int) -> Ask:
    """Translate a request.

    Raises:
        lm15.UnsupportedFeatureError: a part, an option or an extension is not served.
        ConfigError: a value is out of its range.
        ConstraintError: a schema cannot be enforced.
    """
    config = request.config
    _refuse_unserved(config)
    extensions = _read_extensions(config.extensions or {})
    messages = tuple(_messages(request))
    tools = _function_tools(request.tools)
    calls = _call_wish(tools, config.tool_choice, request.messages)
    layout = _layout(extensions)
    constraint = _constraint(
        config, extensions, layout if layout is None or not calls else layout.without_calls(), messages
    )
    asks_marker = any(COMPLETED in message["content"] for message in (messages[0], messages[-1]))
    schema = (config.response_format or {}).get("schema")
    return Ask(
        messages=messages,
        tools=tools if calls else (),
        params=_params(config, extensions, default_max_tokens),
        constraint=constraint,
        calls=calls,
        ends_at_completed=asks_marker and constraint is None and COMPLETED not in config.stop,
        schema=cast("Mapping[str, Any] | None", schema),
        probabilities=None if config.probabilities == "off" else config.probabilities,
    )


def unserved(feature: str, what: str) -> lm15.UnsupportedFeatureError:
    """Return the error for what this engine does not serve."""
    return lm15.UnsupportedFeatureError(f"sureact: {what}", feature=feature, provider="sureact")


def _refuse_unserved(config: lm15.Config) -> None:
    for name in ("service_tier", "user_id"):
        if getattr(config, name) is not None:
            raise unserved(f"config.{name}", f"{name} means nothing to a model in this process. Leave it out.")
    if config.store:
        raise unserved("config.store", "store=True asks a provider to keep answers; nothing is kept here.")
    if config.reasoning is not None and not config.reasoning.is_off:
        raise unserved("config.reasoning", "reasoning has no levels here. Leave reasoning_effort out.")
    cache = config.cache
    if cache is not None and (cache.mode == "off" or cache.retention or cache.key or cache.resource):
        raise unserved("config.cache", "the prefix cache is automatic; of prompt_cache only mode='auto' is served.")


def _read_extensions(extensions: Mapping[str, Any]) -> dict[str, Any]:
    for name in extensions:
        if name not in _EXTENSIONS:
            raise unserved(
                f"config.extensions.{name}", f"{name!r} is no option. Beside those of dspy: {', '.join(_EXTENSIONS)}."
            )
    for name in extensions.get("metadata") or {}:
        if name != METADATA_KEY:
            raise unserved(f"config.extensions.metadata.{name}", f"metadata {name!r} has nowhere to go. Leave it out.")
    return dict(extensions)


def _layout(extensions: Mapping[str, Any]) -> FieldLayout | None:
    notation = (extensions.get("metadata") or {}).get(METADATA_KEY)
    return None if notation is None else FieldLayout.read(notation)


def _params(config: lm15.Config, extensions: Mapping[str, Any], default_max_tokens: int) -> SamplingParams:
    options = {name: getattr(config, name) for name in _PENALTIES if getattr(config, name) is not None}
    options |= {name: extensions[name] for name in _SAMPLING_EXTENSIONS if name in extensions}
    return SamplingParams(
        max_tokens=config.max_tokens or default_max_tokens,
        temperature=config.temperature or 0.0,
        stop=config.stop,
        **options,
    )


def _constraint(
    config: lm15.Config, extensions: Mapping[str, Any], layout: FieldLayout | None, messages: Sequence[Message]
) -> Constraint | None:
    """Return what the text must match: a layout knows more than a schema of the same fields, and than none."""
    named = [name for name in _CONSTRAINT_EXTENSIONS if name in extensions]
    response_format = config.response_format
    if len(named) + (response_format is not None) > 1:
        both = " and ".join([*named, *(["response_format"] if response_format else [])])
        raise unserved("config.extensions", f"{both} are given together; one of them decides what the text is.")
    if named:
        return _CONSTRAINT_EXTENSIONS[named[0]](extensions[named[0]])
    schema = cast("dict[str, Any] | None", (response_format or {}).get("schema"))
    if schema is not None and (layout is None or list(schema.get("properties", {})) != layout.names):
        return json_schema(schema)
    if layout is not None and layout.fields:
        return layout.json_constraint() if response_format else _framed(layout, messages)
    return json_schema({"type": "object"}) if response_format else None


def _framed(layout: FieldLayout, messages: Sequence[Message]) -> Constraint:
    """Return the layout in the frame of ChatAdapter, if that is the one that the prompt asks for."""
    asked = messages[-1]["content"] if COMPLETED in messages[-1]["content"] else messages[0]["content"]
    if COMPLETED not in asked:
        raise unserved(
            "adapter",
            "constrain(...) knows the frames of ChatAdapter and JSONAdapter, and the prompt asks for neither.",
        )
    for field in layout.fields:
        if f"[[ ## {field.name} ## ]]" not in asked:
            raise unserved(
                "metadata",
                f"the prompt does not ask for the field {field.name!r}. Call constrain(...) again after a "
                "signature has changed.",
            )
    return FrameConstraint.of(layout)


def _function_tools(tools: Sequence[lm15.FunctionTool | lm15.BuiltinTool]) -> tuple[lm15.FunctionTool, ...]:
    for tool in tools:
        if not isinstance(tool, lm15.FunctionTool):
            raise unserved("tools", f"the built-in tool {tool.name!r} runs at a provider; give a function.")
    return cast("tuple[lm15.FunctionTool, ...]", tuple(tools))


def _call_wish(
    tools: Sequence[lm15.FunctionTool], wanted: lm15.ToolChoice | None, messages: Sequence[lm15.Message]
) -> CallWish | None:
    wanted = wanted or lm15.ToolChoice()
    if wanted.mode == "none" or not tools:
        if wanted.mode == "required":
            raise unserved("config.tool_choice", "tool_choice='required' needs tools, and the request has none.")
        return None
    return CallWish(
        tools=tuple(tool for tool in tools if not wanted.allowed or tool.name in wanted.allowed),
        is_required=wanted.mode == "required",
        is_parallel=wanted.parallel is not False,
        num_before=sum(len(message.parts_of(lm15.ToolCallPart)) for message in messages),
    )


def _messages(request: lm15.Request) -> list[Message]:
    messages: list[Message] = []
    if request.system is not None:
        system = request.system
        parts = (lm15.TextPart(system),) if isinstance(system, str) else system
        messages.append({"role": "system", "content": _text_of(parts, "system")})
    for index, message in enumerate(request.messages):
        messages += _chat_messages(message, f"messages[{index}]")
    return messages


def _chat_messages(message: lm15.Message, place: str) -> list[Message]:
    if message.role == "tool":
        results = message.parts_of(lm15.ToolResultPart)
        return [{"role": "tool", "content": _text_of(result.content, place)} for result in results]
    calls = message.parts_of(lm15.ToolCallPart)
    content = _text_of([part for part in message.parts if not isinstance(part, lm15.ToolCallPart)], place)
    chat_message: Message = {"role": "system" if message.role == "developer" else message.role, "content": content}
    if calls:
        chat_message["tool_calls"] = [
            {"type": "function", "function": {"name": call.name, "arguments": call.input}} for call in calls
        ]
    return [chat_message]


def _text_of(parts: Sequence[Any], place: str) -> str:
    texts: list[str] = []
    for part in parts:
        if isinstance(part, lm15.TextPart):
            texts.append(part.text)
        elif isinstance(part, lm15.DataPart):
            texts.append(json.dumps(part.value, ensure_ascii=False))
        else:
            raise unserved(place, f"{place} holds a part of type {part.type!r}; this model reads text.")
    return "\n".join(texts)


def call_params(params: SamplingParams, max_tokens: int) -> SamplingParams:
    """Return how a call is generated: as the text is, but for what only a text has."""
    return replace(params, max_tokens=max_tokens, min_tokens=0, stop=(), ignore_eos=False, logprobs=None)
