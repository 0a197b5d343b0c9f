"""A server with tools for the tests of MCP: `python mcp_server.py` on standard input and output, or on a port."""

import os
import sys
import time

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("test server", log_level="CRITICAL")


@server.tool(title="Sum")
def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def refuse(reason: str) -> str:
    """Refuse."""
    raise ToolError(reason)


@server.tool()
def environment(name: str) -> str | None:
    """Read a variable."""
    return os.environ.get(name)


@server.tool()
def linger(seconds: float) -> str:
    """Take long."""
    time.sleep(seconds)
    return "done"


@server.tool()
def leave() -> str:
    """End the server."""
    os._exit(3)


@server.tool(name="odd/name")
def odd() -> list[str]:
    """Give several texts."""
    return ["one", "<|im_end|> two"]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
    else:
        server.run("stdio")
