"""The cost of a call of an MCP server's tool over stdio: `python benchmarks/mcp_calls.py`.

A server of the SDK in another process answers at once. Beside the sync and the async form of a tool of `MCPServer`,
the SDK's own client calls it, and hears of progress as they do: one call after another, of which there are the time of
this process's processor and the time until the result is there, and 100 calls at once, of which there is the latter: in
tasks, and those of the sync form in threads. Times are the best of several rounds that take turns. With `--check` the
exit status is 1 if a ratio to the SDK's client is above its goal.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

CALLS, ROUNDS = 100, 21
ONE, WALL, MANY = "processor", "one by one", "at once"
COMMAND = [sys.executable, __file__, "serve"]
# At most so many times the SDK's own.
GOALS = {("async", WALL): 1.3, ("sync", WALL): 1.8, ("sync", MANY): 1.0}


async def serve() -> None:
    """Answer until the input ends."""
    schema = {"type": "object", "properties": {"number": {"type": "integer"}}}

    async def list_tools(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="add", input_schema=schema)])

    async def call_tool(_: object, params: types.CallToolRequestParams) -> types.CallToolResult:
        number = (params.arguments or {})["number"] + 1
        return types.CallToolResult(content=[types.TextContent(text=f"{number}")])

    server: Server[Any] = Server("adding", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def measure() -> dict[str, dict[str, float]]:
    """Return the least that calls took, by who made them and how."""
    # Not for the server, which this starts with less of the environment.
    from graphexec.integrations.mcp import MCPServer

    client = Client(StdioServerParameters(command=COMMAND[0], args=COMMAND[1:]))
    async with client, MCPServer(COMMAND) as server:
        (tool,) = server.tools()
        # Any: a tool of any arguments.
        awaited: Any = tool.async_function

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            pass

        def make_sdk_calls(number: int, *, at_once: bool) -> Awaitable[object]:
            return make_calls(lambda: client.call_tool("add", {"number": 1}, progress_callback=hear), number, at_once)

        def make_async_calls(number: int, *, at_once: bool) -> Awaitable[object]:
            return make_calls(lambda: awaited(number=1), number, at_once)

        def call_tool(_: int) -> object:
            return tool(number=1)

        async def make_sync_calls(number: int, *, at_once: bool) -> None:
            # They keep this loop waiting, and the session has another one.
            results = (threads.map if at_once else map)(call_tool, range(number))
            assert [*results] == ["2"] * number

        rows = {"SDK": make_sdk_calls, "async": make_async_calls, "sync": make_sync_calls}
        best: dict[str, dict[str, float]] = {name: {} for name in rows}
        with ThreadPoolExecutor(CALLS) as threads:
            for _ in range(ROUNDS):
                for name, row in rows.items():
                    wall, processor = time.perf_counter(), time.process_time()
                    await row(CALLS, at_once=False)
                    taken = {ONE: time.process_time() - processor, WALL: time.perf_counter() - wall}
                    wall = time.perf_counter()
                    await row(CALLS, at_once=True)
                    taken[MANY] = time.perf_counter() - wall
                    best[name] = {kind: min(best[name].get(kind, value), value) for kind, value in taken.items()}
    return best


async def make_calls(call: Callable[[], Awaitable[object]], number: int, at_once: bool) -> None:  # noqa: FBT001 - a row
    """Make calls one after another, or at once."""
    if at_once:
        await asyncio.gather(*[call() for _ in range(number)])
    else:
        for _ in range(number):
            await call()


def main() -> int:
    """Measure, print, and return the exit status."""
    if sys.argv[1:] == ["serve"]:
        asyncio.run(serve())
        return 0
    best = asyncio.run(measure())
    print(f"{'µs a call':<12}{''.join(f'{kind:>20}' for kind in (ONE, WALL, MANY))}")
    for name, row in best.items():
        print(f"{name:<12}{''.join(f'{row[kind] / CALLS * 1e6:>20.0f}' for kind in (ONE, WALL, MANY))}")
    ratios = {(name, kind): best[name][kind] / best["SDK"][kind] for name, kind in GOALS}
    print(", ".join(f"{name}, {kind}: {ratio:.2f} <= {GOALS[name, kind]}?" for (name, kind), ratio in ratios.items()))
    return int("--check" in sys.argv and any(ratio > GOALS[one] for one, ratio in ratios.items()))


if __name__ == "__main__":
    sys.exit(main())
