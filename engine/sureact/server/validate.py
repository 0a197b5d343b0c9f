"""`/validate`: whether a constraint can be enforced, and whether a text keeps to it, also one that has not ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from sureact.constraints.deep_stack import call_with_room
from sureact.constraints.json_schema import JsonSchemaConstraint
from sureact.constraints.prepared_schema import JsonSpelling
from sureact.constraints.schema.judge import parse_json
from sureact.constraints.schema.pointer import child_pointer
from sureact.errors import SureactError
from sureact.server.answer_constraint import RESPONSE_FORMAT_FIELD, STRUCTURED_FIELDS, only_one
from sureact.server.api_error import ApiError, api_error_of
from sureact.server.field_values import text
from sureact.server.off_loop import on_thread
from sureact.server.sampling_fields import MODEL_FIELD
from sureact.server.turn_plan import compiled

if TYPE_CHECKING:
    from sureact.constraints.constraint import Constraint
    from sureact.server.answer_constraint import AnswerConstraint
    from sureact.server.endpoint import Exchange
    from sureact.server.request_fields import Field
    from sureact.server.serving import Serving

_MAX_FAULTS = 20
_MAX_MESSAGE = 300
"""Characters; the messages show the value, which may be long."""
_ANY_SPELLING = JsonSpelling(free_whitespace=True, any_key_order=True)

VALIDATE_FIELDS: Sequence[Field] = (
    MODEL_FIELD,
    RESPONSE_FORMAT_FIELD,
    *STRUCTURED_FIELDS,
    text("text", default_text="none", note="What is judged; it may still go on."),
)


async def answer_validate(serving: Serving, exchange: Exchange) -> None:
    """Answer whether a constraint can be enforced, and what a text is under it. Nothing is generated.

    Raises:
        ApiError: the request is refused, or the constraint cannot be enforced.
    """
    values = await exchange.read_fields(VALIDATE_FIELDS)
    serving.check_model(values["model"])
    asked = only_one(values["response_format"], values["structured_outputs"])
    if asked is None:
        raise ApiError(
            "There is no constraint. Give response_format or structured_outputs.",
            param="response_format",
            code="missing_parameter",
        )
    await exchange.send_json(await on_thread(_answer, serving, asked, values["text"]))


def _answer(serving: Serving, asked: AnswerConstraint, judged: str | None) -> dict[str, Any]:
    constraint = compiled(serving, asked)
    assert constraint is not None, "something is asked"
    if judged is None:
        return _told(None, 0)
    try:
        return _judgment(serving, constraint, judged)
    except SureactError as error:
        raise api_error_of(error, param="text") from error


def _judgment(serving: Serving, constraint: Constraint, judged: str) -> dict[str, Any]:
    """Return what a text is: `incomplete` if it is none yet and can become one that the constraint allows.

    Under a schema a JSON text has the last word itself, since it may be spelled otherwise than it is generated here.
    """
    by_schema = isinstance(constraint, JsonSchemaConstraint)
    num_chars, is_accepting = _follow(
        serving, replace(constraint, spelling=_ANY_SPELLING) if by_schema else constraint, judged
    )
    is_whole = num_chars == len(judged)
    if is_whole and not is_accepting:
        return _told("incomplete", num_chars)
    faults = _faults(constraint, judged) if by_schema else None
    if faults is None:
        return _told("valid" if is_whole else "invalid", num_chars)
    return _told("invalid", num_chars, faults) if faults else _told("valid", len(judged))


def _told(status: str | None, num_chars: int, faults: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    return {"object": "validation", "status": status, "num_valid_chars": num_chars, "faults": list(faults)}


def _follow(serving: Serving, constraint: Constraint, judged: str) -> tuple[int, bool]:
    """Return how many characters of a text a constraint allows one after another, and whether the text may end there.

    Raises:
        ApiError: the model could not write that much.
    """
    engine, vocabulary = serving.engine.engine, serving.vocabulary
    stripped = judged.rstrip(" ")
    ids = engine.encode(stripped)  # which takes no text that ends in a blank
    num_tokens = len(ids) + len(judged) - len(stripped)
    if num_tokens > engine.context_len:
        raise ApiError(
            f"text has {num_tokens:,} tokens; the model writes at most {engine.context_len:,}. Shorten it.",
            param="text",
            code="context_length_exceeded",
        )
    state = constraint.compile(vocabulary).new_state()
    num_ids, data = state.accept_tokens(ids), judged.encode()
    num_bytes = sum(len(vocabulary.token_bytes[token_id]) for token_id in ids[:num_ids])
    # The token that is not allowed may begin as one that is.
    for byte in data[num_bytes:]:
        if not state.accept_tokens([vocabulary.token_bytes.index(bytes([byte]))]):
            break
        num_bytes += 1
    return len(data[:num_bytes].decode(errors="ignore")), state.is_accepting


def _faults(constraint: JsonSchemaConstraint, judged: str) -> list[dict[str, str]] | None:
    """Return what is wrong with a JSON value; None if the text is none."""
    try:
        value = parse_json(judged)
    except ValueError:
        return None
    found = call_with_room(lambda: list(islice(constraint.faults(value), _MAX_FAULTS)))
    return [
        {"pointer": child_pointer("", *map(str, fault.absolute_path)), "message": fault.message[:_MAX_MESSAGE]}
        for fault in found
    ]
