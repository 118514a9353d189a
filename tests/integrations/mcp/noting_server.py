"""A server of the SDK that notes what becomes of its calls: `python noting_server.py NOTES [PORT]`."""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server

PIXEL = base64.b64encode(bytes.fromhex("89504e470d0a1a0a0000000d49484452")).decode()
SCHEMA = {"type": "object", "properties": {"number": {"type": "number"}}}
READ_ONLY = types.ToolAnnotations(read_only_hint=True)
HARMLESS = types.ToolAnnotations(destructive_hint=False)
TOOLS = {"add": READ_ONLY, "wait": HARMLESS, "talk": None, "fail": None, "look at": None}


def make_server(note: Callable[[str], object]) -> Server[Any]:
    """Return the server, which calls `note` when `wait` begins, ends or is cancelled."""

    async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
        tools = [types.Tool(name=name, input_schema=SCHEMA, annotations=hints) for name, hints in TOOLS.items()]
        return types.ListToolsResult(tools=tools)

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        number = (params.arguments or {}).get("number", 1)
        content: list[types.ContentBlock] = [types.TextContent(text=f"{number + 1}")]
        match params.name:
            case "wait":
                note("began")
                try:
                    await asyncio.sleep(number)
                except BaseException:
                    note("cancelled")
                    raise
                note("ended")
            case "talk":
                for step in range(number):
                    await context.session.report_progress(step + 1, number, f"step {step}")
            case "look at":
                content.append(types.ImageContent(data=PIXEL, mime_type="image/png"))
            case _:
                pass
        return types.CallToolResult(content=content, is_error=params.name == "fail")

    return Server("noting", on_list_tools=list_tools, on_call_tool=call_tool)


def main() -> None:
    """Serve over stdio, or at a port."""

    def note(line: str) -> None:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    server = make_server(note)
    if sys.argv[2:]:
        import uvicorn

        uvicorn.run(server.streamable_http_app(), port=int(sys.argv[2]), log_level="error")
        return

    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(serve())


if __name__ == "__main__":
    main()
