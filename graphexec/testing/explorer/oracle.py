"""The classes of replies to an effect, with a representative of each.

`replies_of` passes a pool of model replies to the agent's own parser, and keeps one reply for each kind of decision.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from graphexec.actions import AgentAction, AgentFinish, StepStatus
from graphexec.agents import Agent
from graphexec.effects import (
    AskHuman,
    CallAgent,
    CallModel,
    CallTool,
    Decided,
    GraphResult,
    ModelEffect,
    ModelFailure,
    RunGraph,
    ToolResult,
    Unreadable,
)
from graphexec.errors import InputError, ParseError
from graphexec.kernel.effects import Effect, Perform
from graphexec.kernel.graph import Graph
from graphexec.kernel.signatures import reply_classes
from graphexec.messages import ModelReply, ToolCall
from graphexec.testing.explorer.abstraction import texts
from graphexec.testing.explorer.temporal import UNKNOWN
from graphexec.tools import AnyTool

if TYPE_CHECKING:
    from graphexec.executor.executor import AgentExecutor


@dataclass(frozen=True, slots=True)
class Reply:
    """A class of replies by its `name`, and a `value` that represents it."""

    name: str
    value: object


@dataclass(frozen=True, slots=True)
class Oracle:
    """Every class of replies to an effect, and the `words` by which values are distinguished (`None`: all strings).

    `tools` are the names of an executor's tools. `unusual` are further replies that a model, a tool or a person may
    give, such as an empty text: a run tries one of them at each request, and is not followed further. `numbers` are the
    numbers of the replies to each class of effects; those of unusual ones are negative.
    """

    replies: Callable[[Effect[Any]], Sequence[Reply]]
    words: frozenset[str] | None = None
    tools: Collection[str] | None = None
    unusual: Callable[[Effect[Any]], Sequence[Reply]] = lambda _: ()
    numbers: Mapping[type[Effect[Any]], range] = field(default_factory=dict[type[Effect[Any]], range])

    def __call__(self, effect: Effect[Any]) -> Sequence[Reply]:
        """Return the classes of replies to this effect."""
        return self.replies(effect)


# The replies to custom effects, by the effect's class.
Replies: TypeAlias = Mapping[type[Effect[Any]], Sequence[object]]


def replies_of(machine: AgentExecutor | Graph[Any, Any], replies: Replies | None = None) -> Oracle:
    """Return the classes of replies to all effects of the machine.

    `replies` are replies to custom effects, `{Fetch: [Page(""), Page("text")]}`, and results of opaque nodes,
    `{Perform: [Home(()), ...]}`; they replace the built-in ones, also of subclasses: some pieces have a class of their
    own of a public effect. Model replies are built in only for an executor.

    Raises `InputError` that lists all effects without a known reply.
    """
    graph = machine if isinstance(machine, Graph) else machine.graph
    agent = None if isinstance(machine, Graph) else machine.agent
    tools: Mapping[str, AnyTool] = {} if isinstance(machine, Graph) else machine.tools
    known: dict[type[Effect[Any]], Sequence[Reply]] = {
        AskHuman: [Reply("yes", "yes"), Reply("no", "no"), Reply("nothing", "")],
        CallAgent: decisions(list(tools)),
    }
    if agent is not None and agent.model is not None:
        known[CallModel] = model_replies(agent, tools)
    known |= {kind: _RESULTS for node in graph for kind in node.effects if issubclass(kind, RunGraph)}
    known |= _replies_of_models(graph, known.get(CallModel, _PLAIN))
    given: dict[type[Effect[Any]], list[Reply]] = {}
    for kind, values in (replies or {}).items():
        if isinstance(values, str):
            raise InputError(f"the replies to {kind.__name__} are {values!r}; give a list of replies")
        given[kind] = [Reply(f"{type(value).__name__} {number}", value) for number, value in enumerate(values, 1)]
    of_bases = {kind: [given[base] for base in kind.__mro__ if base in given] for kind in _asked_effects(graph)}
    known |= given | {kind: found[0] for kind, found in of_bases.items() if found}
    performed = _opaque_results(graph, given.get(Perform, ()))
    faults = [
        f"no replies to {kind.__name__} are known; pass replies={{{kind.__name__}: "
        f"[{'ModelReply(...), ' if kind is CallModel else ''}...]}}, one of each kind"
        for kind in _asked_effects(graph)
        if kind not in known and kind not in (CallTool, Perform)
    ]
    faults += [
        f"the results of {name} are unknown; pass replies={{Perform: [{', '.join(missing)}(...)]}}"
        for name, (_, missing) in performed.items()
        if missing
    ]
    if faults:
        raise InputError("; ".join(faults))

    def replies_to(effect: Effect[Any]) -> Sequence[Reply]:
        if isinstance(effect, Perform):
            return performed[effect.node][0]
        if isinstance(effect, CallTool) and CallTool not in given:
            return _ANY_RESULT if agent is None else tool_results(effect, tools)
        # Any: mypy does not know that a class is hashable.
        kind: Any = type(effect)
        return known[kind]

    of_tools = [tool_results(CallTool(tool, {}), tools) for tool in tools]
    of_nodes = [many for many, _ in performed.values()]
    words = texts([reply.value for many in (*known.values(), *of_nodes, *of_tools) for reply in many])
    words |= frozenset(tools) | {UNKNOWN} | frozenset(get_args(StepStatus))
    called = [] if agent is None or agent.model is None else _unusual_calls(agent, tools)

    # Any: mypy does not take a class for hashable.
    def unusual_replies_to(kind: Any) -> Sequence[Reply]:
        if issubclass(kind, ModelEffect):
            # A user cannot know all replies of a model.
            return _UNUSUAL_REPLIES if kind in given else [*_UNUSUAL_REPLIES, *called]
        return () if kind in given else _UNUSUAL.get(kind, ())

    several = {one: [many] for one, many in known.items()} | {CallTool: of_tools or [_ANY_RESULT], Perform: of_nodes}
    asked = [kind for kind in several if any(kind in node.effects for node in graph)]
    return Oracle(
        lambda effect: [*map(_with_cost, replies_to(effect))],
        words,
        None if agent is None else tuple(tools),
        lambda effect: [*map(_with_cost, unusual_replies_to(type(effect)))],
        {kind: range(-len(unusual_replies_to(kind)), max(map(len, several[kind]))) for kind in asked},
    )


def _with_cost(reply: Reply) -> Reply:
    """Return the reply of a model with a cost, at least 0, which a limit on the cost needs."""
    value = reply.value
    if isinstance(value, ModelReply) and value.cost is None:
        return Reply(reply.name, replace(value, cost=0.0))
    return reply


# The results of runs of other executors.
_RESULTS = (
    Reply("an answer", GraphResult("done", "finished")),
    Reply("a stopped run", GraphResult("Agent stopped due to model call limit.", "model_calls")),
    Reply("a failed run", GraphResult("overloaded", "failed", "graphexec.errors.ServerError")),
)

# Texts that a model or a person may write, and that code which reads numbers, lists or JSON often forgets.
_TEXTS: Mapping[str, str] = {
    "an empty text": "",
    "a blank text": " \n",
    "a sentence": "I cannot say.",
    "no number": "nan",
    "a large number": "1000000",
    "an empty list": "[]",
}
_UNUSUAL_REPLIES = (
    *(Reply(name, ModelReply(text)) for name, text in _TEXTS.items()),
    Reply("a text cut off", ModelReply('{"text": "', finish_reason="length")),
    Reply("an unknown call", ModelReply("", (ToolCall("call0", UNKNOWN, "{}"),))),
)
# Any: mypy does not take a class for hashable.
_UNUSUAL: Mapping[Any, Sequence[Reply]] = {
    AskHuman: [Reply(name, text) for name, text in _TEXTS.items()],
    CallTool: [Reply("ok, an empty text", ToolResult(""))],
}

# The replies of models whose replies no agent reads.
_PLAIN = (Reply("a reply", ModelReply("done")), Reply("an empty reply", ModelReply("")))


def _replies_of_models(graph: Graph[Any, Any], replies: Sequence[Reply]) -> Mapping[type[Effect[Any]], Sequence[Reply]]:
    """Return the replies to the effects that ask models, except `CallModel`: a failure is one where it may be."""
    # Any: mypy does not take a class for hashable.
    asked: set[Any] = {kind for node in graph for kind in node.effects if issubclass(kind, ModelEffect)} - {CallModel}
    failure = Reply("a failure", ModelFailure("graphexec.errors.ServerError", "overloaded", 503))
    return {kind: [*replies, *([failure] if ModelFailure in reply_classes(kind) else [])] for kind in asked}


def model_replies(agent: Agent, tools: Mapping[str, AnyTool]) -> list[Reply]:
    """Return one model reply of each kind that the agent's parser distinguishes; calls have valid arguments."""
    found: dict[str, Reply] = {}
    names = list(tools)
    for candidate in _pool({name: example_of(tool.parameters) for name, tool in tools.items()}):
        name = _classify_reply(agent, candidate, names)
        found.setdefault(name, Reply(name, candidate))
    return list(found.values())


def decisions(tools: Sequence[str]) -> list[Reply]:
    """Return one decision of each kind that a callable agent can make."""
    one = [AgentAction(tool, {}) for tool in tools]
    found = [
        Reply("finish", Decided(AgentFinish({"output": "done"}))),
        *(Reply(f"calls {action.tool}", Decided((action,))) for action in one),
        Reply("calls an unknown tool", Decided((AgentAction(UNKNOWN, {}),))),
        Reply("calls none", Decided(())),
        Reply("unreadable", Decided(Unreadable("this cannot be read"))),
    ]
    if one:
        found.append(Reply("calls several", Decided((one[0], one[-1]))))
        found.append(Reply("calls several, and an unknown tool", Decided((one[0], AgentAction(UNKNOWN, {})))))
    return found


def tool_results(call: CallTool, tools: Mapping[str, AnyTool]) -> list[Reply]:
    """Return one result of each kind that a tool call can have."""
    tool = tools.get(call.name)
    if tool is None:
        return [Reply("unknown_tool", ToolResult(f"{call.name} is not a valid tool", "unknown_tool"))]
    found = [
        Reply("ok", ToolResult("done", "ok", tool.return_direct)),
        Reply("bad_arguments", ToolResult(f"{call.name} was not called", "bad_arguments")),
    ]
    if tool.on_error != "raise":
        found.append(Reply("error", ToolResult(f"{call.name} failed", "error")))
    if tool.timeout is not None:
        found.append(Reply("timed_out", ToolResult(f"{call.name} timed out", "timed_out")))
    return found


_ANY_RESULT = [
    Reply("ok", ToolResult("done")),
    Reply("ok, the answer", ToolResult("done", return_direct=True)),
    Reply("error", ToolResult("it failed", "error")),
]


def _pool(tools: Mapping[str, Any]) -> Iterator[ModelReply]:
    known = list(tools)
    names: list[tuple[str, ...]] = [(name,) for name in (*known, UNKNOWN)]
    if known:
        names += [(known[0], known[-1]), (known[0], UNKNOWN)]
    yield ModelReply("Final Answer: done")
    yield ModelReply(json.dumps({"action": "final_answer", "answer": "done"}))
    yield ModelReply("done")
    for several in names:
        yield from _calls(several, [tools.get(name, {}) for name in several])
    yield ModelReply("")
    yield ModelReply("[]")
    yield ModelReply('{"action": ')
    yield ModelReply("Action: and no more")
    yield ModelReply("", (ToolCall("call0", (*known, UNKNOWN)[0], '{"text": "cut'),), finish_reason="length")


def _calls(names: Sequence[str], arguments: Sequence[Any]) -> Iterator[ModelReply]:
    """Yield replies that call these tools, in each form that an agent may read."""
    written = [json.dumps(given) for given in arguments]
    yield ModelReply(
        "\n".join(f"Action: {name}\nAction Input: {given}" for name, given in zip(names, written, strict=True))
    )
    calls = [{"action": name, "action_input": given} for name, given in zip(names, arguments, strict=True)]
    yield ModelReply(json.dumps(calls[0] if len(calls) == 1 else calls))
    yield ModelReply(
        "",
        tuple(ToolCall(f"call{n}", name, given) for n, (name, given) in enumerate(zip(names, written, strict=True))),
    )


def _unusual_calls(agent: Agent, tools: Mapping[str, AnyTool]) -> list[Reply]:
    """Return replies that call each tool with arguments that fit its schema and are often forgotten."""
    return [
        Reply(f"calls {name} with {given}", reply)
        for name, tool in tools.items()
        for given in unusual_arguments(tool.parameters)
        for reply in _calls([name], [given])
        if _classify_reply(agent, reply, list(tools)) == f"calls {name}"
    ]


def unusual_arguments(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return arguments that fit a JSON schema with an empty text, 0, -1, 100, `None`, other constants."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    definitions = schema.get("$defs", {})
    values = {name: _unusual_values(one, definitions) for name, one in properties.items()}
    usual = {name: example_of(one, definitions) for name, one in properties.items()}
    return [
        {name: one[number] if number < len(one) else usual[name] for name, one in values.items()}
        for number in range(max(map(len, values.values()), default=0))
    ]


def _unusual_values(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> list[Any]:
    match schema:
        case {"const": _} | {"pattern": _} | {"format": _} | {"multipleOf": _}:
            return []
        case {"enum": [_, *others]}:
            return others
        case {"$ref": str(name)} if (kind := definitions.get(name.rpartition("/")[2])) is not None:
            # A recursive schema has objects, which stay as they are.
            return _unusual_values(kind, definitions)
        case {"anyOf": [*kinds]} | {"oneOf": [*kinds]}:
            return [value for kind in kinds for value in _unusual_values(kind, definitions)]
        case {"type": "array"}:
            one = example_of(schema.get("items", {}), definitions)
            return [
                [one] * count for count in (0, 1) if schema.get("minItems", 0) <= count <= schema.get("maxItems", 1)
            ]
        case {"type": "integer" | "number" as kind}:
            least, most = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
            above, below = schema.get("exclusiveMinimum", -math.inf), schema.get("exclusiveMaximum", math.inf)
            # A large integer may be an index, and a large number a time to wait.
            values = (0, -1, 100) if kind == "integer" else (0, -1)
            return [value for value in values if least <= value <= most and above < value < below]
        case {"type": "boolean"}:
            return [False]
        case {"type": "null"}:
            return [None]
        case {"type": "string"} if not schema.get("minLength"):
            return [""]
        case _:
            return []


def example_of(schema: Mapping[str, Any], definitions: Mapping[str, Any] | None = None) -> Any:
    """Return a value that fits a JSON schema: its types, enumerations, minimum sizes and references."""
    known: Mapping[str, Any] = definitions or schema.get("$defs", {})
    match schema:
        case {"const": value} | {"enum": [value, *_]} | {"examples": [value, *_]}:
            return value
        case {"$ref": str(name)} if name.rpartition("/")[2] in known:
            return example_of(known[name.rpartition("/")[2]], known)
        case {"anyOf": [*kinds]} | {"oneOf": [*kinds]} | {"allOf": [*kinds]}:
            # None ends a recursive schema.
            return None if {"type": "null"} in kinds else example_of(kinds[0], known)
        case {"type": "object"}:
            properties = schema.get("properties", {})
            return {name: example_of(properties[name], known) for name in schema.get("required", ())}
        case {"type": "array"}:
            return [example_of(schema.get("items", {}), known) for _ in range(schema.get("minItems", 0))]
        case {"type": "integer" | "number"}:
            return schema.get("minimum", schema.get("maximum", 1))
        case {"type": "boolean"}:
            return True
        case {"type": "null"}:
            return None
        case _:
            return "x" * max(1, schema.get("minLength", 1))


def _classify_reply(agent: Agent, reply: ModelReply, tools: Sequence[str]) -> str:
    try:
        decision = agent.read(reply)
    except ParseError:
        return "unreadable"
    except Exception as error:  # noqa: BLE001 - a user's parser may raise anything, which ends the run
        return f"read raises {type(error).__name__}"
    if isinstance(decision, AgentFinish):
        return "finish"
    called = [action.tool if action.tool in tools else "an unknown tool" for action in decision]
    if len(called) > 1:
        return "calls several" if set(called) <= set(tools) else "calls several, and an unknown tool"
    return f"calls {called[0]}" if called else "calls none"


def _asked_effects(graph: Graph[Any, Any]) -> list[type[Effect[Any]]]:
    """Return the effects of the nodes; if a node may ask a model or a callable agent, the agent stands for both."""
    either = {CallModel, CallAgent}
    asked = [kind for node in graph for kind in node.effects if kind is not CallModel or not either <= {*node.effects}]
    return list(dict.fromkeys(asked))


def _opaque_results(graph: Graph[Any, Any], given: Sequence[Reply]) -> dict[str, tuple[list[Reply], list[str]]]:
    """Return the results of each opaque node, and the names of its outcomes without a known value."""
    found: dict[str, tuple[list[Reply], list[str]]] = {}
    for node in graph:
        if node.kind != "opaque":
            continue
        replies = [reply for reply in given if type(reply.value) in node.returns]
        missing: list[str] = []
        for kind in node.returns:
            if any(type(reply.value) is kind for reply in replies):
                continue
            try:
                replies.append(Reply(kind.__name__, kind()))
            except Exception:  # noqa: BLE001 - a user's constructor may need arguments
                missing.append(kind.__name__)
        found[node.name] = replies, missing
    return found
