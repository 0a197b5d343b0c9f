"""The tools of a Model Context Protocol server.

    with mcp_tools("http://127.0.0.1:8000/mcp") as tools:
        agent = ReAct("question -> answer", tools, lm=engine)

A server is a URL (streamable HTTP) or a command that speaks the protocol on its standard input and output. The session
is opened once, on an event loop of its own, serves calls from any thread, and is closed with the block.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from sureact.agent.call_policy import require_seconds
from sureact.agent.event_loop import EventLoopThread
from sureact.agent.observation import error_message
from sureact.agent.tool import Tool
from sureact.agent.tool_sources import mcp_text, mcp_tool
from sureact.errors import ConfigError, ToolDefinitionError, ToolExecutionError

if TYPE_CHECKING:
    from mcp import Client

_MAX_PAGES = 1000
_CLOSE_TIMEOUT_S = 10.0


@contextmanager
def mcp_tools(
    server: str | Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    headers: Mapping[str, str] | None = None,
    prefix: str = "",
    names: Sequence[str] | None = None,
    connect_timeout_s: float = 30.0,
    timeout_s: float | None = 60.0,
    **options: Any,
) -> Generator[list[Tool]]:
    """Connect to an MCP server for the length of a `with` block, and give its tools.

    Names that no tool can have are spelled with `_`. What the server answers is text for the model; pictures and the
    like are told by kind and size. An error of the server, or of the connection, is an observation.

    Args:
        server: URL of a server, or a command and its arguments.
        env: environment variables of the command, beside the few that the protocol's package passes on.
        cwd: folder to start the command in.
        headers: HTTP headers for the URL, such as `Authorization`.
        prefix: put before each name, to keep servers apart.
        names: the tools to take, as the server calls them; None for all.
        connect_timeout_s: most seconds until the session stands and the tools are listed.
        timeout_s: most seconds of a call.
        options: further options of each `Tool`, such as `retries`.

    Raises:
        ConfigError: the package `mcp` is missing or too old, or an option is not allowed.
        ToolExecutionError: there is no connection.
        ToolDefinitionError: the server has no tool of a name in `names`.
    """
    require_seconds("connect_timeout_s", connect_timeout_s)
    _ = Tool(len, args={"obj": {}}, timeout_s=timeout_s, **options)  # refuses an option before anything is started
    target = _target(server, env, cwd, headers)
    session = _Session(target, dict(headers or {}))
    try:
        listed = session.open(connect_timeout_s)
        yield [
            _tool_of(session, tool, prefix=prefix, timeout_s=timeout_s, **options) for tool in _chosen(listed, names)
        ]
    finally:
        session.close()


class _Session:
    """A client that is entered and left by one task, as its package demands, on a loop of its own."""

    def __init__(self, target: Any, headers: dict[str, str]) -> None:
        self._target = target
        self._headers = headers
        self._loop = EventLoopThread("sureact-mcp")
        self._opened: Future[tuple[Client, list[Any]]] = Future()
        self._closing: asyncio.Event | None = None
        self._client: Client | None = None
        self._serving: Future[None] | None = None

    def open(self, timeout_s: float) -> list[Any]:
        """Connect, and return what the server lists."""
        self._serving = self._loop.submit(self._serve())
        try:
            self._client, tools = self._opened.result(timeout_s)
        except TimeoutError as error:
            raise ToolExecutionError(
                f"The MCP server {self._name} did not answer within {timeout_s:g} s. Is it running? Give it longer "
                "with connect_timeout_s."
            ) from error
        except Exception as error:
            raise ToolExecutionError(
                f"There is no connection to the MCP server {self._name}: {error_message(error)}"
            ) from error
        return tools

    async def call(self, name: str, args: dict[str, Any]) -> str:
        """Call a tool, from any event loop."""
        if self._client is None:
            raise ToolExecutionError(f"the session with the MCP server {self._name} is closed")
        future = self._loop.submit(self._client.call_tool(name, args))
        return mcp_text(await asyncio.wrap_future(future))

    def close(self) -> None:
        """Close the session and end a server that was started."""
        self._client = None
        if self._serving is not None:
            self._loop.submit(self._stop()).result()
            # A server that hangs is ended by its package after some seconds. What failed while the session was open was
            # told then.
            wait([self._serving], _CLOSE_TIMEOUT_S)
        self._loop.close()

    async def _serve(self) -> None:
        self._closing = asyncio.Event()
        try:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await self._new_client(stack))
                self._opened.set_result((client, await _listed(client)))
                await self._closing.wait()
        except BaseException as error:
            if self._opened.done():
                raise
            self._opened.set_exception(error if isinstance(error, Exception) else ConnectionError("it was cancelled"))

    async def _stop(self) -> None:
        """End `_serve`: by its event once it has opened the session, else by force."""
        if self._closing is not None and self._opened.done():
            self._closing.set()
        elif self._serving is not None:
            self._serving.cancel()

    async def _new_client(self, stack: AsyncExitStack) -> Client:
        from mcp import Client

        if not self._headers:
            return Client(self._target)
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        # A server may hold a response open for long; how long a call may take is the tool's own limit.
        timeout = httpx2.Timeout(30.0, read=None)
        http = await stack.enter_async_context(httpx2.AsyncClient(headers=self._headers, timeout=timeout))
        return Client(streamable_http_client(self._target, http_client=http))

    @property
    def _name(self) -> str:
        target = self._target
        return repr(target if isinstance(target, str) else " ".join([target.command, *target.args]))


async def _listed(client: Client) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
    raise ConnectionError(f"its list of tools does not end: there were {_MAX_PAGES:,} pages")


def _target(
    server: Any, env: Mapping[str, str] | None, cwd: str | os.PathLike[str] | None, headers: Mapping[str, str] | None
) -> Any:
    try:
        from mcp import Client, StdioServerParameters
    except ImportError as error:
        raise ConfigError(
            "The tools of an MCP server need the package mcp, 2.0 or later: pip install 'sureact[mcp]'."
        ) from error
    _ = Client
    if isinstance(server, str):
        if not server.startswith(("http://", "https://")):
            raise ConfigError(f"The server is {server!r}; give an http(s) URL, or a command as a list of its words.")
        if env is not None or cwd is not None:
            raise ConfigError("env and cwd are for a command; a server with a URL runs already.")
        return server
    words = list(server) if isinstance(server, Sequence) else []
    if not words or not all(isinstance(word, str) for word in words):
        raise ConfigError(f"The server is {server!r}; give an http(s) URL, or a command as a list of its words.")
    if headers is not None:
        raise ConfigError("headers are for a server with a URL; a command takes env.")
    return StdioServerParameters(
        command=words[0], args=words[1:], env=dict(env) if env else None, cwd=None if cwd is None else os.fspath(cwd)
    )


def _chosen(listed: list[Any], names: Sequence[str] | None) -> list[Any]:
    if names is None:
        return listed
    by_name = {tool.name: tool for tool in listed}
    for name in names:
        if name not in by_name:
            raise ToolDefinitionError(f"The MCP server has no tool {name!r}; it has {', '.join(by_name) or 'none'}.")
    return [by_name[name] for name in names]


def _tool_of(session: _Session, tool: Any, **options: Any) -> Tool:
    async def call(**args: Any) -> str:
        return await session.call(tool.name, args)

    return mcp_tool(call, tool, **options)
