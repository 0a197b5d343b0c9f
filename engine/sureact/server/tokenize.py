"""`/tokenize` and `/detokenize`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sureact.errors import SureactError
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.chat_fields import PROMPT_FIELDS
from sureact.server.chat_messages import read_messages
from sureact.server.chat_prompt import render_chat_prompt
from sureact.server.endpoint import json_bytes
from sureact.server.field_values import boolean, read_token_ids, text
from sureact.server.off_loop import on_thread
from sureact.server.request_fields import MISSING, Field, honored, neutral
from sureact.server.sampling_fields import MODEL_FIELD
from sureact.server.tool_plan import tool_plan

if TYPE_CHECKING:
    from sureact.server.endpoint import Exchange
    from sureact.server.serving import Serving

TOKENIZE_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    text("prompt", default_text="none", note="This, or `messages`."),
    honored("messages", "a list of messages", read_messages, default_text="none"),
    *PROMPT_FIELDS,
    boolean("parse_control_tokens", False, note="Whether `<|im_end|>` and the like in `prompt` are control tokens."),
    boolean("return_token_strs", False, note="Adds the text of each token; control tokens have none."),
    neutral("add_special_tokens", False, True, note="No model here has tokens that are added."),
)

DETOKENIZE_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    honored("tokens", "a list of token ids", read_token_ids, MISSING),
)


async def answer_tokenize(serving: Serving, exchange: Exchange) -> None:
    """Answer with the token ids of a text, or of a chat's prompt.

    Raises:
        ApiError: the request is refused.
    """
    values = await exchange.read_fields(TOKENIZE_FIELDS)
    serving.check_model(values["model"])
    if values["prompt"] is None and values["messages"] is None:
        raise ApiError(
            "Neither prompt nor messages is given. Give one of them.", param="prompt", code="missing_parameter"
        )
    if values["prompt"] is not None and values["messages"] is not None:
        raise ApiError("prompt and messages are both given. Give one of them.", param="prompt", code="invalid_value")
    await exchange.send_bytes(await on_thread(_tokenized, serving, values))


async def answer_detokenize(serving: Serving, exchange: Exchange) -> None:
    """Answer with the text of token ids.

    Raises:
        ApiError: the request is refused.
    """
    values = await exchange.read_fields(DETOKENIZE_FIELDS)
    serving.check_model(values["model"])
    await exchange.send_bytes(await on_thread(_detokenized, serving, values["tokens"]))


def _tokenized(serving: Serving, values: Mapping[str, Any]) -> bytes:
    ids = _token_ids(serving, values)
    answer: dict[str, Any] = {
        "count": len(ids),
        "max_model_len": serving.engine.engine.context_len,
        "tokens": ids,
    }
    if values["return_token_strs"]:
        token_bytes = serving.vocabulary.token_bytes
        answer["token_strs"] = [token_bytes[token_id].decode(errors="replace") for token_id in ids]
    return json_bytes(answer)


def _detokenized(serving: Serving, token_ids: Sequence[int]) -> bytes:
    try:
        return json_bytes({"prompt": serving.engine.engine.decode(token_ids)})
    except SureactError as error:
        raise api_error_of(error, param="tokens") from error


def _token_ids(serving: Serving, values: Mapping[str, Any]) -> list[int]:
    engine = serving.engine.engine
    if values["messages"] is not None:
        tools = tool_plan(values["tools"], None, is_parallel=True)
        return engine.encode(render_chat_prompt(engine, values, tools).text)
    try:
        return engine.encode(values["prompt"], parse_control_tokens=values["parse_control_tokens"])
    except SureactError as error:
        raise api_error_of(error, param="prompt") from error
