"""A server of the Model Context Protocol, whose tools are tools."""

from __future__ import annotations

import asyncio
import atexit
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Literal, Self, final

import mcp_types as types
from mcp.shared.exceptions import MCPError

from graphexec._arguments import STRING, TIMEOUT, optional, validate, validate_each
from graphexec.errors import ToolDefinitionError
from graphexec.integrations.mcp.results import read_result
from graphexec.integrations.mcp.sessions import Call, CallTask, MCPServerError, Session
from graphexec.integrations.mcp.transports import read_target
from graphexec.runtime.background_loop import BACKGROUND
from graphexec.runtime.calls import wait_for_capacity
from graphexec.runtime.threads import check_cancelled, get_within, on_cancel
from graphexec.tools import AnyTool, tool_from_schema
from graphexec.tools.options import LENGTH, ReportedError

# Providers take no other characters in a name, and no more of them.
_OTHER, _LONGEST_NAME = re.compile(r"[^A-Za-z0-9_-]"), 64


@final
class MCPServer:
    """A server of the Model Context Protocol (MCP), whose tools agents may call: `create_agent(model, [server])`.

    The `target` is a command line, as a string or a list, which is started; an address (`https://...`, streamable
    HTTP), to which `headers` are sent, such as those with a token; `StdioServerParameters`; or what `mcp.Client` takes.
    `prefix` is put before the names of the tools, with an underscore. `only` names the tools that are used; without it,
    a server may list at most 500.

    It connects when it is entered (`with` or `async with`), or when its tools are first asked for, and again when the
    connection was lost; it is closed at the end of the block, by `close` or `aclose`, and with the interpreter. In
    async programs enter it first, because `tools` waits for the connection. `timeout` is in seconds for a call, `None`
    for no end, and `connect_timeout` for a connection. The `mode` is that of `mcp.Client`: "auto", or "legacy" for
    servers that cannot negotiate. `options` are further ones of it, such as `list_roots_callback`.

    A call that its deadline cuts is cancelled at the server. Progress is reported as `Progress`. What a server sends is
    data: texts for the model are cut to `max_observation` characters, by default the executor's.
    """

    # Any: what `mcp.Client` takes, and its options.
    def __init__(  # noqa: PLR0913 - options
        self,
        target: Any,
        prefix: str = "",
        *,
        only: Collection[str] | None = None,
        timeout: float | None = 600.0,
        connect_timeout: float = 60.0,
        headers: Mapping[str, str] | None = None,
        max_observation: int | None = None,
        mode: Literal["auto", "legacy"] | str = "auto",  # noqa: PYI051 - the SDK knows versions, too
        options: Mapping[str, Any] | None = None,
    ) -> None:
        validate(
            "MCPServer",
            ("prefix", prefix, STRING),
            ("timeout", timeout, optional(TIMEOUT)),
            ("connect_timeout", connect_timeout, TIMEOUT),
            ("max_observation", max_observation, optional(LENGTH, "the executor's")),
        )
        name, connector = read_target(target, headers)
        self.prefix, self._max_observation = prefix, max_observation
        self.session = Session(
            name,
            connector,
            {**(options or {}), "mode": mode},
            only=None if only is None else frozenset(validate_each("only", only, str, "names of tools")),
            timeout=timeout,
            connect_timeout=connect_timeout,
        )
        self._tools: dict[str, tuple[AnyTool, types.Tool]] = {}
        # Makes the observation of a call that asks for input, from the tool's name at the server and what it returned.
        self._answer_input: Callable[[str, types.InputRequiredResult], object] | None = None

    def __repr__(self) -> str:
        return f"<MCPServer {self.session.name}>"

    def __enter__(self) -> Self:
        self.session.closed = False
        try:
            self.tools()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self.session.closed = False
        opened = asyncio.run_coroutine_threadsafe(self.session.connect(), BACKGROUND.start())
        try:
            self._define_tools((await asyncio.wrap_future(opened)).tools)
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def close(self) -> None:
        """Close the connection; a program that was started for it is ended."""
        atexit.unregister(self.close)
        BACKGROUND.run(self.session.close)

    async def aclose(self) -> None:
        """Close the connection, as `close` does."""
        atexit.unregister(self.close)
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self.session.close(), BACKGROUND.start()))

    def tools(self) -> list[AnyTool]:
        """Return the tools, as the server first listed them. Raises `MCPServerError`, and `ToolDefinitionError`."""
        if not self._tools:
            self._define_tools(BACKGROUND.run(self.session.connect).tools)
        return [one for one, _ in self._tools.values()]

    def declare_answers(
        self, answer_input: Callable[[str, types.InputRequiredResult], object], *, sampling: bool
    ) -> None:
        """Let the server ask a person, and with `sampling` the model; it is connected again, and may list other tools.

        `answer_input` makes the observation of a call that waits for them.
        """
        self._answer_input = answer_input
        self.session.declare(sampling=sampling)
        self._tools = {}

    def set_prefix(self, prefix: str) -> None:
        """Put another prefix before the names of the tools."""
        self.prefix, self._tools = prefix, {}

    def find_tool(self, name: str) -> AnyTool:
        """Return the tool with this name at the server, without a prefix. Raises `MCPServerError`."""
        self.tools()
        found = next((one for one, spec in self._tools.values() if spec.name == name), None)
        if found is None:
            raise MCPServerError(f"MCP server {self.session.name}: it lists no tool {name}; call another one")
        return found

    def destructive_tools(self) -> list[str]:
        """Return the names of tools that may destroy something, for `approve_tools`.

        They are those that the server neither calls read-only nor free of destructive updates. That is its own claim,
        which nobody checks.
        """
        self.tools()
        return [
            name
            for name, (_, spec) in self._tools.items()
            if not (_is_read_only(spec) or (spec.annotations and spec.annotations.destructive_hint is False))
        ]

    def _define_tools(self, specs: Collection[types.Tool]) -> None:
        atexit.unregister(self.close)
        atexit.register(self.close)
        defined: dict[str, tuple[AnyTool, types.Tool]] = {}
        changes = not all(map(_is_read_only, specs))
        for spec in specs:
            name = _OTHER.sub("_", f"{self.prefix}_{spec.name}" if self.prefix else spec.name)[:_LONGEST_NAME]
            if name in defined:
                raise ToolDefinitionError(f"{self!r} has two tools named {name}; choose one with only=[...]")
            defined[name] = self._define_tool(name, spec, changes=changes), spec
        self._tools = defined

    def _define_tool(self, name: str, spec: types.Tool, *, changes: bool) -> AnyTool:
        # Any: JSON data, and observations; so below.
        def call(**arguments: Any) -> Any:
            arrivals = SimpleQueue[CallTask | None]()
            running = Call(self.session, spec.name, arguments, arrivals.put)
            try:
                with on_cancel(running.cancel):
                    while (task := get_within(arrivals, None)) is None:
                        running.report()
                check_cancelled()
            except BaseException:
                running.cancel()
                raise
            return self._read(spec.name, task)

        async def call_async(**arguments: Any) -> Any:
            loop, arrivals = asyncio.get_running_loop(), asyncio.Queue[CallTask | None]()

            def notify(task: CallTask | None) -> None:
                # The loop may have been closed meanwhile.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(arrivals.put_nowait, task)

            running = Call(self.session, spec.name, arguments, notify)
            try:
                while (task := await arrivals.get()) is None:
                    running.report()
                    await wait_for_capacity()
            except BaseException:
                running.cancel()
                raise
            return self._read(spec.name, task)

        try:
            return tool_from_schema(
                name,
                spec.description or spec.title or spec.name,
                spec.input_schema,
                call,
                async_function=call_async,
                max_observation=self._max_observation,
                # What it reads may have been changed by another tool.
                repeatable=changes and _is_read_only(spec),
            )
        except ToolDefinitionError as error:
            raise ToolDefinitionError(f"{self!r}: {error}; or choose other tools with only=[...]") from None

    def _read(self, tool: str, task: CallTask) -> Any:
        """Return the observation of a call that has ended. Raises `ReportedError` for an error of the server's own."""
        try:
            given = task.result()
        except MCPError as error:
            raise ReportedError(error.message) from None
        if isinstance(given, types.InputRequiredResult):
            if self._answer_input is None:
                name = self.session.name
                raise ReportedError(
                    f"{name} asks for input, which nobody answers here; add elicit(server) to the nodes"
                )
            return self._answer_input(tool, given)
        if given.is_error:
            raise ReportedError(read_result(given))
        return read_result(given)


def _is_read_only(spec: types.Tool) -> bool:
    return spec.annotations is not None and spec.annotations.read_only_hint is True
