"""Ways to a server: a program that is started, an address, or what the SDK takes; messages of both are bounded."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias, final
from urllib.parse import urlsplit

import anyio
import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.stdio import get_default_environment
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer, Server
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from graphexec.errors import InputError, format_value

# The SDK logs what becomes an error here, too: without a handler that would go to the terminal.
logging.getLogger("mcp").addHandler(logging.NullHandler())

# Bytes of one message: a large image in base64. The SDK keeps a line of a program's output of any length, and copies it
# with each piece that it reads.
MOST_BYTES = 16 * 1024**2
# How the SDK begins what it says of an answer over HTTP that it cannot read.
UNREADABLE = "Failed to parse"
# Bytes of what a program writes to its standard error: its last lines, for an error.
_KEPT = 2_000
# Seconds in which a program may end by itself, and then after SIGTERM; as in the SDK.
_GRACE = 2.0
# Characters of a name of a server.
_LONGEST = 80


@final
class Connection:
    """A connection, until it is `lost`; the `reason` says why, and a `clue` why it may be."""

    def __init__(self) -> None:
        # What it has once it is `ready`.
        self.client: Client | None = None
        self.tools: list[types.Tool] = []
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nobody may wait for its error.
        self.ready.add_done_callback(lambda done: done.exception())
        self.over = asyncio.Event()
        self.lost = False
        self.clue = self.reason = ""

    def note(self, reason: str, *, fatal: bool = False) -> None:
        """Take note of why it may end; if that is `fatal`, of why it has ended, unless that is known."""
        if not fatal:
            self.clue = reason
        elif not self.reason:
            # Later, what it once wrote explains nothing.
            self.reason = reason if self.ready.done() or not self.clue else f"{reason}; {self.clue}"
            self.lost = True
            self.over.set()


# Makes what `mcp.Client` takes, for one connection.
Connector: TypeAlias = Callable[[Connection], Any]


# Any: what a user gives, and what the SDK takes; so in this module.
def read_target(target: Any, headers: Mapping[str, str] | None) -> tuple[str, Connector]:
    """Return the name of a server for its users, without secrets, and what connects to it. Raises `InputError`."""
    if isinstance(target, str) and re.match(r"https?://", target, re.IGNORECASE):
        parts = urlsplit(target)
        host = parts.netloc.rpartition("@")[2]
        return f"{parts.scheme}://{host}{parts.path}", lambda connection: _open_http(target, headers, connection)
    if headers is not None:
        raise InputError(f"MCPServer: headers are for a server with an http address, not for {format_value(target)}")
    words: Any = target
    if isinstance(target, str):
        try:
            words = shlex.split(target, posix=os.name == "posix")
        except ValueError as error:
            raise InputError(f"MCPServer: the command {target!r} cannot be split ({error}); give a list") from None
    match words:
        case StdioServerParameters():
            # Long options may have secrets.
            name = " ".join([words.command, *words.args]).partition(" --")[0]
            return name[:_LONGEST], lambda connection: _start_program(words, connection)
        case [*_] if words and all(isinstance(one, str) for one in words):
            return read_target(StdioServerParameters(command=words[0], args=[*words[1:]]), headers)
        case Server() | MCPServer():
            return f"{words.name}", lambda _: target
        case _ if hasattr(target, "__aenter__"):
            return type(target).__name__, lambda _: target
        case _:
            raise InputError(
                f"MCPServer was given {format_value(target)}; give a command line, a list of its words, an http "
                "address, StdioServerParameters, or what mcp.Client takes"
            )


@asynccontextmanager
async def _start_program(parameters: StdioServerParameters, connection: Connection) -> AsyncGenerator[Any, None]:
    """Start a program, and yield streams of its messages."""
    process = await asyncio.create_subprocess_exec(
        # Windows finds npx.cmd only so.
        shutil.which(parameters.command) or parameters.command,
        *parameters.args,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=get_default_environment() | (parameters.env or {}),
        cwd=parameters.cwd,
        limit=MOST_BYTES,
        start_new_session=True,
    )
    stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
    assert stdin is not None, "it is a pipe"
    assert stdout is not None, "it is a pipe"
    assert stderr is not None, "it is a pipe"
    # Only a program that floods us waits, so that the loop serves other sessions between its messages.
    inbox, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](64)
    outgoing, outbox = anyio.create_memory_object_stream[SessionMessage](math.inf)
    last_words, closing = bytearray(), False

    async def read() -> None:
        async with inbox:
            try:
                async for line in stdout:
                    message: types.JSONRPCMessage | None
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        connection.note(f"it wrote {_shorten(line)!r}, which is no message of MCP")
                        message = _refuse(line, describe(error))
                    if message is not None:
                        await inbox.send(SessionMessage(message))
            except ValueError:
                # The program waits, and nothing more is read.
                connection.note(f"it sent a message of more than {MOST_BYTES:,} bytes", fatal=True)
                return
            except anyio.BrokenResourceError:
                return
            # What it wrote last may still arrive, unless another process holds the pipe.
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await listening
                    await _wait(process)
            if closing:
                return
            status = process.returncode
            end = "its program closed its output" if status is None else f"its program ended with status {status}"
            connection.note(f"{end}: {_shorten(last_words)}" if last_words else end, fatal=True)

    async def write() -> None:
        async with outbox:
            with suppress(ConnectionError):
                async for first in outbox:
                    # Those that wait are written at once, so that the program wakes once.
                    waiting = outbox.statistics().current_buffer_used
                    batch = [first, *(outbox.receive_nowait() for _ in range(waiting))]
                    texts = (one.message.model_dump_json(by_alias=True, exclude_unset=True) for one in batch)
                    stdin.writelines(f"{text}\n".encode() for text in texts)
                    await stdin.drain()

    async def listen() -> None:
        while data := await stderr.read(_KEPT):
            last_words[:] = (last_words + data)[-_KEPT:]

    listening = asyncio.create_task(listen())
    tasks = [listening, asyncio.create_task(read()), writing := asyncio.create_task(write())]
    try:
        yield incoming, outgoing
    finally:
        # Also if the caller has been cancelled: otherwise the program would go on.
        closing = True
        with anyio.CancelScope(shield=True):
            incoming.close()
            outgoing.close()
            # The last message, such as a cancellation, is on its way.
            await asyncio.wait([writing], timeout=_GRACE)
            stdin.close()
            await _end(process)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            # The pipes stay open if not all was read, or if another process has them. Any: asyncio hides its transport.
            transport: Any = vars(process)["_transport"]
            transport.close()


def _refuse(line: bytes, why: str) -> types.JSONRPCError | None:
    """Return an error for the request whose answer cannot be read, as the SDK does over HTTP, if it is an answer."""
    with suppress(ValueError, RecursionError):
        # Integers of any length; the SDK takes the string of an id, too.
        match json.loads(line.decode(errors="replace"), parse_int=str):
            case {"id": str(number), **others} if "method" not in others:
                refused = types.ErrorData(code=types.PARSE_ERROR, message=f"{UNREADABLE}: {why}")
                return types.JSONRPCError(jsonrpc="2.0", id=number, error=refused)
            case _:
                pass
    return None


async def _end(process: asyncio.subprocess.Process) -> None:
    """Wait until a program has ended, whose input has been closed; after `_GRACE` seconds end it; end its children."""
    for name in ("", "SIGTERM", "SIGKILL"):
        if name:
            _signal_group(process, name)
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await _wait(process)
                break
    if sys.platform != "win32":
        _signal_group(process, "SIGTERM")


def _signal_group(process: asyncio.subprocess.Process, name: str) -> None:
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.Signals[name])


async def _wait(process: asyncio.subprocess.Process) -> None:
    """Wait until a program has ended. `Process.wait` waits for its pipes, too, which another process may hold."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio tells nobody else
        await asyncio.sleep(0.01)


def describe(error: BaseException) -> str:
    """Return what is wrong, on one line: pydantic's first one names only a class."""
    if isinstance(error, ValidationError):
        last = error.errors()[-1]
        return f"{'.'.join(str(part) for part in last['loc'])}: {last['msg']}".removeprefix(": ")
    return (str(error) or type(error).__name__).strip().partition("\n")[0]


def _shorten(data: bytes | bytearray) -> str:
    """Return the last line, or what fits of the last ones, as one line."""
    text = " ".join(data.decode(errors="replace").split())
    return text if len(text) <= _LONGEST * 3 else f"...{text[-_LONGEST * 3 :]}"


@asynccontextmanager
async def _open_http(url: str, headers: Mapping[str, str] | None, connection: Connection) -> AsyncGenerator[Any, None]:
    """Yield streams of the messages of an address."""

    async def check(response: httpx2.Response) -> None:
        if response.request.method == "POST":
            connection.note(f"it answered {response.status_code} {response.reason_phrase}" if response.is_error else "")
        # What is unpacked could have any size.
        if response.headers.get("content-encoding", "identity") != "identity":
            raise httpx2.StreamError("it answers in a compressed form, which it was not asked for")
        if "event-stream" not in response.headers.get("content-type", ""):
            response.stream = _Bounded(response.stream)

    async with (
        httpx2.AsyncClient(
            headers={**(headers or {}), "accept-encoding": "identity"},
            # Without a limit on reading: calls have their own.
            timeout=httpx2.Timeout(30.0, read=None),
            event_hooks={"response": [check]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MOST_BYTES) as streams,
    ):
        yield streams


class _Bounded(httpx2.AsyncByteStream):
    """The content of a response, of at most `MOST_BYTES`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for chunk in self._stream:
            size += len(chunk)
            if size > MOST_BYTES:
                raise httpx2.StreamError(f"it is a message of more than {MOST_BYTES:,} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()
