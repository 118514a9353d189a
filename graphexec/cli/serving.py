"""The command `serve`: an executor as a tool of MCP clients, over the standard streams or HTTP."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from graphexec.cli.exit_codes import Debug, Terminated, UsageError, exit_on_error, option
from graphexec.cli.runs.building import load_executor
from graphexec.cli.runs.termination import terminable
from graphexec.cli.targets import is_module_reference
from graphexec.runtime.background_loop import BackgroundLoop

if TYPE_CHECKING:
    from mcp.server import Server
    from mcp.server.auth.provider import AccessToken

# The variable with the token of a server over HTTP: a command line can be read by every user of the computer.
_TOKEN = "GRAPHEXEC_SERVE_TOKEN"  # noqa: S105 - the name of a variable

# Bytes of a request: a client sends the whole run back when a person has answered.
_LONGEST = 64 * 2**20

# Seconds for the answers of requests when the server over HTTP ends.
_GRACE = 3

_TOOL, _HTTP, _QUESTIONS = "Tool", "HTTP", "Questions to people"


def serve(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="An executor, as my_agent.py:executor or package.module:executor, or a function without parameters "
            "that makes one. The file is imported, and so run.",
            show_default=False,
        ),
    ],
    *,
    name: Annotated[
        str | None, option(_TOOL, "NAME", "The name of the tool. Default: that of the file or the module.")
    ] = None,
    description: Annotated[
        str | None,
        option(_TOOL, "TEXT", "What the tool does, for the client's model. Default: the names of the agent's tools."),
    ] = None,
    http: Annotated[
        int | None,
        option(
            _HTTP,
            "PORT",
            "Serve streamable HTTP on this port, 0 for a free one, instead of the standard streams. Clients send the "
            f"token in {_TOKEN}, or else the one that is printed.",
            min=0,
            max=65535,
        ),
    ] = None,
    host: Annotated[
        str | None, option(_HTTP, "HOST", "The address to listen on. Default: 127.0.0.1, this computer alone.")
    ] = None,
    key_file: Annotated[
        Path | None,
        option(
            _QUESTIONS,
            "FILE",
            "The key that seals runs which wait for a person, and which of them went on. It is made if it is missing. "
            "Default: serve.key in the user's folder for the state of programs.",
        ),
    ] = None,
    ttl: Annotated[
        float, option(_QUESTIONS, "SECONDS", "The seconds that a person has for an answer. Default: 86400, a day.")
    ] = 86400.0,
    debug: Debug = False,
) -> None:
    """Serve an executor to MCP clients as a tool.

    Its questions to people are forms of the client. Nothing but MCP goes to stdout; all else goes to stderr.
    """
    with exit_on_error(debug=debug), terminable():
        if http is None and host is not None:
            raise UsageError("--host needs --http; add --http 8000")
        try:
            from graphexec.integrations.mcp import serve as make_server
        except ImportError as error:
            text = "graphexec serve needs mcp, which is not installed; pip install 'graphexec-agents[mcp]'"
            raise UsageError(text) from error
        with _stdout_on_stderr():
            executor, tool = load_executor(target), name or _name_tool(target)
        text = description or f"Ask an agent. Its tools: {', '.join(executor.tools) or 'none'}."
        server = make_server({tool: (executor, text)}, name=tool, key_file=key_file or _make_key_file(), ttl=ttl)
        try:
            if http is None:
                _serve_streams(server, tool)
            else:
                _serve_http(server, tool, host or "127.0.0.1", http)
        except KeyboardInterrupt as error:
            # Ctrl-C is the normal end of the command.
            if isinstance(error, Terminated):
                raise


@contextmanager
def _stdout_on_stderr() -> Generator[None]:
    """Write to stderr what programs and libraries in C write to stdout, and `sys.__stdout__`."""
    wire = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        if sys.__stdout__ is not None:
            sys.__stdout__.flush()
        os.dup2(wire, 1)
        os.close(wire)


def _name_tool(target: str) -> str:
    place = target if is_module_reference(target) else target.rpartition(":")[0]
    return Path(place).stem if place.endswith(".py") else place.rpartition(".")[2]


def _make_key_file() -> Path:
    """Return the key file of this user, in a folder that exists."""
    import platformdirs

    try:
        return platformdirs.user_state_path("graphexec", ensure_exists=True) / "serve.key"
    except OSError as error:
        raise UsageError(
            f"the folder {error.filename} cannot be made: {error.strerror}; add --key-file FILE"
        ) from error


def _serve_streams(server: Server[Any], tool: str) -> None:
    from mcp.server.stdio import stdio_server

    async def follow() -> None:
        async with stdio_server() as (reading, writing):
            # The SDK moves the descriptor; what Python has buffered for it would come out at the end.
            with redirect_stdout(sys.stderr):
                await server.run(reading, writing, server.create_initialization_options())

    # Python has `None` for a stream that is closed.
    if not (sys.stdin and sys.stdout):
        raise UsageError("MCP needs stdin and stdout, and one of them is closed; open both, or add --http 8000")
    if sys.stdin.isatty():
        print(f"graphexec: serving {tool} to an MCP client on stdin; press Ctrl-C to stop", file=sys.stderr)
    try:
        # In a thread of its own, because one that reads stdin does not end at Ctrl-C.
        BackgroundLoop().run(follow)
    except ExceptionGroup as group:
        # The client has gone.
        if group.subgroup(BrokenPipeError) is None:
            raise
        raise BrokenPipeError from group


class _Verifier:
    """Compares the token of a request with the server's."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def verify_token(self, token: str) -> AccessToken | None:
        from mcp.server.auth.provider import AccessToken

        known = hmac.compare_digest(token.encode(), self._token.encode())
        return AccessToken(token=token, client_id="graphexec", scopes=[]) if known else None


def _serve_http(server: Server[Any], tool: str, host: str, port: int) -> None:
    import uvicorn
    from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
    from starlette.middleware.authentication import AuthenticationMiddleware

    # As in a header, whose value has no space around it.
    given = os.environ.get(_TOKEN, "").strip()
    token = given or secrets.token_urlsafe(nbytes=32)
    verifier = _Verifier(token)
    application = server.streamable_http_app(host=host, token_verifier=verifier, max_request_body_size=_LONGEST)
    application.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(verifier))
    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        remedy = "pass another, or 0 for a free one"
        raise UsageError(f"port {port} of {host} cannot be opened: {error}; {remedy}") from error
    config = uvicorn.Config(
        application, log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=_GRACE
    )
    address = f"[{host}]" if ":" in host else host
    address = f"http://{address}:{listening.getsockname()[1]}/mcp"
    print(f"graphexec: serving {tool} at {address}; press Ctrl-C to stop", file=sys.stderr)
    if not given:
        print(f"graphexec: clients send the header Authorization: Bearer {token}", file=sys.stderr)
    with listening, redirect_stdout(sys.stderr):
        uvicorn.Server(config).run(sockets=[listening])
