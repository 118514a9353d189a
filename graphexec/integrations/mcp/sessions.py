"""A session with a server: one connection at a time, which one task opens and closes on the loop of all clients."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Mapping
from contextvars import Context, ContextVar
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias, final

import mcp_types as types
from mcp import Client
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from graphexec.errors import GraphexecError, described
from graphexec.integrations.mcp.open_calls import OpenCalls
from graphexec.integrations.mcp.results import Progress
from graphexec.integrations.mcp.transports import UNREADABLE, Connection, Connector, describe
from graphexec.runtime.background_loop import BACKGROUND
from graphexec.runtime.calls import report, reset_after_fork
from graphexec.runtime.threads import MOST_REPORTS

# More tools than any model is offered, and as many as a server may list if some of them are chosen.
MOST_TOOLS, _MOST_LISTED = 500, 100_000
# What the SDK says of a connection or a stream that has ended, and of an HTTP error. Servers use its codes, too.
_CLOSED, _HTTP_ERROR = "Connection closed", "Server returned an error response"
_STREAM_ENDED = "SSE stream ended"
# What it says of other answers over HTTP without a result.
_NO_ANSWER = ("SSE stream", "Unexpected content type", "server answered a request with 202")
_UNREADABLE = "the answer to {} cannot be read, and the call has taken place: {}"
# Characters of what a server says in progress and in errors.
_LONGEST = 1_000
# Seconds in which a connection closes, with its server's program, which may need some to be killed.
_CLOSING = 8.0

# What a server answers: a result, or requests for input without which it has none.
CallResult: TypeAlias = types.CallToolResult | types.InputRequiredResult
CallTask: TypeAlias = asyncio.Task[CallResult]


# What a call in this context answers to what its server asked: `input_responses` and `request_state`.
RESPONSES = ContextVar[Mapping[str, Any]]("graphexec_mcp_responses", default=MappingProxyType({}))


class MCPServerError(GraphexecError):
    """A server cannot be used, or the connection to it was lost during a call, which may have taken place."""


@final
class Session:
    """Calls a server's tools, and connects to it when that is needed. Its coroutines run on the background loop."""

    def __init__(
        self,
        name: str,
        connector: Connector,
        options: dict[str, Any],
        *,
        only: Collection[str] | None,
        timeout: float | None,
        connect_timeout: float,
    ) -> None:
        self.name, self.options, self.timeout = name, options, timeout
        self._connector, self._only, self._connect_timeout = connector, only, connect_timeout
        # Of a server that may ask.
        self._open_calls: OpenCalls | None = None
        self.closed, self.is_remote = False, name.startswith(("http://", "https://"))
        self.reset_after_fork()
        reset_after_fork(self)

    def reset_after_fork(self) -> None:
        """Forget the connections, which belong to the process before."""
        self._current: Connection | None = None
        self._open: dict[Connection, asyncio.Task[None]] = {}

    # Any: JSON data.
    async def call(
        self, tool: str, arguments: Mapping[str, Any], on_progress: Callable[[Progress], None]
    ) -> CallResult:
        """Call a tool once, with the `RESPONSES` of the context. `on_progress` is called here.

        Raises `MCPServerError`, and the SDK's `MCPError` for an error that is the server's own.
        """

        async def report_progress(progress: float, total: float | None, message: str | None) -> None:
            on_progress(Progress(tool, progress, total, message and message[:_LONGEST]))

        connection = await self.connect()
        try:
            assert connection.client is not None, "it is open"
            result = await self._send(connection.client, tool, dict(arguments), report_progress)
        except MCPServerError:
            raise
        except MCPError as error:
            raise await self._explain_failure(connection, tool, error) from None
        # The SDK raises `RuntimeError` and `ValidationError` for results that do not conform.
        except Exception as error:
            raise self._error(_UNREADABLE.format(tool, describe(error))) from error
        else:
            return result

    async def _send(self, client: Client, tool: str, arguments: dict[str, Any], progressed: ProgressFnT) -> CallResult:
        more = RESPONSES.get()
        if self._open_calls is None or client.protocol_version in MODERN_PROTOCOL_VERSIONS:
            # Its overloads do not know `more`.
            result: CallResult = await client.session.call_tool(  # pyright: ignore[reportAssignmentType]
                tool, arguments, self.timeout, progressed, allow_input_required=True, **more
            )
            return result
        # The time in which a person answers does not count.
        try:
            if not more:
                calling = client.session.call_tool(tool, arguments, None, progressed)
                return await self._open_calls.follow(calling, self.timeout)
            if (known := await self._open_calls.proceed(**more, timeout=self.timeout)) is not None:
                return known
        except TimeoutError:
            raise self._error(f"{tool} was not answered within {self.timeout:g} seconds, and is cancelled") from None
        raise self._error(f"the connection of {tool}, which asked, is lost, and the call with it; call it again")

    async def _explain_failure(self, connection: Connection, tool: str, error: MCPError) -> Exception:
        text = error.message
        if text == _CLOSED and not connection.lost:
            # Its task knows why.
            await asyncio.wait([self._open[connection]], timeout=1.0)
        if text == _CLOSED or (self.is_remote and text.startswith(_NO_ANSWER)):
            if text == _CLOSED or text.startswith(_STREAM_ENDED):
                connection.note(text, fatal=True)
            why = connection.reason or text
            return self._error(f"the connection was lost during {tool}, which may have taken place: {why}")
        if error.code == types.REQUEST_TIMEOUT and self.timeout is not None and "timed out" in text:
            return self._error(f"{tool} was not answered within {self.timeout:g} seconds, and is cancelled")
        if error.code == types.PARSE_ERROR and text.startswith(UNREADABLE):
            return self._error(_UNREADABLE.format(tool, f"{text}; {connection.clue}".removesuffix("; ")))
        if self.is_remote and (text == _HTTP_ERROR or " 404 " in connection.clue):
            # It may have forgotten the session, as after a restart: the next call begins another one.
            connection.note(text, fatal=True)
            if connection.clue.startswith("it answered 4"):
                return self._error(f"it did not take the call of {tool}: {connection.clue}; call it again")
            return self._error(f"it answered with an error to {tool}, which may have taken place: {connection.clue}")
        return error

    async def connect(self) -> Connection:
        """Return the connection, which is opened if there is none. Raises `MCPServerError`."""
        if self.closed:
            raise self._error("it is closed; call its tools before that, or enter it again")
        connection = self._current
        if connection is None or connection.lost:
            connection = self._current = Connection()
            # In no caller's context: the connection outlives its call.
            self._open[connection] = asyncio.create_task(self._own(connection), context=Context())
        # Several calls may wait for it.
        await asyncio.shield(connection.ready)
        return connection

    async def _own(self, connection: Connection) -> None:
        """Hold a connection: one task enters and leaves the client, whose scopes belong to it."""
        try:
            async with asyncio.timeout(self._connect_timeout) as clock:
                async with Client(self._connector(connection), **self.options) as client:
                    connection.client = client
                    connection.tools = await self._list_tools(client)
                    clock.reschedule(None)
                    connection.ready.set_result(None)
                    await connection.over.wait()
        except BaseException as error:  # noqa: BLE001 - raised to those who wait for it
            # Any: failures over HTTP are in groups of groups, whose types nobody knows.
            inner: Any = error
            while several := getattr(inner, "exceptions", ()):
                inner = several[0]
            if connection.ready.done():
                connection.note(described(inner), fatal=True)
            else:
                connection.ready.set_exception(self._explain_start(connection, inner))
        finally:
            connection.lost = True
            self._open.pop(connection, None)

    def _explain_start(self, connection: Connection, error: BaseException) -> Exception:
        match error:
            case MCPServerError():
                return error
            case TimeoutError():
                why = f"it did not answer within {self._connect_timeout:g} seconds"
            case OSError() if not self.is_remote:
                return self._error(f"it cannot be started ({describe(error)}); correct the command")
            case _:
                why = describe(error)
        why = connection.reason or (f"{why}; {connection.clue}" if connection.clue else why)
        remedy = "the address, and the headers" if self.is_remote else "the command, and what its program needs"
        return self._error(f"{why}; check {remedy}")

    async def _list_tools(self, client: Client) -> list[types.Tool]:
        wanted, count, cursor = self._only, 0, None
        # A name that is listed twice is one tool, and a cursor that comes again begins a circle.
        found, cursors = dict[str, types.Tool](), set[str | None]()
        while cursor not in cursors and count <= _MOST_LISTED:
            cursors.add(cursor)
            page = await client.list_tools(cursor=cursor)
            count, cursor = count + len(page.tools), page.next_cursor or None
            found |= {one.name: one for one in page.tools if wanted is None or one.name in wanted}
            if wanted is None and len(found) > MOST_TOOLS:
                raise self._error(f"it lists more than {MOST_TOOLS} tools; choose some with only=[...]")
            if wanted is not None and len(found) == len(wanted):
                break
        if missing := [one for one in wanted or () if one not in found]:
            raise self._error(f"it lists no tool {missing[0]}; correct only=[...]")
        return [*found.values()]

    def _error(self, text: str) -> MCPServerError:
        # Texts of the server may be in it.
        line = "".join(one if one.isprintable() else " " for one in text[:_LONGEST])
        return MCPServerError(f"MCP server {self.name}: {line}")

    def declare(self, *, sampling: bool) -> None:
        """Declare that somebody answers what the server asks; an open connection is replaced when it is next needed."""
        wanted = ["elicitation_callback", *(["sampling_callback"] if sampling else [])]
        if {*wanted} <= {*self.options}:
            return
        self._open_calls = OpenCalls()
        self.options |= dict.fromkeys(wanted, self._open_calls.ask)
        if self._current is not None:
            BACKGROUND.start().call_soon_threadsafe(partial(self._current.note, "it was opened again", fatal=True))

    def abandon(self, state: str | None) -> None:
        """Cancel the open call of this state, if it is one."""
        if self._open_calls is not None:
            BACKGROUND.start().call_soon_threadsafe(self._open_calls.cancel, state)

    async def close(self) -> None:
        """Close all connections. Calls that have not ended are lost."""
        self.closed = True
        for connection, owner in self._open.items():
            connection.note("it was closed here", fatal=True)
            if not connection.ready.done():
                owner.cancel()
        if self._open:
            await asyncio.wait(self._open.values(), timeout=_CLOSING)


@final
class Call:
    """A call of a tool, started from any thread, in its context, so that spans nest.

    On the loop of the session, `notify` is called with `None` when there is progress to `report`, and with the task
    once that is done. The futures that asyncio has for other threads cost three times as much.
    """

    # Any: JSON data.
    def __init__(
        self, session: Session, tool: str, arguments: Mapping[str, Any], notify: Callable[[CallTask | None], object]
    ) -> None:
        self._loop, self._notify = BACKGROUND.start(), notify
        # A slow consumer misses the oldest.
        self._progress = deque[Progress](maxlen=MOST_REPORTS)
        self._loop.call_soon_threadsafe(self._begin, session.call(tool, arguments, self._receive))

    def _begin(self, call: Coroutine[Any, Any, CallResult]) -> None:
        self._task = self._loop.create_task(call)
        self._task.add_done_callback(self._notify)

    def _receive(self, progress: Progress) -> None:
        self._progress.append(progress)
        if len(self._progress) == 1:
            self._notify(None)

    def report(self) -> None:
        """Report the progress since the last time."""
        while self._progress:
            report(self._progress.popleft())

    def cancel(self) -> None:
        """Cancel the call, at its server, too; also before it has begun."""
        self._loop.call_soon_threadsafe(lambda: self._task.cancel())  # noqa: PLW0108 - the task comes later
