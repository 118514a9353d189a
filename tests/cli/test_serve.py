"""`graphexec serve`: over stdio and HTTP, killed in the middle, interrupted, and refused."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

import httpx
import pytest

from graphexec.integrations import mcp as own
from tests.cli.terminals import PATIENCE, Program, environment, refused
from tests.parameters import cases

if find_spec("mcp") is None:
    pytest.skip("needs the extra mcp", allow_module_level=True)

import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.integrations.mcp.people import APPROVE, ERAS, Person, call_mail, text_of

MACHINE = '''
import os
import sys
from pathlib import Path

from graphexec import AgentAction, AgentExecutor, AgentFinish, tool
from graphexec.nodes import approve_tools

print("imported")
sys.__stdout__.write("buffered\\n")
os.system("echo by a program")


@tool
def send(text: str) -> str:
    """Send."""
    print("sending")
    with Path("sent.txt").open("a") as file:
        file.write(f"{text}\\n")
    return f"sent {text}"


def agent(steps, inputs):
    return AgentFinish({"output": steps[0].observation}) if steps else AgentAction("send", {"text": inputs["input"]})


executor = AgentExecutor(agent=agent, tools=[send], nodes=[approve_tools({"send": ["approve", "reject"]})])
'''

# As it is imported in this process.
QUIET = MACHINE.replace("print", "str").replace("os.system", "str")

TOKEN = "a token of the user's own"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mail.py").write_text(MACHINE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def sent(folder: Path) -> list[str]:
    return (folder / "sent.txt").read_text(encoding="utf-8").split()


@pytest.mark.medium
@cases("era", *ERAS)
def test_stdout_has_nothing_but_the_protocol(folder: Path, era: str) -> None:
    arguments = ["-m", "graphexec", "serve", "mail.py:executor"]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment(), cwd=folder)

    async def main(err: TextIO) -> None:
        async with Client(stdio_client(server, errlog=err), mode=era, elicitation_callback=Person(APPROVE)) as client:
            (one,) = (await client.list_tools()).tools
            assert (one.name, one.description) == ("mail", "Ask an agent. Its tools: send.")
            assert text_of(await client.call_tool("mail", {"input": "a"})) == "sent a"

    with (folder / "err.txt").open("w+", encoding="utf-8") as err:
        asyncio.run(main(err))
        err.seek(0)
        assert sorted(err.read().splitlines()) == ["buffered", "by a program", "imported", "sending"]
    assert (folder / "state" / "graphexec" / "serve.key").stat().st_mode & 0o777 == 0o600


def serve_http(*arguments: str) -> tuple[Program, str]:
    """Start a server with the token of this module; return it with its address."""
    program = Program("serve", "mail.py:executor", "--http", *arguments, more={"GRAPHEXEC_SERVE_TOKEN": f"{TOKEN}\n"})
    return program, program.until("serving mail at ").split(" at ")[1].partition(";")[0]


@asynccontextmanager
async def client_of(address: str, **options: Any) -> AsyncGenerator[Client]:
    person = Person(APPROVE)
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}, trust_env=False, timeout=PATIENCE) as http,
        Client(streamable_http_client(address, http_client=http), elicitation_callback=person, **options) as client,
    ):
        yield client


@pytest.mark.medium
def test_client_goes_on_once_after_its_server_was_killed(folder: Path) -> None:
    first, address = serve_http("0")

    async def main() -> None:
        async with client_of(address) as client:
            _, state = await call_mail(client)
            first.process.kill()
            first.process.wait(PATIENCE)
            second, _ = serve_http(address.rpartition(":")[2].removesuffix("/mcp"))
            with second:
                assert await call_mail(client, state) == ("sent a", "")
                assert "used before" in (await call_mail(client, state))[0]
                async with client_of(address, mode="legacy") as earlier:
                    assert text_of(await earlier.call_tool("mail", {"input": "b"})) == "sent b"
                ended = second.interrupt()
        assert (ended.code, ended.out, sent(folder)) == (0, "", ["a", "b"])

    with first:
        asyncio.run(main())


def local_host() -> str:
    """Return this computer's address of IPv6, if it has one."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return "127.0.0.1"
    return "::1"


@pytest.mark.medium
def test_http_needs_the_token_and_this_host(folder: Path) -> None:
    with Program("serve", "mail.py:executor", "--http", "0", "--host", local_host()) as program:
        address = program.until("serving mail at ").split(" at ")[1].partition(";")[0]
        token = program.until("Authorization: Bearer ").split()[-1]
        known = {"Authorization": f"Bearer {token}"}
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer no"}, 401),
            ({"Authorization": token}, 401),
            ({**known, "Host": "example.org"}, 421),
            ({**known, "Origin": "http://example.org"}, 403),
            (known, 400),
        ):
            sent_as = {**headers, "Content-Type": "application/json"}
            found = httpx.post(address, headers=sent_as, content=b"{]", trust_env=False, timeout=PATIENCE)
            assert found.status_code == status, headers
        program.process.terminate()
        ended = program.end()
    assert (ended.code, len(token)) == (143, 43)
    assert ended.err.endswith("graphexec: terminated by SIGTERM\n")


HELLO = (
    '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", '
    '"capabilities": {}, "clientInfo": {"name": "me", "version": "1"}}}\n'
)


@pytest.mark.medium
@cases(("number", "code"), (signal.SIGINT, 0), (signal.SIGTERM, 143), (None, 0))
def test_garbage_is_ignored_and_stdio_ends_at_once(folder: Path, number: signal.Signals | None, code: int) -> None:
    with Program("serve", f"{folder / 'mail.py'}:executor") as program:
        assert program.process.stdin is not None
        program.process.stdin.write("garbage\n{}\n[1\n" + "x" * 1_000_000 + "\n" + HELLO)
        program.process.stdin.flush()
        assert '"protocolVersion":"2025-11-25"' in program.read_line()
        if number is None:
            program.process.stdin.close()
        else:
            program.process.send_signal(number)
        ended = program.end()
    assert (ended.code, ended.out) == (code, "")


@cases(
    ("arguments", "expected"),
    (["none.py:executor"], "there is no file none.py"),
    (["mail.py:send"], "mail.py:send is "),
    (["mail.py:executor", "--host", "0.0.0.0"], "--host needs --http; add --http 8000"),
    (["mail.py:executor", "--ttl", "0"], "serve has ttl=0.0; give seconds above 0"),
    (["mail.py:executor", "--name", " "], "give a name"),
    (["mail.py:executor", "--key-file", "mail.py"], "mail.py can be read by other users; chmod 600 mail.py"),
    (["mail.py:executor", "--key-file", "no/key"], "no/key cannot be used"),
    (["mail.py:executor", "--http", "PORT"], "port PORT of 127.0.0.1 cannot be opened"),
)
def test_wrong_usage_is_one_line_and_exits_2(folder: Path, arguments: list[str], expected: str) -> None:
    (folder / "mail.py").write_text(QUIET, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error = refused("serve", *(one.replace("PORT", port) for one in arguments))
    assert expected.replace("PORT", port) in error


def test_closed_stdin_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "mail.py").write_text(QUIET, encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", None)
    assert "stdin and stdout, and one of them is closed; open both" in refused("serve", "mail.py:executor")


def test_missing_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "graphexec.integrations.mcp.serving", raising=False)
    monkeypatch.delitem(vars(own), "serve", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    expected = "graphexec serve needs mcp, which is not installed; pip install 'graphexec-agents[mcp]'"
    assert expected in refused("serve", "mail.py:executor")
