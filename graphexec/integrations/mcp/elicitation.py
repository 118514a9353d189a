"""The questions of MCP servers as effects: a piece that asks a person, and perhaps the model, and calls again."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias, final

import mcp_types as types
from pydantic import TypeAdapter, ValidationError

from graphexec._arguments import FLAG, NAME, validate
from graphexec.actions import AgentAction
from graphexec.agents.calls import CallRules
from graphexec.effects import AskHuman, Attempted, AttemptModel, CallTool, ModelFailure, ToolResult
from graphexec.errors import InputError, ToolDefinitionError, format_value
from graphexec.executor import Observed
from graphexec.executor.plugging import Piece
from graphexec.integrations.mcp.forms import ElicitationForm
from graphexec.integrations.mcp.open_calls import OPEN
from graphexec.integrations.mcp.servers import MCPServer
from graphexec.integrations.mcp.sessions import RESPONSES
from graphexec.kernel.effects import Asks, CallContext, Effect, ask_all
from graphexec.kernel.node import node
from graphexec.messages import AssistantMessage, ChatRequest, Message, SystemMessage, UserMessage, separate_reasoning
from graphexec.messages.observations import LABEL, label_of
from graphexec.runtime.calls import current_call, scope_of
from graphexec.runtime.handlers import Handler, HandlerLike
from graphexec.runtime.io import IO
from graphexec.tools.calling import make_tool_handler
from graphexec.tools.options import ReportedError

# How often a server may ask in one call, how often a person is asked for a valid answer, and how many questions,
# requests to the model, and calls there may be at once.
ROUNDS, TRIES, AT_ONCE = 3, 3, 16
# Characters of all that a server asks in one call.
_LONGEST = 100_000

# What is shown of the observation of a call that waits for input, which the piece replaces: not the server's state.
_WAITING = "the MCP server asks"
_RESPONSE = TypeAdapter[Any](types.InputResponse)

# A response as JSON data; one that is refused has the reason.
_Response: TypeAlias = Mapping[str, Any]
_REFUSED = "refused"
# Where a form or a request to the model is: the place of the call, and the server's key.
_Place: TypeAlias = tuple[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMCP(CallTool):
    """Call the tool of a server again, there named `tool`, with the responses to what it asked, and its own state."""

    server: str
    tool: str
    # JSON data.
    responses: Mapping[str, _Response] = field(default_factory=dict[str, "_Response"])
    state: str | None = None


@final
@dataclass(frozen=True, slots=True)
class _Waiting:
    """A call that waits: what it is called again with, its forms, its requests to the model, and what is refused."""

    again: AnswerMCP
    forms: Mapping[str, ElicitationForm]
    requests: Mapping[str, ChatRequest]
    refused: Mapping[str, str]

    @property
    def questions(self) -> int:
        """The number of questions and requests."""
        return len(self.requests) + sum(len(form.fields) for form in self.forms.values())

    def refuse(self, why: str) -> _Waiting:
        """Return the call with all that it asks refused."""
        return _Waiting(
            self.again, {}, {}, dict.fromkeys([*self.forms, *self.requests], why) | {**self.refused} or {"": why}
        )


def elicit(
    *servers: MCPServer, answer: HandlerLike | None = None, sampling: bool = False, name: str = "elicit"
) -> Piece:
    """Let these MCP servers ask a person during a call: each field of a form is an `AskHuman`.

        server = MCPServer("my-server")
        executor = create_agent(model, [server], nodes=[elicit(server, answer=lambda effect: input(effect.question))])

    `answer` is the handler of `AskHuman`. Without it, pass `handlers={AskHuman: function}` to the executor, or keep the
    run in a store, where it waits for `store.reply`; over another connection it goes on if the server keeps its key, as
    one with `RequestStateSecurity(keys=[...])` does. The questions of all calls of a reply are asked at once. An answer
    that does not fit the form is asked for again, twice; the answer `decline` or `cancel` refuses the form, and the
    server is told so. Then `AnswerMCP` calls the tool again, which is charged as a tool call.

    With `sampling`, a server may also ask the executor's model, without its conversation and tools: that is a model
    call of the run, and charged. Pages to visit (URL elicitation) are refused as the tool's error, and so are more than
    3 rounds of questions in a call, and more than 16 questions in a round. A server of a protocol before 2026-07-28
    asks while its call goes on: only one call at a time may do so, and it is lost with the connection.

    Make it before the server is used: a connection is opened again, to declare what is answered. Put it before pieces
    that change observations, such as `redact_pii`. It adds one transition for each decision of the agent that calls
    tools. Raises `InputError` for an invalid argument.
    """
    validate("elicit", ("sampling", sampling, FLAG), ("name", name, NAME))
    if not servers or not all(isinstance(one, MCPServer) for one in servers):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"elicit has servers={format_value(servers)}; give at least one MCPServer: elicit(server)")
    known = {one.session.name: one for one in servers}
    if len(known) < len(servers):
        raise InputError(f"elicit has two servers named {servers[0].session.name}; give one of them another target")
    for server in servers:
        server.declare_answers(partial(_wait_for_input, server), sampling=sampling)

    @node(name=name, asks=(0, ROUNDS * AT_ONCE * (TRIES + 1 + sampling) + AT_ONCE))
    def answer_servers(observed: Observed, rules: CallRules) -> Asks[AskHuman | AttemptModel | AnswerMCP, Observed]:
        """Ask what the servers want to know, and call their tools again with the answers."""
        results = [*observed.results]
        # A call that stands twice in a reply was made once.
        first = _find_first(results)
        for left in reversed(range(ROUNDS + 1)):
            calls: dict[int, _Waiting] = {}
            for place, action in enumerate(observed.actions):
                if first[place] != place or not _waits(results[place]):
                    continue
                call = _read_call(action, results[place], rules, known, sampling=sampling)
                if isinstance(call, str) or len(calls) == AT_ONCE:
                    results[place] = _refuse(
                        call if isinstance(call, str) else f"more than {AT_ONCE} calls ask at once"
                    )
                elif not left:
                    calls[place] = call.refuse(f"{call.again.server} asks more than {ROUNDS} times")
                elif sum(one.questions for one in calls.values()) + call.questions > AT_ONCE:
                    calls[place] = call.refuse(f"there are more than {AT_ONCE} questions at once")
                else:
                    calls[place] = call
            yield from _answer(calls, results)
        results = [_refuse("it asks again") if _waits(one) else one for one in results]
        return Observed(observed.run, observed.actions, tuple(results[place] for place in first))

    effects: tuple[type[Effect[Any]], ...] = (AskHuman, AnswerMCP, *([AttemptModel] if sampling else []))
    handlers: dict[type[Effect[Any]], HandlerLike] = {AnswerMCP: _make_handler(known)}
    if answer is not None:
        handlers[AskHuman] = answer
    return Piece(name, (dataclasses.replace(answer_servers, effects=effects),), handlers=handlers)


def _waits(result: ToolResult) -> bool:
    return label_of(result.observation) == _WAITING


def _find_first(results: Sequence[ToolResult]) -> list[int]:
    """Return the place of the first result that waits for the same input as each, or the result's own place."""
    waiting: dict[str, int] = {}
    return [
        waiting.setdefault(str(one.observation), place) if _waits(one) else place for place, one in enumerate(results)
    ]


def _refuse(text: str) -> ToolResult:
    return ToolResult(f"The call was not finished: {text}.", "error")


def _wait_for_input(server: MCPServer, tool: str, result: types.InputRequiredResult) -> object:
    """Return the observation of a call that waits for input. Raises `ReportedError` where no piece would replace it."""
    call, name = current_call(), server.session.name
    prefix = "" if call is None else call.node.rpartition(".")[0]
    machine = () if call is None else scope_of(call).execution.graph
    asked, problem = result.model_dump_json(by_alias=True, exclude_none=True, exclude={"meta"}), ""
    if not any(AnswerMCP in one.effects and one.name.rpartition(".")[0] == prefix for one in machine):
        problem = "which nobody answers here; add elicit(server) to the nodes"
    elif len(asked) > _LONGEST:
        problem = f"with more than {_LONGEST:,} characters, which is too long"
    if problem:
        server.session.abandon(result.request_state)
        raise ReportedError(f"{name} asks for input, {problem}")
    return {LABEL: _WAITING, "server": name, "tool": tool, "asked": asked}


def _read_call(
    action: AgentAction, result: ToolResult, rules: CallRules, servers: Mapping[str, MCPServer], *, sampling: bool
) -> _Waiting | str:
    """Return the call that waits, or why it cannot be answered: a server may have made its result only look so."""
    tool, server, name = rules.find_tool(action), "", ""
    asked: types.InputRequiredResult | None = None
    with suppress(ValidationError):
        match result.observation:
            case {"server": str(server), "tool": str(name), "asked": str(text)}:
                asked = types.InputRequiredResult.model_validate_json(text)
            case _:
                pass
    if asked is None:
        return f"{action.tool} asks in an unknown form"
    if tool is None or server not in servers:
        return f"{server} asks, and elicit has no server of this name with the tool {action.tool}; call another tool"
    forms, requests, refused = dict[str, ElicitationForm](), dict[str, ChatRequest](), dict[str, str]()
    for key, one in (asked.input_requests or {}).items():
        try:
            match one.params:
                case types.ElicitRequestFormParams(message=message, requested_schema=schema):
                    forms[key] = ElicitationForm.read_schema(server, message, schema)
                case types.CreateMessageRequestParams() as params if sampling:
                    requests[key] = _read_request(params)
                case types.ElicitRequestURLParams():
                    refused[key] = f"{server} asks for a visit of a web page, which is not offered"
                case _:
                    refused[key] = f"{server} asks for {one.method}, which is not offered"
        except ToolDefinitionError as error:
            refused[key] = f"{server} has a form that cannot be shown ({error})"
        except ValueError:
            refused[key] = f"{server} asks the model about more than text, which is not offered"
    arguments, state = tool.read(action.tool_input), asked.request_state
    again = AnswerMCP(action.tool, arguments, None, action.call_id, server=server, tool=name, state=state)
    return _Waiting(again, forms, requests, refused)


def _read_request(params: types.CreateMessageRequestParams) -> ChatRequest:
    """Return the request to the model. Raises `ValueError` for one with a part that is no text."""
    messages: list[Message] = [SystemMessage(params.system_prompt)] if params.system_prompt else []
    for one in params.messages:
        if not all(isinstance(part, types.TextContent) for part in one.content_as_list):
            raise ValueError
        text = "\n".join(part.text for part in one.content_as_list if isinstance(part, types.TextContent))
        messages.append(UserMessage(text) if one.role == "user" else AssistantMessage(text))
    return ChatRequest(messages, stop=tuple(params.stop_sequences or ()))


def _answer(calls: Mapping[int, _Waiting], results: list[ToolResult]) -> Generator[Any, Any, None]:
    """Ask people and the model, call the tools again, and put what they return into the results."""
    forms = {(place, key): form for place, call in calls.items() for key, form in call.forms.items()}
    requests = {(place, key): one for place, call in calls.items() for key, one in call.requests.items()}
    responses = yield from _ask_people(forms)
    replies = yield from ask_all([AttemptModel(one) for one in requests.values()])
    responses |= {place: _read_reply(reply) for place, reply in zip(requests, replies, strict=True)}
    again: dict[int, AnswerMCP] = {}
    for place, call in calls.items():
        own: dict[str, _Response] = {key: {_REFUSED: why} for key, why in call.refused.items()}
        own |= {key: one for (of, key), one in responses.items() if of == place}
        refused = [str(one[_REFUSED]) for one in own.values() if _REFUSED in one]
        if refused and not (call.again.state or "").startswith(OPEN):
            results[place] = _refuse(refused[0])
        else:
            again[place] = dataclasses.replace(call.again, responses=own)
    answers = yield from ask_all([*again.values()])
    for place, result in zip(again, answers, strict=True):
        before = results[place]
        is_answer = before.return_direct and result.status == "ok"
        results[place] = dataclasses.replace(result, excerpt=before.excerpt, return_direct=is_answer)


def _read_reply(reply: Attempted) -> _Response:
    """Return the response of a model as JSON data."""
    if isinstance(reply, ModelFailure):
        return {_REFUSED: f"the model could not answer the server ({reply.text})"}
    content = {"type": "text", "text": separate_reasoning(reply).content}
    reason = "maxTokens" if reply.finish_reason == "length" else "endTurn"
    return {"role": "assistant", "content": content, "model": reply.model or "unknown", "stopReason": reason}


def _ask_people(forms: Mapping[_Place, ElicitationForm]) -> Generator[Any, Any, dict[_Place, _Response]]:
    """Ask about each field at once, and again about invalid answers; return the responses."""
    responses: dict[_Place, _Response] = {}
    answers: dict[_Place, dict[str, str]] = {place: {} for place in forms}
    open_fields = {(place, name): "" for place, form in forms.items() for name in form.fields}
    for _ in range(TRIES):
        texts = yield from ask_all(
            [AskHuman(forms[place].ask(name, problem)) for (place, name), problem in open_fields.items()]
        )
        for (place, name), text in zip(open_fields, texts, strict=True):
            answers[place][name] = str(text)
        open_fields = dict[tuple[_Place, str], str]()
        for place in [one for one in forms if one not in responses]:
            response, problems = forms[place].read(answers[place])
            if response is not None:
                responses[place] = response
            open_fields |= {(place, name): problem for name, problem in problems.items()}
    return {place: responses.get(place, {"action": "cancel"}) for place in forms}


def _make_handler(servers: Mapping[str, MCPServer]) -> Handler:
    async def answer(effect: AnswerMCP, call: CallContext[Any], io: IO) -> ToolResult:
        server = servers[effect.server]
        tool = server.find_tool(effect.tool)
        # Only calls that are open are answered with a refusal.
        responses: dict[str, Any] = {
            key: types.ErrorData(code=types.INVALID_REQUEST, message=str(one[_REFUSED]))
            if _REFUSED in one
            else _RESPONSE.validate_python(one)
            for key, one in effect.responses.items()
        }
        handler = make_tool_handler({tool.name: tool})
        token = RESPONSES.set({"input_responses": responses, "request_state": effect.state})
        try:
            result: ToolResult = await handler.answer(CallTool(tool.name, effect.tool_input), call, io)
        finally:
            RESPONSES.reset(token)
        return result

    return Handler(answer)
