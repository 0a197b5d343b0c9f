"""The server as an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route

from sureact.agent.hosted_tools import hosted_tools
from sureact.server.agents import answer_agent_run, answer_agent_tools, refused_run, served_tools
from sureact.server.api_error import ApiError
from sureact.server.chat_completions import answer_chat
from sureact.server.completions import answer_completion
from sureact.server.endpoint import Endpoint, NewStream
from sureact.server.event_stream import EventStream
from sureact.server.gate import Gate
from sureact.server.health import answer_health, answer_ready
from sureact.server.metrics import answer_metrics
from sureact.server.models import answer_model, answer_models
from sureact.server.openapi import answer_openapi
from sureact.server.page import answer_page, answer_page_part
from sureact.server.responses import answer_response, refused_response
from sureact.server.serving import Serving
from sureact.server.tokenize import answer_detokenize, answer_tokenize
from sureact.server.validate import answer_validate

if TYPE_CHECKING:
    from starlette.requests import Request

    from sureact.agent.tool import ToolLike
    from sureact.async_engine import AsyncEngine
    from sureact.server.server_config import ServerConfig

_POSTS = (
    ("/v1/chat/completions", answer_chat),
    ("/v1/completions", answer_completion),
    ("/v1/responses", answer_response),
    ("/v1/agents/run", answer_agent_run),
    ("/tokenize", answer_tokenize),
    ("/detokenize", answer_detokenize),
    ("/validate", answer_validate),
)
_NEW_STREAMS: Mapping[str, NewStream] = {
    "/v1/chat/completions": EventStream,
    "/v1/completions": EventStream,
    "/v1/responses": partial(EventStream, told=refused_response, end=b""),
    "/v1/agents/run": partial(EventStream, told=refused_run),
}
_GETS = (
    ("/v1/models", answer_models),
    ("/v1/models/{model:path}", answer_model),
    ("/v1/agents/tools", answer_agent_tools),
    ("/health", answer_health),
    ("/ready", answer_ready),
    ("/metrics", answer_metrics),
    ("/openapi.json", answer_openapi),
)
_PAGE = (("/", answer_page), ("/page/{name}", answer_page_part))
ROUTES = tuple(path for path, _ in (*_POSTS, *_GETS))
"""Every path that is served to programs."""


def create_app(engine: AsyncEngine, config: ServerConfig, tools: Iterable[ToolLike] | None = None) -> Starlette:
    """Return the application that serves an engine, which stays its caller's to close.

    Args:
        engine: what is served.
        config: the settings.
        tools: what agents may call for clients; None for those of `config.tools`, in a process of their own.

    Raises:
        ToolDefinitionError: the tools cannot be read or described.
        UnsupportedSchemaError: the arguments of one cannot be enforced.
    """
    if tools is None:
        tools = hosted_tools(config.tools, config.tool_timeout_s) if config.tools is not None else ()
    serving = Serving(engine, config, served_tools(tools, config.tool_timeout_s))

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[None]:
        warming = asyncio.ensure_future(serving.warm_up())
        try:
            yield
        finally:
            warming.cancel()
            await asyncio.gather(warming, return_exceptions=True)

    routes = [
        Route(path, Endpoint(serving, answer, new_stream=_NEW_STREAMS.get(path)), methods=["POST"])
        for path, answer in _POSTS
    ]
    routes += [Route(path, Endpoint(serving, answer, has_body=False), methods=["GET"]) for path, answer in _GETS]
    routes += [
        Route(path, Endpoint(serving, answer, has_body=False), methods=["GET"], include_in_schema=False)
        for path, answer in _PAGE
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        middleware=[Middleware(Gate, serving=serving)],
        exception_handlers={HTTPException: _refuse},
    )
    app.router.redirect_slashes = False  # to an address made of the Host header, with an empty body
    app.state.serving = serving
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """Answer what no route takes."""
    assert isinstance(error, HTTPException), "registered for these alone"
    word = HTTPStatus(error.status_code).phrase
    answer = ApiError(
        f"{request.method} {request.url.path[:200]}: {word}.",
        status=error.status_code,
        code=word.lower().replace(" ", "_"),
    )
    return Response(
        answer.body_bytes, error.status_code, media_type="application/json", headers=dict(error.headers or {})
    )
