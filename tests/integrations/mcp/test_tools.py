"""Tools of servers in this process: both eras, sync and async, names, results, progress, and what servers do wrong."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

import mcp_types as types
from mcp.server.lowlevel import Server

from graphexec import AgentExecutor, Reported, create_agent
from graphexec.errors import GraphexecError, InputError, ToolDefinitionError
from graphexec.integrations.mcp import MCPServer, MCPServerError, Progress
from graphexec.integrations.mcp.results import read_result
from graphexec.messages import Image, ToolCall
from graphexec.models import ScriptedModel
from graphexec.tools import AnyTool
from graphexec.tools.options import ReportedError
from tests.integrations.mcp.noting_server import PIXEL, make_server

ERAS = ("auto", "legacy")


def tools_of(server: MCPServer) -> dict[str, AnyTool]:
    """Return the tools of a server by name."""
    return {one.name: one for one in server.tools()}


def calling(server: MCPServer, name: str, arguments: str = "{}", **options: Any) -> AgentExecutor[Any]:
    """Return an executor that calls a tool once."""
    model = ScriptedModel([ToolCall("1", name, arguments), "done"])
    return create_agent(model, server.tools(), kind="tool_calling", **options)


def listing(*pages: list[str], schema: dict[str, Any] | None = None, is_circle: bool = False) -> Server[Any]:
    """Return a server that lists pages of tools with these names, without an end if they are a circle."""

    async def list_tools(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        number = int((params and params.cursor) or 0)
        tools = [types.Tool(name=name, input_schema=schema or {"type": "object"}) for name in pages[number]]
        following = str((number + 1) % len(pages)) if is_circle or pages[number + 1 :] else None
        return types.ListToolsResult(tools=tools, next_cursor=following)

    return Server("listing", on_list_tools=list_tools)


async def call_async(server: MCPServer, name: str, **arguments: Any) -> Any:
    """Return what the async form of a tool returns."""
    async with server:
        function = tools_of(server)[name].async_function
        assert function is not None
        return await function(**arguments)


@pytest.mark.parametrize("mode", ERAS)
def test_tools_are_called_in_both_eras(mode: str) -> None:
    with MCPServer(make_server(print), "demo", mode=mode) as server:
        tools = tools_of(server)
        assert [*tools] == ["demo_add", "demo_wait", "demo_talk", "demo_fail", "demo_look_at"]
        assert server.destructive_tools() == ["demo_talk", "demo_fail", "demo_look_at"]
        assert [name for name, one in tools.items() if one.repeatable] == ["demo_add"]
        # Without tools that change something, a call has the same result again.
        with MCPServer(make_server(print), only=["add"], mode=mode) as reading:
            assert not tools_of(reading)["add"].repeatable
        assert tools["demo_add"](number=2) == "3"
        text, image = tools["demo_look_at"](number=1)
        assert (text, image) == ("2", Image(f"data:image/png;base64,{PIXEL}"))
        with pytest.raises(ReportedError):
            tools["demo_fail"]()
        for result in (calling(server, "demo_fail").run(""), asyncio.run(calling(server, "demo_fail").arun(""))):
            # The server's own text, and nothing around it.
            assert result.steps[0].observation == "2"
            assert result.steps[0].status == "error"
    assert asyncio.run(call_async(server, "demo_add", number=3)) == "4"


def test_the_model_sees_a_result_once() -> None:
    text, blob = types.TextContent, types.BlobResourceContents(uri="a://b", blob="AAAA")
    broken = types.ImageContent(data="AAAA", mime_type="image/png")
    image = types.ImageContent(data=PIXEL, mime_type="image/png")
    link = types.ResourceLink(uri="file:///a", name="a")
    shown = Image(f"data:image/png;base64,{PIXEL}")
    rows: list[tuple[list[types.ContentBlock], Any, object]] = [
        ([], None, ""),
        ([text(text="a"), text(text="b")], None, "a\nb"),
        ([text(text="{}"), text(text="b")], {"a": [1]}, {"a": [1]}),
        ([text(text="7")], {"result": 7}, 7),
        ([text(text="7")], {"result": 7, "more": 1}, {"result": 7, "more": 1}),
        ([text(text="[7]"), image], [7], [[7], shown]),
        ([image], None, shown),
        ([broken], None, "[image: image/png, 3 bytes]"),
        (
            [types.AudioContent(data="AAAA", mime_type="audio/wav"), link],
            None,
            "[audio: audio/wav, 3 bytes]\n[resource file:///a: a]",
        ),
        ([types.EmbeddedResource(resource=types.TextResourceContents(uri="a://b", text="c"))], None, "c"),
        ([types.EmbeddedResource(resource=blob)], None, "[resource a://b: bytes, 3 bytes]"),
    ]
    for content, structured, observation in rows:
        assert read_result(types.CallToolResult(content=content, structured_content=structured)) == observation


def test_what_is_wrong_is_one_sentence_with_the_name() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "nothing"}}}
    many = [[f"tool{number}" for number in range(page, page + 250)] for page in range(0, 10_000, 250)]
    rows: list[tuple[Any, dict[str, Any], type[GraphexecError], str]] = [
        (5, {}, InputError, "MCPServer was given 5; give a command line"),
        ("say 'hi", {}, InputError, "say 'hi"),
        ([], {}, InputError, "MCPServer was given []"),
        ("python server.py", {"headers": {"a": "b"}}, InputError, "headers are for"),
        (Server("a"), {"only": "add"}, InputError, "only is 'add'; give a list of names of tools"),
        (Server("a"), {"timeout": 0}, InputError, "MCPServer has timeout=0; give seconds above 0"),
        (listing(["a b", "a.b"]), {}, ToolDefinitionError, "listing> has two tools named a_b; choose one with only="),
        (listing(["a"], schema=wrong), {}, ToolDefinitionError, "listing>: a has an invalid JSON schema"),
        (listing(*many), {}, MCPServerError, "listing: it lists more than 500 tools; choose some with only="),
        (listing(["a"]), {"only": ["a", "b"]}, MCPServerError, "listing: it lists no tool b; correct only="),
        (Server("silent"), {}, MCPServerError, "silent: Method not found"),
    ]
    for target, options, error, text in rows:
        with pytest.raises(error) as raised:
            MCPServer(target, **options).tools()
        assert text in str(raised.value)
        assert "\n" not in str(raised.value)
    with MCPServer(listing(*many), only=["tool9999", "tool1"]) as server:
        assert [*tools_of(server)] == ["tool1", "tool9999"]
    with MCPServer(listing(["a", "a"], ["a", "b"], is_circle=True)) as circle:
        assert [*tools_of(circle)] == ["a", "b"]
    with pytest.raises(MCPServerError, match="listing: it is closed"):
        server.tools()[0]()


@pytest.mark.parametrize("mode", ERAS)
def test_a_server_in_this_process_sees_the_context_of_the_caller(mode: str) -> None:
    """So spans nest; a call has not the context in which the connection was opened."""
    variable, seen = ContextVar("variable", default="none"), list[str]()
    server = MCPServer(make_server(lambda _: seen.append(variable.get())), mode=mode)
    for value in ("first", "second"):
        copied = copy_context()
        copied.run(variable.set, value)
        copied.run(lambda: tools_of(server)["wait"](number=0))
    server.close()
    assert seen == ["first", "first", "second", "second"]


@pytest.mark.parametrize("mode", ERAS)
def test_progress_reaches_the_stream_of_the_caller(mode: str) -> None:
    expected = [Progress("talk", step + 1, 3, f"step {step}") for step in range(3)]
    assert str(expected[0]) == "talk: 1 of 3 step 0"
    with MCPServer(make_server(print), mode=mode) as server:
        arguments = '{"number": 3}'

        async def collect() -> list[object]:
            stream = calling(server, "talk", arguments).astream("")
            return [one.news async for one in stream if isinstance(one, Reported)]

        stream = calling(server, "talk", arguments).stream("")
        assert [one.news for one in stream if isinstance(one, Reported)] == expected
        assert asyncio.run(collect()) == expected
