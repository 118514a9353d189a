"""One trace over tools of MCP servers: the SDK passes the context on, and makes spans of its own."""

from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("graphexec.integrations.mcp.servers")

from mcp.shared import _otel

from graphexec.integrations.mcp import MCPServer
from tests.executor.actors import call, run_by
from tests.integrations.mcp.noting_server import make_server
from tests.integrations.test_otel import Telemetry, calling
from tests.parameters import cases


@pytest.mark.medium
@cases("way", "run", "arun")
def test_spans_of_the_server_are_within_the_tool_call(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    telemetry = Telemetry()
    monkeypatch.setattr(_otel, "_tracer", telemetry.tracers.get_tracer("mcp"))
    remove = telemetry.instrument()
    # Any: what the SDK's client takes.
    server: Any = make_server(lambda _: None)
    with MCPServer(server, mode="legacy") as connected:
        run_by(way, calling(call("add", number=1), "done", tools=connected.tools()))
    remove()
    spans = {one.context.span_id: one for one in telemetry.take() if one.context is not None}
    (served,) = [one for one in spans.values() if one.kind.name == "SERVER" and "add" in one.name]
    path = [served]
    while (parent := path[-1].parent) is not None:
        path.append(spans[parent.span_id])
    assert [one.kind.name for one in path] == ["SERVER", "CLIENT", "INTERNAL", "INTERNAL"]
    assert [one.name for one in path[2:]] == ["execute_tool add", "invoke_agent"]
