"""The configuration files in which MCP clients keep their servers."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any

from mcp import StdioServerParameters
from pydantic import BaseModel, Field, ValidationError

from graphexec.errors import InputError
from graphexec.integrations.mcp.servers import MCPServer

# Strings, and what JSON does not have and some clients read: comments, and commas at the end.
_TOKENS = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[\]}])', re.DOTALL)
# ${NAME}, ${NAME:-default} and ${env:NAME}.
_VARIABLE = re.compile(r"\$\{(?:(\w+):)?(\w[\w-]*)(?::-([^}]*))?\}")


class _Entry(BaseModel):
    """A server; other members are ignored."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] | None = None
    env_file: str | None = Field(default=None, alias="envFile")
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    type: str = ""
    disabled: bool = False


def load_servers(file: str | Path) -> dict[str, MCPServer]:
    """Return the servers in a file of another client, by name; none is connected yet.

    It is the `.mcp.json`, `mcp.json` or `claude_desktop_config.json` of Claude and Cursor, with `mcpServers`, or the
    `mcp.json` of VS Code, with `servers`. A server has a `command` with `args`, `env` and `cwd`, or a `url` with
    `headers`. In these, `${NAME}`, `${NAME:-default}` and `${env:NAME}` are variables of the environment,
    `${workspaceFolder}` is the current folder, and `${userHome}` the user's. A server that is `disabled` is left out.

    Raises `InputError` for a file that cannot be read, and for what a server lacks.
    """
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
        # Twice, for a comma before a comment.
        for _ in range(2):
            text = _TOKENS.sub(lambda found: found[0] if found[0].startswith('"') else "", text)
        content: Any = json.loads(text)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}; name a file such as mcp.json") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not JSON ({error}); correct it there") from None
    match content:
        case {"mcpServers": {**servers}} | {"servers": {**servers}}:
            # A name is shown in terminals.
            named = {"".join(one for one in str(name) if one.isprintable()): entry for name, entry in servers.items()}
            made = {name: _make_server(f"{file}: {name}", one) for name, one in named.items()}
            known = {name: one for name, one in made.items() if one is not None}
            for name, one in known.items():
                one.session.name = name
            return known
        case _:
            example = '{"mcpServers": {"name": {"command": "...", "args": []}}}'
            raise InputError(f"{file} has no servers; write {example}")


# Any: JSON data.
def _make_server(place: str, given: Any) -> MCPServer | None:
    try:
        entry = _Entry.model_validate(given)
    except ValidationError as error:
        # Without the values, which may be secret.
        found = error.errors(include_input=False)[0]
        name = ".".join(map(str, found["loc"])) or "entry"
        raise InputError(f"{place} has an invalid {name}: {found['msg']}; correct it there") from None
    if entry.disabled:
        return None
    written = entry.model_dump_json(by_alias=True)
    entry = _Entry.model_validate_json(_VARIABLE.sub(partial(_read_variable, place), written))
    if entry.type in ("sse", "ws"):
        raise InputError(f"{place} has the type {entry.type}; give the address of its streamable HTTP, type http")
    if entry.env_file is not None:
        raise InputError(f"{place} has an envFile, which is not read here; write its variables as env")
    if entry.command is not None:
        parameters = StdioServerParameters(command=entry.command, args=entry.args, env=entry.env, cwd=entry.cwd)
        return MCPServer(parameters)
    if entry.url is None or not entry.url.casefold().startswith("http"):
        raise InputError(f"{place} has no command, and no url that begins with http; give it one of them")
    return MCPServer(entry.url, headers=entry.headers)


def _read_variable(place: str, found: re.Match[str]) -> str:
    """Return the value of a variable within a string of JSON, as its default is."""
    folders = {"workspaceFolder": Path.cwd, "userHome": Path.home}
    kind, name = found[1], found[2]
    if kind not in (None, "env"):
        raise InputError(f"{place} has {found[0]}, which is not known here; name a variable, such as ${{env:NAME}}")
    value = str(folders[name]()) if name in folders else os.environ.get(name)
    if value is not None:
        return json.dumps(value)[1:-1]
    default: str | None = found[3]
    if default is None:
        raise InputError(f"{place} has {found[0]}, which is not set; set the variable {name}")
    return default
