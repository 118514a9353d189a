"""A server whose tool asks: `python asking_server.py [FILE]`, over stdio, with a key that its next process has, too.

The file gets the id of the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

SIZE = {"type": "string", "enum": ["small", "large"]}
EMPTY: Mapping[str, Any] = {}
FIELDS = {"size": SIZE, "count": {"type": "integer", "maximum": 9, "description": "How many?"}}


def form(message: str, fields: Mapping[str, Any] = EMPTY, *required: str) -> types.ElicitRequest:
    schema = {"type": "object", "properties": {**fields}, "required": list(required)}
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(*contents: Any) -> types.CreateMessageRequest:
    messages = [types.SamplingMessage(role="user", content=one) for one in contents]
    return types.CreateMessageRequest(
        params=types.CreateMessageRequestParams(messages=messages, max_tokens=9, system_prompt="Be brief.")
    )


ORDER = form("Which \x1b[31mpizza?", FIELDS, "size")
PAGE = types.ElicitRequestURLParams(message="Log in", url="https://example.org", elicitation_id="1")
AUDIO = types.AudioContent(data="AAAA", mime_type="audio/wav")
# What the server asks, round for round.
ROUNDS: dict[str, list[dict[str, types.InputRequest]]] = {
    "nothing": [],
    "order": [{"pizza": ORDER}],
    "consent": [{"sure": form("Sure?")}],
    "twice": [{"pizza": ORDER}, {"sure": form("Sure?")}],
    "both": [{"pizza": ORDER, "sure": form("Sure?")}],
    "endless": [{"sure": form("Sure?")}] * 9,
    "many": [{"all": form("Fill in", {f"field{number}": SIZE for number in range(17)})}],
    "page": [{"page": types.ElicitRequest(params=PAGE)}],
    "long": [{"sure": form("Sure?" * 30_000)}],
    "broken": [{"sure": form("Sure?", {"field": {"type": "string", "minLength": "short"}})}],
    "roots": [{"roots": types.ListRootsRequest()}],
    "sample": [{"text": sample(types.TextContent(text="Name a colour."))}],
    "hear": [{"text": sample(AUDIO)}],
}


async def list_tools(_: Any, __: Any) -> types.ListToolsResult:
    schema = {"type": "object", "properties": {"what": {"type": "string"}, "to": {"type": "string"}}}
    hints = types.ToolAnnotations(destructive_hint=False)
    danger = types.Tool(name="destroy", description="Destroy it.", input_schema=schema)
    return types.ListToolsResult(tools=[types.Tool(name="ask", input_schema=schema, annotations=hints), danger])


async def call_tool(context: Any, params: types.CallToolRequestParams) -> Any:
    """Ask what is asked in the rounds of the argument, and answer with all responses."""
    arguments = params.arguments or {}
    rounds = ROUNDS.get(arguments.get("what", ""), [])
    number, known = json.loads(params.request_state or "[0, []]")
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        known += [one.model_dump(mode="json", exclude_none=True) for one in (params.input_responses or {}).values()]
        if number < len(rounds):
            return types.InputRequiredResult(
                input_requests=rounds[int(number)], request_state=json.dumps([number + 1, known])
            )
    else:
        metadata = ServerMessageMetadata(related_request_id=context.request_id)

        async def send(request: types.InputRequest) -> Any:
            kind = types.CreateMessageResult if isinstance(request, types.CreateMessageRequest) else types.ElicitResult
            return await context.session.send_request(request, kind, metadata=metadata)

        for requests in rounds:
            answers = await asyncio.gather(*map(send, requests.values()))
            known += [one.model_dump(mode="json", exclude_none=True) for one in answers]
    text = {"to": arguments.get("to", ""), "known": known}
    return types.CallToolResult(content=[types.TextContent(text=json.dumps(text))])


def make_server() -> Server[Any]:
    server: Server[Any] = Server("pizzeria", on_list_tools=list_tools, on_call_tool=call_tool)
    server.middleware.append(RequestStateBoundary(RequestStateSecurity(keys=["k" * 32]), default_audience="pizzeria"))
    return server


def main() -> None:
    for file in sys.argv[1:]:
        Path(file).write_text(f"{os.getpid()}", encoding="utf-8")

    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        async with stdio_server() as (incoming, outgoing):
            server = make_server()
            await server.run(incoming, outgoing, server.create_initialization_options())

    asyncio.run(serve())


if __name__ == "__main__":
    main()
