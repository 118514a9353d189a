"""An MCP server whose tools are executors: each call is a run, and a question to a person is a form of the client."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
import logging
import os
import secrets
import sqlite3
import stat
import time
import weakref
from collections.abc import Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.tool_name_validation import validate_tool_name
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from graphexec import __version__
from graphexec._arguments import NAME, PATH, TIMEOUT, Constraint, is_executor, optional, validate
from graphexec.actions import StoppedResponse
from graphexec.effects import AskHuman
from graphexec.errors import GraphexecError, InputError, MissingHandlerError, format_value
from graphexec.executor.executor import AgentExecutor
from graphexec.executor.result import RunResult
from graphexec.kernel.effects import All
from graphexec.kernel.events import Done, Entered, Reported
from graphexec.kernel.serialization import parse_json
from graphexec.kernel.snapshot import Snapshot, snapshot_of
from graphexec.kernel.stepping import PendingEffect, advance
from graphexec.messages.observations import dump_observation, split_observation
from graphexec.nodes.approvals import MOST_REVIEWS, Review, ReviewCall, ReviewDecision
from graphexec.runtime.files import create_private, open_regular
from graphexec.tools import AnyTool
from graphexec.tools.options import MAX_TOOL_INPUT
from graphexec.tools.tool import InvalidArgumentsError

# Effects that a person answers.
_Question: TypeAlias = AskHuman | ReviewCall

# Any: the state of the server's connections, of which there is none.
_Context: TypeAlias = ServerRequestContext[Any, Any]

_OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {
        "output": {"description": "The answer, or the text of a run that was stopped."},
        "reason": {"type": "string", "description": "finished, return_direct, refused, or the limit that stopped it."},
        "run_id": {"type": "string"},
        "spent": {"type": "object", "description": "What the run has spent, by the names of the limits."},
    },
    "required": ["output", "reason", "run_id", "spent"],
}

# Seconds that a used state is remembered beyond its time: the SDK reads the clock a little later.
_MARGIN = 60.0

_TABLES = """
CREATE TABLE IF NOT EXISTS seal (one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS used (state TEXT PRIMARY KEY, until REAL NOT NULL);
"""


# Any: users without a type checker pass an executor alone.
def _are_executors(value: Any) -> bool:
    several: list[Any] = [*value.values()] if isinstance(value, Mapping) else []  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
    pairs = [[*map(is_executor, one)] for one in several if isinstance(one, tuple)]  # pyright: ignore[reportUnknownArgumentType]
    return bool(several) and pairs == [[True, False]] * len(several)


_EXECUTORS = Constraint("executors by their tools' names: {'search': (executor, 'Searches the web.')}", _are_executors)


def serve(
    executors: Mapping[str, tuple[AgentExecutor[Any], str]],
    *,
    name: str = "graphexec",
    key_file: str | os.PathLike[str] | None = None,
    ttl: float = 86_400.0,
) -> Server[Any]:
    """Return an MCP server of the SDK with a tool for each executor, given with its description by the tool's name.

        server = serve({"mail": (executor, "Sends mail after a person has approved.")}, key_file="mail.key")
        app = server.streamable_http_app()

    A tool takes the executor's inputs as strings. Its result has the answer, the reason of the ending, the run's id and
    what it has spent. A run that a limit or a refusal stopped is an error of the tool, and so is one that raises. The
    client receives the name of each node as progress, and strings that are reported within it; cancelling the request
    cancels the run.

    An `AskHuman` or a `ReviewCall` without a handler becomes a form; all that wait at a time are shown at once. Clients
    of the protocol 2026-07-28 keep the run meanwhile, sealed, and bring it back with the answers within `ttl` seconds,
    once. Those of earlier ones answer during the call. What a person declines is rejected. An executor with a store
    (`runs=`) keeps its runs there instead: the client is told that the run waits, and people answer in the store.

    `key_file` keeps the key of the seals and what was brought back, so that both outlive the process. It is made
    if it is missing, and readable by its owner only; several processes may share it. Without it, they are in memory.
    Raises `InputError` for invalid arguments and an unusable file, and `ToolDefinitionError` as `as_tool` does.
    """
    options = ("name", name, NAME), ("key_file", key_file, optional(PATH, "a key in memory")), ("ttl", ttl, TIMEOUT)
    validate("serve", ("executors", executors, _EXECUTORS), *options)
    seals = _Seals(None if key_file is None else Path(key_file), ttl)
    tools = _Tools({tool: _make_served(tool, one, text) for tool, (one, text) in executors.items()}, seals)
    server: Server[Any] = Server(name, version=__version__, on_list_tools=tools.list, on_call_tool=tools.call)
    server.middleware.append(RequestStateBoundary(seals.security, default_audience=name))
    return server


@dataclass(frozen=True, slots=True)
class _Served:
    """An executor, its tool, and a mark of its tools and its nodes, which a stored run depends on."""

    executor: AgentExecutor[Any]
    tool: AnyTool
    listed: types.Tool
    mark: str


def _make_served(name: str, executor: AgentExecutor[Any], description: str) -> _Served:
    tool = dataclasses.replace(executor.as_tool(name, description), max_tool_input=MAX_TOOL_INPUT)
    if not (found := validate_tool_name(name)).is_valid:
        raise InputError(f"the tool's name is {format_value(name)}; give another: {'; '.join(found.warnings)}")
    if executor.run_context.context_types(executor.graph):
        raise InputError(f"{name} takes a context, which requests do not have; serve an executor without one")
    parameters = dict(tool.parameters)
    listed = types.Tool(name=name, description=description, input_schema=parameters, output_schema=_OUTPUT_SCHEMA)
    parts = [*(one.signature for one in executor.tools.values()), *(one.name for one in executor.graph)]
    return _Served(executor, tool, listed, hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16])


class _Seals:
    """The key that seals runs, and the ids of the sealed runs that were used, in a database."""

    def __init__(self, file: Path | None, ttl: float) -> None:
        self._ttl, place = ttl, file or ":memory:"
        try:
            if file is not None:
                create_private(file)
                # Nothing else has its mode changed: a remedy for it would be a danger.
                open_regular(file).close()
                if os.name == "posix" and stat.S_IMODE(file.stat().st_mode) & 0o077:
                    raise InputError(f"the key file {file} can be read by other users; chmod 600 {file}")
            # Each statement is a transaction. Another thread may collect the garbage.
            self._database = sqlite3.connect(place, timeout=60, isolation_level=None, check_same_thread=False)
            weakref.finalize(self, self._database.close)
            self._database.executescript(_TABLES)
            self._database.execute("INSERT OR IGNORE INTO seal VALUES (1, ?)", [secrets.token_bytes(32)])
            keys = [key for (key,) in self._database.execute("SELECT key FROM seal")]
            self.security = RequestStateSecurity(keys=keys, ttl=ttl)
        # The SDK checks the key.
        except (OSError, sqlite3.Error, ValueError) as error:
            raise InputError(f"the key file {file} cannot be used: {error}; name another file, or a new one") from error

    def write(self, served: _Served, snapshot: Snapshot) -> str:
        """Return a run as the state that the SDK seals, under a new id."""
        return f"{secrets.token_hex(16)} {time.time() + self._ttl} {served.mark} {snapshot.to_json()}"

    def read(self, served: _Served, state: str) -> Snapshot:
        """Return the run of a state, which is used from now on: a crash loses the run, and calls no tool twice.

        Raises `InputError` for a used state, and for one of another executor.
        """
        one, until, mark, text = state.split(" ", 3)
        if mark != served.mark:
            raise InputError("its executor has changed since it asked; call it again from the beginning")
        snapshot = Snapshot.from_json(text, served.executor.graph)
        self._database.execute("DELETE FROM used WHERE until < ?", [time.time() - _MARGIN])
        if not self._database.execute("INSERT OR IGNORE INTO used VALUES (?, ?)", [one, float(until)]).rowcount:
            raise InputError("this state was used before, and its calls may have been made; look, and call it anew")
        return snapshot


@dataclass(frozen=True, slots=True)
class _Tools:
    """The handlers of the server's requests."""

    served: Mapping[str, _Served]
    seals: _Seals

    async def list(self, _: _Context, __: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[one.listed for one in self.served.values()])

    async def call(
        self, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        name = params.name
        if name not in self.served:
            known = ", ".join(self.served)
            raise MCPError(types.INVALID_PARAMS, f"there is no tool {format_value(name)}; call {known}")
        try:
            return await self._run(self.served[name], context, params)
        # What it raises is for the client's model: it would not see a protocol error.
        except InvalidArgumentsError as error:
            text = str(error)
        except GraphexecError as error:
            text = f"{name} failed: {error}"
        # A tool that exits, as the main function of a program does, ends its run and not the server.
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            logging.getLogger("graphexec").warning("%s failed", name, exc_info=error)
            text = f"{name} failed: {type(error).__name__}: {error}"
        return types.CallToolResult(content=[types.TextContent(text=_to_json(text))], is_error=True)

    async def _run(
        self, served: _Served, context: _Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        executor, steps = served.executor, count(1)
        responses: Mapping[str, object] | None = None
        if params.request_state is None:
            reached = await _follow(executor, served.tool.read(params.arguments or {}), context, steps)
        else:
            reached = _advance(executor, self.seals.read(served, params.request_state))
            responses = params.input_responses or {}
        problems: dict[int, str] = {}
        invalid = 0
        while isinstance(reached, PendingEffect):
            if responses is None:
                forms = {str(one): _form(effect, problems.get(one, "")) for one, effect in _questions(reached).items()}
                if not _shows_forms(context):
                    asked = next(iter(forms.values())).message
                    raise GraphexecError(f"it asks a person, and this client shows no forms (elicitation): {asked}")
                if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
                    return types.InputRequiredResult(
                        input_requests={key: types.ElicitRequest(params=form) for key, form in forms.items()},
                        request_state=self.seals.write(served, reached.snapshot),
                    )
                responses = await _elicit(context, forms)
            snapshot, problems = _answer(executor, reached, responses)
            responses = None
            invalid = invalid + 1 if problems else 0
            if invalid == MOST_REVIEWS:
                raise GraphexecError(f"there was no valid answer: {next(iter(problems.values()))}")
            reached = _advance(executor, snapshot) if problems else await _follow(executor, snapshot, context, steps)
        return _to_result(executor.make_result(reached), reached.snapshot.run_id)


async def _follow(
    executor: AgentExecutor[Any], start: Mapping[str, Any] | Snapshot, context: _Context, steps: count[int]
) -> PendingEffect | Done[Any]:
    """Run to the end, or to a question that no handler answers, and report the progress to the client."""
    # Any: the last item of a stored run may be a `Waiting`.
    last: Any = None
    try:
        async with aclosing(executor.astream(start)) as events:
            async for event in events:
                last = event
                match event:
                    case Entered(node=message) | Reported(news=str(message)):
                        await context.session.report_progress(next(steps), message=_to_json(message))
                    case Done():
                        return event
                    case _:
                        pass
    except MissingHandlerError as error:
        snapshot = snapshot_of(error)
        pending = None if snapshot is None else _advance(executor, snapshot)
        # A question in a tool's own run, which cannot be stored, is no question of this run.
        if pending is None or not _questions(pending):
            raise
        return pending
    # It ends with a `Waiting`.
    raise last.to_error()


def _advance(executor: AgentExecutor[Any], snapshot: Snapshot) -> PendingEffect:
    reached = advance(executor.graph, snapshot, executor.limits)
    assert isinstance(reached, PendingEffect), "a run that asks a person waits"
    return reached


def _questions(pending: PendingEffect) -> dict[int, _Question]:
    """Return the questions that wait for a person, by their member."""
    return {one.member: one.effect for one in pending.calls if isinstance(one.effect, _Question)}


def _shows_forms(context: _Context) -> bool:
    capabilities = context.session.client_capabilities
    offered = None if capabilities is None else capabilities.elicitation
    # A client that names neither kind shows forms.
    return offered is not None and (offered.form is not None or offered.url is None)


async def _elicit(context: _Context, forms: Mapping[str, types.ElicitRequestFormParams]) -> dict[str, object]:
    """Return the responses to forms that the client shows during the call, all at once."""
    session, request = context.session, context.request_id
    asked = [session.elicit_form(one.message, one.requested_schema, request) for one in forms.values()]
    # A form that fails has no answer; the others stay.
    return dict(zip(forms, await asyncio.gather(*asked, return_exceptions=True), strict=True))


def _form(effect: _Question, problem: str) -> types.ElicitRequestFormParams:
    """Return the form in which a person answers; `problem` says why the last answer was invalid."""
    if isinstance(effect, AskHuman):
        lines = [problem, effect.question]
        fields: dict[str, Any] = {"answer": {"type": "string"}}
    else:
        shown = _show_arguments(effect)
        lines = [problem or effect.problem, effect.description, f"Call {effect.tool} with {shown}?"]
        fields = {"decision": {"type": "string", "enum": [*effect.allowed]}}
        if {"reject", "respond"} & {*effect.allowed}:
            fields["text"] = {"type": "string", "description": "The reason of a rejection, or the response."}
        if "edit" in effect.allowed:
            fields["arguments"] = {"type": "string", "description": "The arguments to edit, as JSON.", "default": shown}
    schema = {"type": "object", "properties": fields, "required": [next(iter(fields))]}
    message: str = _to_json("\n".join(filter(None, lines)))
    return types.ElicitRequestFormParams(message=message, requested_schema=_to_json(schema))


def _show_arguments(effect: ReviewCall) -> str:
    given = effect.arguments
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, default=str)


def _answer(
    executor: AgentExecutor[Any], pending: PendingEffect, responses: Mapping[str, object]
) -> tuple[Snapshot, dict[int, str]]:
    """Return the run after the valid answers, and the problems of the others by their member."""
    snapshot, problems = pending.snapshot, dict[int, str]()
    for member, effect in _questions(pending).items():
        try:
            reply = _read_reply(effect, responses.get(str(member)))
        # The JSON of arguments may be invalid.
        except ValueError as error:
            problems[member] = str(error)
            continue
        now = _advance(executor, snapshot)
        snapshot = now.reply_member(member, reply) if isinstance(now.effect, All) else now.reply(reply)
    return snapshot, problems


def _read_reply(effect: _Question, response: object) -> str | Review:
    """Return the answer in a form. Raises `ValueError` if it is invalid, and `GraphexecError` if it ends the run."""
    if not isinstance(response, types.ElicitResult):
        reason = f": {response}" if isinstance(response, MCPError) else "."
        raise ValueError(f"There was no answer{reason}")  # noqa: TRY004 - a client's mistake
    content = response.content or {}
    if isinstance(effect, AskHuman):
        if response.action != "accept":
            return "The person declined to answer."
        if content.get("answer") is None:
            raise ValueError("There was no answer.")
        return str(content["answer"])
    choices = " or ".join(effect.allowed)
    if response.action != "accept":
        if "reject" in effect.allowed:
            return Review("reject", "The person declined.")
        raise GraphexecError(f"a person declined, and may only {choices}; {effect.tool} was not called")
    decision: ReviewDecision | None = next((one for one in effect.allowed if one == content.get("decision")), None)
    if decision is None:
        raise ValueError(f"The decision was {format_value(content.get('decision'))}; choose {choices}.")
    written = str(content.get("arguments") or "")
    if decision == "edit":
        try:
            arguments = parse_json(written)
            # A run with NaN in it cannot be stored.
            json.dumps(arguments, allow_nan=False)
        except ValueError as error:
            raise ValueError(f"The decision was edit, and the arguments are not JSON: {error}.") from error
        if isinstance(arguments, dict):
            return Review("edit", arguments=arguments)  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError("The decision was edit; write the arguments as an object of JSON.")
    if written not in ("", _show_arguments(effect)):
        raise ValueError(f"The arguments were edited, and the decision was {decision}; choose edit, or leave them.")
    return Review(decision, str(content.get("text") or ""))


# Any: JSON data.
def _to_json(data: Any) -> Any:
    """Return data without lone surrogates, which UTF-8 lacks: one of them would end the SDK's server over stdio.

    Raises `ValueError` for an integer of more than 4,300 digits, which clients cannot read.
    """
    return json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))


def _to_result(result: RunResult[Any], run_id: str) -> types.CallToolResult:
    ending, spent = result.ending, result.spent
    answer, problem = (
        (ending.output, ending.reason) if isinstance(ending, StoppedResponse) else (ending.answer, result.no_output)
    )
    shown, images = split_observation(answer)
    output = text = _to_json(shown)
    if not images:
        with suppress(ValueError):
            output = _to_json(dump_observation(answer))
    content: list[types.ContentBlock] = [types.TextContent(text=f"{text}\n{problem}" if problem else text)]
    content += [types.ImageContent(data=one.data, mime_type=one.media_type) for one in images if one.is_data]
    meters = {"iterations": spent.iterations, "seconds": spent.seconds, **spent.meters}
    found = {"output": output, "reason": result.reason, "run_id": run_id, "spent": meters}
    return types.CallToolResult(content=content, structured_content=found, is_error=bool(problem))
