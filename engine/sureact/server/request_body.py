"""Reads the body of a request: one JSON object, of bounded size and depth, that means one thing only."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn, cast

from sureact.sampling_params import has_surrogate
from sureact.server.api_error import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive, Scope

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class _FaultError(ValueError):
    """What is wrong with a value, in words that follow its name."""

    def __init__(self, words: str, *, code: str = "invalid_json") -> None:
        super().__init__(words)
        self.code = code


class ClientDisconnectedError(Exception):
    """The client left; nobody reads an answer."""


async def read_body(scope: Scope, receive: Receive, max_bytes: int) -> bytes:
    """Return the body of a request.

    Raises:
        ApiError: it is no JSON by its content type, or larger than `max_bytes`.
        ClientDisconnectedError: the client left before its end.
    """
    headers: Mapping[bytes, bytes] = dict(scope["headers"])
    content_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    # A page on another site can send a text without asking first, but not this type.
    if content_type != b"application/json":
        raise ApiError(
            f"The content type is {content_type.decode('latin-1')[:80]!r}; it must be 'application/json'.",
            status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            code="unsupported_content_type",
        )
    length = headers.get(b"content-length", b"")
    if length.isdigit() and (len(length) > 18 or int(length) > max_bytes):
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    num_bytes = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnectedError
        chunk: bytes = message.get("body", b"")
        num_bytes += len(chunk)
        if num_bytes > max_bytes:
            raise _too_large(max_bytes)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks)


def parse_body(body: bytes, max_depth: int) -> dict[str, Any]:
    """Return the JSON object that a body is.

    Raises:
        ApiError: it is none, or one that readers understand differently: with a key twice, NaN, numbers beyond what a
            float holds, or half of a surrogate pair.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise _invalid(f"The body is not UTF-8: byte {error.start} cannot be decoded.") from error
    value = parse_json(text, "The body", max_depth)
    if not isinstance(value, dict):
        raise _invalid(f"The body is JSON of type {type(value).__name__}; it must be an object.")
    return cast("dict[str, Any]", value)


def parse_json(text: str, name: str, max_depth: int) -> Any:
    """Return what a text of JSON stands for, if it means the same to every reader.

    Args:
        text: what was sent.
        name: what it is, for errors.
        max_depth: deepest nesting of lists and objects.

    Raises:
        ApiError: it does not.
    """
    try:
        if text.startswith("\ufeff"):
            raise _FaultError("begins with a byte order mark (U+FEFF), which is no part of JSON: send it without")
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
        _check_depth(value, max_depth)
        if _SURROGATE_ESCAPE.search(text) and has_surrogate(json.dumps(value, ensure_ascii=False)):
            raise _FaultError("holds half of a surrogate pair, such as \\ud800, which has no UTF-8 spelling")
    except _FaultError as error:
        raise _invalid(f"{name} {error}.", code=error.code) from error
    except json.JSONDecodeError as error:
        raise _invalid(f"{name} is not JSON: {error.msg} at character {error.pos}.") from error
    except RecursionError as error:
        raise _invalid(f"{name} {_too_deep(max_depth)}.", code="json_too_deep") from error
    except ValueError as error:  # a whole number of more digits than Python converts
        raise _invalid(f"{name} holds a number with too many digits.") from error
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise _FaultError(f"holds the key {twice[:80]!r} twice in one object", code="duplicate_key")
    return members


def _refuse_constant(name: str) -> NoReturn:
    raise _FaultError(f"holds {name}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _FaultError(f"holds the number {text[:40]}, which is too large")
    return number


def _check_depth(value: Any, max_depth: int) -> None:
    """Refuse what is nested too deep, level by level, since each level is one of Python's calls later."""
    level: list[Any] = [value] if isinstance(value, dict | list) else []
    for _ in range(max_depth):
        level = [child for parent in level for child in _children(parent) if isinstance(child, dict | list)]
        if not level:
            return
    raise _FaultError(_too_deep(max_depth), code="json_too_deep")


def _children(parent: Any) -> Iterable[Any]:
    return parent.values() if isinstance(parent, dict) else parent


def _invalid(message: str, *, code: str = "invalid_json") -> ApiError:
    return ApiError(message, code=code)


def _too_deep(max_depth: int) -> str:
    return f"is nested deeper than {max_depth} levels"


def _too_large(max_bytes: int) -> ApiError:
    return ApiError(
        f"The body is larger than {max_bytes:,} bytes, the most that this server reads.",
        status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        code="body_too_large",
    )
