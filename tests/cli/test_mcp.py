"""`--mcp` of `run` and `chat`: servers of commands and files, names, questions, approvals, and their end."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp import StdioServerParameters

from graphexec import create_agent
from graphexec.cli.runs.servers import Servers, open_servers
from graphexec.errors import InputError
from graphexec.integrations.mcp import MCPServer, configuration, elicit, load_servers
from graphexec.models import ScriptedModel
from graphexec.tools import tool
from tests.cli.terminals import Program, command, refused
from tests.cli.test_chat_terminal import PROMPT, TerminalSession
from tests.integrations.mcp import asking_server

SERVER = shlex.join([sys.executable, asking_server.__file__])
AGENT = """
from graphexec import create_agent
from graphexec.messages import ToolCall
from graphexec.models import ScriptedModel
def made(tool, what):
    calls = [ToolCall("1", tool, '{"what": "' + what + '"}'), "done"]
    return create_agent(ScriptedModel(calls * 2), kind="tool_calling")
asks, orders, destroys = made("ask", "nothing"), made("ask", "order"), made("destroy", "it")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(AGENT, encoding="utf-8")
    return tmp_path


def write(content: object) -> Path:
    """Write a file of servers."""
    file = Path("mcp.json")
    file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return file


def test_servers_of_other_clients_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", 'se"cret')
    monkeypatch.delenv("NOWHERE", raising=False)
    made: list[tuple[Any, Any]] = []

    def make(target: Any, headers: Any = None) -> MCPServer:
        made.append((target, headers))
        return MCPServer(target, headers=headers)

    monkeypatch.setattr(configuration, "MCPServer", make)
    program = {"command": "${NOWHERE:-prog}", "args": ["-c", "${workspaceFolder}"], "env": {"KEY": "${env:TOKEN}"}}
    address = {"type": "http", "url": "HTTPS://example.org/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
    gone = {"command": "x", "disabled": True}
    for key in ("mcpServers", "servers"):
        found = load_servers(write({key: {"a": program, "b": address, "c": gone}}))
        assert list(map(repr, found.values())) == ["<MCPServer a>", "<MCPServer b>"]
        expanded = StdioServerParameters(command="prog", args=["-c", str(Path.cwd())], env={"KEY": 'se"cret'})
        assert made[-2:] == [(expanded, None), ("HTTPS://example.org/mcp", {"Authorization": 'Bearer se"cret'})]
    commented = '{"servers": {/* one, */ "a": {"command": "a//b", "args": ["c,]",], // two\n},},}'
    assert [*load_servers(write(commented))] == ["a"]
    assert made[-1][0] == StdioServerParameters(command="a//b", args=["c,]"])


def test_what_a_file_lacks_is_one_sentence() -> None:
    rows: list[tuple[Any, list[str]]] = [
        ("{", ["mcp.json is not JSON"]),
        ("[" * 100_000, ["mcp.json is not JSON"]),
        ("[]", ["mcp.json has no servers", "mcpServers"]),
        ({"mcpServers": {"sh\x1b\nop": {}}}, ["mcp.json: shop", "command"]),
        ({"mcpServers": []}, ["mcp.json has no servers"]),
        *(
            ({"mcpServers": {"shop": given}}, ["mcp.json: shop", fact])
            for given, fact in (
                (3, "entry"),
                ({}, "command"),
                ({"command": 3}, "command"),
                ({"command": "a", "args": "b"}, "args"),
                ({"url": "ftp://a", "headers": {"Authorization": "secret"}}, "url"),
                ({"command": "a", "env": {"KEY": ["secret"]}}, "env.KEY"),
                ({"url": "https://a", "headers": "secret"}, "headers"),
                ({"type": "sse", "url": "https://a"}, "streamable HTTP"),
                ({"command": "a", "envFile": ".env"}, "as env"),
                ({"command": "${input:key}"}, "${env:NAME}"),
                ({"command": "${NOT_SET_ANYWHERE}"}, "set the variable NOT_SET_ANYWHERE"),
            )
        ),
    ]
    for content, facts in rows:
        with pytest.raises(InputError) as caught:
            load_servers(write(content))
        assert all(fact in str(caught.value) for fact in facts), str(caught.value)
        assert "\n" not in str(caught.value)
        assert "secret" not in str(caught.value)
    assert "mcp.json" in refused("run", "--mcp", str(write("{")), "hello")
    assert "no such file" in refused("run", "--mcp", "missing.json", "hello").casefold()


def test_names_that_two_have_get_the_name_of_the_server() -> None:
    """The name of a command is that of its package or file, of an address its host."""
    references = [
        "npx -y @some/server-time",
        "python -m server_git -x",
        "./bin/run",
        "https://user@a.org:80/mcp",
        "a",
        "a",
    ]
    with open_servers(references) as servers:
        assert [*servers.by_name] == ["server_time", "server_git", "run", "a_org", "a", "a_5"]
        assert not servers.pieces(None) if servers.elicit else True  # type: ignore[arg-type]
    shops = {name: MCPServer(asking_server.make_server()) for name in ("shop", "bank")}
    # An executor that answers its own servers answers no others.
    piece = elicit(shops["shop"])
    mine = create_agent(ScriptedModel([]), [], kind="tool_calling")
    asking = mine.plug(elicit(shops["bank"], answer=lambda _: "yes"))
    with shops["shop"], shops["bank"]:
        assert [len(Servers(shops, piece).pieces(one)) for one in (mine, asking)] == [1, 0]
        shops["bank"].set_prefix("my")
        assert [one.name for one in Servers(shops).tools()] == ["ask", "destroy", "my_ask", "my_destroy"]
        shops["bank"].set_prefix("")
        own = tool(name="other")(write)
        names = [one.name for one in Servers(shops).tools([own])]
        assert names == ["shop_ask", "shop_destroy", "bank_ask", "bank_destroy"]


@pytest.mark.medium
def test_tools_of_servers_are_added_to_an_executor(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    file = str(write({"mcpServers": {"shop": {"command": sys.executable, "args": [asking_server.__file__, "pid"]}}}))
    ended = command("run", "--mcp", file, "mine.py:asks", "hello", "--json")
    assert ended.code == 0, ended.err
    assert '{\\"to\\": \\"\\", \\"known\\": []}' in ended.out
    # Its program has ended.
    with pytest.raises(ProcessLookupError):
        os.kill(int((here / "pid").read_text(encoding="utf-8")), 0)
    # Nobody can be asked: the server is not told that somebody could, and what may destroy something is not called.
    rows = [
        (["mine.py:orders"], "asks for input", "known"),
        (["mine.py:destroys"], "Nobody is there to approve destroy", "known"),
        (["mine.py:destroys", "--yes"], "known", "approve"),
    ]
    for arguments, fact, other in rows:
        ended = command("run", "--mcp", SERVER, *arguments, "hello")
        assert (ended.code, fact.casefold() in ended.err.casefold(), other in ended.err) == (0, True, False), ended.err
    ended = command("run", "--mcp", f"{sys.executable} -m nothing_such", "mine.py:asks", "hello")
    assert (ended.code, ended.err.count("\n")) == (1, 1)
    assert "nothing_such" in ended.err
    monkeypatch.setitem(sys.modules, "mcp", None)
    for name in [one for one in sys.modules if one.startswith(("mcp.", "graphexec.integrations.mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    assert "graphexec-agents[mcp]" in refused("run", "--mcp", "python", "mine.py:asks", "hello")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_a_person_at_the_terminal_answers_and_approves() -> None:
    session = TerminalSession("chat", "--mcp", SERVER, "mine.py:orders")
    try:
        session.until(PROMPT)
        session.type("Order.\r")
        for _ in range(2):
            session.until("[31mpizza?")
            question = session.until(PROMPT)
            session.type("large\r" if "one of" in question else "3\r")
        session.until('"count": 3')
        session.until(PROMPT)
        session.type("Order.\r")
        session.until("[31mpizza?")
        session.until(PROMPT)
        session.type("\x04")
        # Of a form that is refused, the other field is not asked.
        session.until('"decline"')
        session.until(PROMPT)
        session.leave("\x04")
    finally:
        session.close()
    session = TerminalSession("run", "--mcp", SERVER, "mine.py:destroys", "hello")
    try:
        session.until('destroy(what="it")')
        session.until(PROMPT)
        session.type("ask first\r")
        session.until("a person rejected this call. ask first")
        assert session.end() == 0
    finally:
        session.close()


@pytest.mark.medium
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for one process")
def test_interrupted_run_ends_its_servers(here: Path) -> None:
    code = (
        AGENT + "from graphexec import tool\nimport time\n@tool\ndef wait() -> str:\n    'Wait.'\n    time.sleep(60)\n"
    )
    code += "waits = create_agent(ScriptedModel([ToolCall('1', 'wait', '{}')]), [wait], kind='tool_calling')\n"
    (here / "mine.py").write_text(code, encoding="utf-8")
    with Program("run", "--mcp", f"{SERVER} pid", "mine.py:waits", "hello", cwd=here) as running:
        running.until("Acted")
        assert running.interrupt().code == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((here / "pid").read_text(encoding="utf-8")), 0)
