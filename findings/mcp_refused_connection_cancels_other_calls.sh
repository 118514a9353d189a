#!/usr/bin/env bash
# mcp 2.3.0, mcp-types 2.3.0, httpx2 2.16.2, uvicorn 0.54.0; Python 3.11 to 3.13.
#
# One call of an MCP client over streamable HTTP that finds no connection ends the whole client: the calls that the server
# is still working on fail, too, as if the connection were closed, and the client's block raises. A good guess is wrong:
# each call is an HTTP request of its own, with a stream of its own for the answer, so what happens to one should not
# matter to the others, and for an error status, such as 503, it does not: that call alone fails. But a request that cannot
# be sent raises in the task group that all requests of the client share, and that cancels the group. So a call of a tool
# that costs something is reported as failed while it takes place, because another call came when the server no longer
# accepted connections; an orderly restart, which finishes its work first, is enough.
#
# The server here has a slow and a fast tool. The script calls the slow one, and then the fast one while the server
# refuses, once by the status 503, and once by no longer listening; it prints what becomes of both calls and of the client.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" --quiet --disable-pip-version-check install \
    mcp==2.3.0 mcp-types==2.3.0 httpx2==2.16.2 uvicorn==0.54.0
"$folder/env/bin/python" - <<'PYTHON'
import asyncio
import logging
import sys

import uvicorn
from mcp import Client
from mcp.server.mcpserver import MCPServer

logging.disable(logging.CRITICAL)
tools = MCPServer("tools", log_level="CRITICAL")


@tools.tool()
async def slow() -> str:
    """Answer after a while."""
    await asyncio.sleep(1.0)
    return "answered"


@tools.tool()
async def fast() -> str:
    """Answer at once."""
    return "answered"


async def refuse(how: str) -> list[str]:
    """Return what becomes of the slow call, of the fast one and of the task that holds the client."""
    application, busy = tools.streamable_http_app(), asyncio.Event()

    async def guarded(scope, receive, send) -> None:
        if scope["type"] == "http" and busy.is_set():
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b""})
        else:
            await application(scope, receive, send)

    server = uvicorn.Server(uvicorn.Config(guarded, port=0, log_config=None))
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    (listening,) = server.servers
    port = listening.sockets[0].getsockname()[1]
    calls: list[asyncio.Task[str]] = []

    async def call(client: Client, name: str) -> str:
        return (await client.call_tool(name, {})).content[0].text

    async def hold() -> str:
        async with Client(f"http://127.0.0.1:{port}/mcp") as client:
            calls.append(asyncio.create_task(call(client, "slow")))
            await asyncio.sleep(0.3)
            if how == "503":
                busy.set()
            else:
                listening.close()
            calls.append(asyncio.create_task(call(client, "fast")))
            await asyncio.wait(calls[1:], timeout=5)
            busy.clear()
            await asyncio.wait(calls, timeout=5)
        return "goes on"

    ends = await asyncio.gather(asyncio.create_task(hold()), return_exceptions=True)
    ends = await asyncio.gather(*calls, return_exceptions=True) + ends
    server.should_exit = True
    await serving
    return [one if isinstance(one, str) else type(one).__name__ for one in ends]


busy, refused = (asyncio.run(refuse(how)) for how in ("503", "refused"))
for how, seen in (("503", busy), ("no longer listening", refused)):
    print(f"{how}: the slow call: {seen[0]}; the fast call: {seen[1]}; the client: {seen[2]}")
alone, together = ["answered", "MCPError", "goes on"], ["MCPError", "MCPError", "ExceptionGroup"]
sys.exit(0 if (busy, refused) == (alone, together) else 1)
PYTHON
