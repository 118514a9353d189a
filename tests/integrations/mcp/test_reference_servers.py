"""The reference servers of MCP: one tool of each is called over stdio, and of one over HTTP, too."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp import StdioServerParameters

from graphexec import Reported
from graphexec.integrations.mcp import MCPServer, MCPServerError, Progress
from graphexec.messages import Image
from tests.integrations.mcp.programs import HERE, find_node, find_port, serving
from tests.integrations.mcp.test_tools import calling, tools_of

pytestmark = pytest.mark.medium

PACKAGES = HERE / "node_modules" / "@modelcontextprotocol"


def command_of(name: str, *arguments: str) -> list[str]:
    """Return the command that starts a reference server; skip the test if it is not installed."""
    if importlib.util.find_spec(f"mcp_server_{name}") is not None:
        return [sys.executable, "-m", f"mcp_server_{name}", *arguments]
    program = PACKAGES / f"server-{name}" / "dist" / "index.js"
    if not program.exists():
        pytest.skip(f"mcp_server_{name} is missing: pip install -e '.[dev]', and npm ci in {HERE}")
    return [find_node(), str(program), *arguments]


def test_one_tool_of_each_reference_server_answers(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("a note", encoding="utf-8")
    port = find_port()
    here, thought = str(tmp_path), {"thought": "a", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": False}
    entity = {"name": "Ada", "entityType": "person", "observations": ["wrote a note"]}
    rows: list[tuple[str, list[str], str, dict[str, Any], str]] = [
        ("time", [], "get_current_time", {"timezone": "Europe/Oslo"}, "Europe/Oslo"),
        ("git", [], "git_status", {"repo_path": here}, "note.txt"),
        (
            "fetch",
            ["--allow-private-ips", "--ignore-robots-txt"],
            "fetch",
            {"url": f"http://127.0.0.1:{port}/note.txt"},
            "a note",
        ),
        ("everything", [], "get-sum", {"a": 2, "b": 3}, "5"),
        ("filesystem", [here], "read_text_file", {"path": f"{here}/note.txt"}, "a note"),
        ("memory", [], "create_entities", {"entities": [entity]}, "wrote a note"),
        ("sequential-thinking", [], "sequentialthinking", thought, "thoughtNumber"),
    ]
    subprocess.run(["git", "init", "--quiet", here], check=True)
    environment = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    with serving(sys.executable, "-m", "http.server", str(port), "--directory", here, port=port):
        for name, arguments, tool, given, text in rows:
            command, *words = command_of(name, *arguments)
            with MCPServer(StdioServerParameters(command=command, args=words, env=environment), name) as server:
                assert text in str(tools_of(server)[f"{name}_{tool}"](**given))


def test_everything_answers_over_http() -> None:
    """Also after a restart, when it has forgotten its session."""
    command, port = command_of("everything", "streamableHttp"), find_port()
    server = MCPServer(f"http://127.0.0.1:{port}/mcp", timeout=30)
    with serving(*command, port=port, env={**os.environ, "PORT": str(port)}):
        tools = tools_of(server)
        assert tools["get-sum"](a=2, b=3) == "The sum of 2 and 3 is 5."
        assert isinstance(tools["get-tiny-image"]()[1], Image)
        arguments = '{"duration": 0.3, "steps": 3}'
        events = [*calling(server, "trigger-long-running-operation", arguments).stream("")]
        news = [one.news for one in events if isinstance(one, Reported)]
        assert news == [Progress("trigger-long-running-operation", step, 3) for step in (1, 2, 3)]
    with pytest.raises(MCPServerError, match=r"which may have taken place: .*ConnectError"):
        tools["get-sum"](a=2, b=3)
    with pytest.raises(MCPServerError, match="All connection attempts failed"):
        tools["get-sum"](a=2, b=3)
    with serving(*command, port=port, env={**os.environ, "PORT": str(port)}):
        assert tools["get-sum"](a=2, b=3) == "The sum of 2 and 3 is 5."
    with serving(*command, port=port, env={**os.environ, "PORT": str(port)}):
        with pytest.raises(MCPServerError, match="it did not take the call of get-sum: it answered 400"):
            tools["get-sum"](a=2, b=3)
        assert tools["get-sum"](a=2, b=3) == "The sum of 2 and 3 is 5."
        server.close()
