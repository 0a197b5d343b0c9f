"""`sureact serve`: the HTTP server."""

from __future__ import annotations

import argparse

from sureact.cli.console import note
from sureact.cli.model_options import add_model_options, engine_config, load_engine
from sureact.cli.option_fields import add_field_options, field_values
from sureact.server.server_config import ServerConfig


def add_options(parser: argparse.ArgumentParser) -> None:
    """Say what the command takes."""
    parser.description = (
        "Serves a model over HTTP, for clients that speak OpenAI's protocol. It listens on this machine alone unless "
        "told otherwise, and at an interrupt ends once running requests have ended."
    )
    add_field_options(parser, "server", ServerConfig)
    add_model_options(parser)
    parser.add_argument("--verbose", action="store_true", help="log more, and show the traceback of errors")
    parser.set_defaults(command=serve_command)


def server_config(arguments: argparse.Namespace) -> ServerConfig:
    """Return the settings that the options ask for.

    Raises:
        ConfigError: a value is not allowed.
    """
    return ServerConfig(**field_values(arguments, ServerConfig))


def serve_command(arguments: argparse.Namespace) -> None:
    """Load the model and serve it until interrupted."""
    settings, model = server_config(arguments), engine_config(arguments)
    import logging

    from sureact.agent.hosted_tools import hosted_tools
    from sureact.async_engine import AsyncEngine
    from sureact.server.app import create_app
    from sureact.server.client_key import KeyFile, KeyLimits
    from sureact.server.http_server import HttpServer
    from sureact.server.json_log import log_as_json
    from sureact.server.listeners import bound_listeners, listen, port_of
    from sureact.server.public_prefix import declare_public_prefix

    log_as_json(level=logging.INFO if arguments.verbose else logging.WARNING)
    if settings.api_keys is not None:  # told before the model is loaded, which takes its time
        KeyFile(settings.api_keys, KeyLimits())
    tools = hosted_tools(settings.tools, settings.tool_timeout_s) if settings.tools is not None else None
    with bound_listeners(settings.host, settings.port) as listeners, load_engine(model) as engine:
        if settings.public_prefix is not None:
            declare_public_prefix(engine, settings.public_prefix)
        server = HttpServer(create_app(AsyncEngine.of(engine), settings, tools))
        server.handle_hangup()
        listen(listeners, settings.max_connections)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        address = f"http://{host}:{port_of(listeners)}"
        note(f"Serving {engine.name} at {address}/v1, with a page to try it at {address}/ (interrupt to end).")
        server.run(listeners)
