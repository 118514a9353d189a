"""The parts of an executor that its user chose, and the machine and the handlers that are made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

from graphexec.actions import extending
from graphexec.agents import Agent
from graphexec.agents.calls import CallRules
from graphexec.effects import AttemptModel, CallAgent, CallModel, CallTool, LoadMemory, SaveMemory
from graphexec.errors import InputError, did_you_mean
from graphexec.executor.handlers import (
    Catch,
    catching,
    make_agent_handler,
    make_attempt_handler,
    make_model_handler,
    reading_ahead,
    surround,
)
from graphexec.executor.inputs import InputKeys, Inputs, make_input_keys
from graphexec.executor.nodes import Policies, dispatch_tools
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging.memory import memory_piece
from graphexec.executor.plugging.piece import Output, Piece, assign_seats
from graphexec.executor.plugging.plug import edits_of, plug
from graphexec.executor.result import Ending
from graphexec.executor.rules import dispatch_known_tools, rule_pieces
from graphexec.kernel.effects import Effect, NestedRuns
from graphexec.kernel.graph import Graph, Trait, change_table
from graphexec.kernel.node import Quota
from graphexec.kernel.program import fill_parameters
from graphexec.machine import Machine
from graphexec.runtime.calls import hold_over_fork
from graphexec.runtime.handlers import Handler, HandlerLike, Handlers, answering, handlers_for
from graphexec.tools import AnyTool, tools_by_name
from graphexec.tools.calling import Lookup, make_tool_handler
from graphexec.tools.options import ErrorPolicy

if TYPE_CHECKING:
    from graphexec.memory import Memory


# Runs extend their steps in several threads.
hold_over_fork(extending)

# The executor's own nodes that call tools, by their functions.
_DISPATCHING = (dispatch_tools.function, dispatch_known_tools.function)


@final
@dataclass(frozen=True)
class _CallsOf:
    """Whether an effect calls a tool; `key` is its name as the lookup compares it."""

    key: str
    lookup: Lookup

    @classmethod
    def named(cls, tool: str, lookup: Lookup) -> _CallsOf:
        return cls(tool if lookup == "exact" else tool.casefold(), lookup)

    def __call__(self, effect: object) -> bool:
        return isinstance(effect, CallTool) and self == _CallsOf.named(effect.name, self.lookup)


# Counts the calls of the tools that have no limit.
_FREE = Quota("", None, lambda _: True)


@final
@dataclass(frozen=True, kw_only=True)
class Setup:
    """The parts of an executor that its user chose. `pieces` are plugged into the machine that they make.

    `changed` is the machine that surgery has made, without settings; `None` for the executor's own.
    """

    agent: Agent
    tools: tuple[AnyTool, ...]
    memory: Memory | None
    # The user's own.
    handlers: Mapping[type[Effect[Any]], HandlerLike]
    policies: Policies
    # The agent's own table.
    table: Machine[Ready, Ending]
    on_tool_error: ErrorPolicy
    lookup: Lookup
    max_observation: int | None
    max_tool_input: int | None
    pieces: tuple[Piece, ...] = ()
    changed: Machine[Ready, Ending] | None = None
    # Of a piece that is a part of the changed machine.
    kept_output: Output | None = None
    # Of such pieces.
    kept_catches: tuple[Catch, ...] = ()

    def __post_init__(self) -> None:
        # Names that are plugged twice are reported before their tools.
        assign_seats(self.pieces)
        typed = [piece.name for piece in self.pieces if piece.output is not None]
        if len(typed) + (self.kept_output is not None) > 1:
            remedy = f"unplug {typed[0]}" if len(typed) > 1 else "make the executor without the first"
            raise InputError(f"{typed[-1]} is another output type, and an executor has one; {remedy}")

    @cached_property
    def fitted(self) -> tuple[Piece, ...]:
        """The pieces with the nodes that they have for this agent and these tools, after that of the memory."""
        pieces = tuple(one if one.fit is None else replace(one, nodes=one.fit(self._rules)) for one in self.pieces)
        if self.memory is None:
            return pieces
        return memory_piece([*self._base, *(one for piece in pieces for one in piece.nodes)]), *pieces

    @property
    def _base(self) -> Machine[Ready, Ending]:
        """The machine that the pieces are plugged into."""
        return self.changed or self.table

    @cached_property
    def _rules(self) -> CallRules:
        names = {*(piece.name for piece in self.pieces), *(one.group for one in self.changed or ())}
        deciding = [piece for piece in self.pieces if piece.limits or (piece.gates and piece.tool_names)]
        gates = {piece.name: piece.tool_names for piece in deciding}
        return CallRules(self.agent_with_tools, self.offered, names, self.lookup, self.max_tool_input, gates)

    @cached_property
    def offered(self) -> Mapping[str, AnyTool]:
        """The tools by name, with those of the pieces. Raises `ToolDefinitionError` for two tools of one name."""
        return tools_by_name([*self.tools, *(tool for piece in self.pieces for tool in piece.tools)])

    @property
    def output(self) -> Output | None:
        """The type of the answers; `None` for any."""
        return next((piece.output for piece in self.pieces if piece.output is not None), self.kept_output)

    @property
    def catches(self) -> tuple[Catch, ...]:
        """What catches the errors of the agent's model."""
        return (*self.kept_catches, *(piece.catches for piece in self.pieces if piece.catches is not None))

    @cached_property
    def agent_with_tools(self) -> Agent:
        """The agent with the tools of the pieces, which it offers to its model."""
        added = any(piece.tools for piece in self.pieces)
        return self.agent.with_tools(tuple(self.offered.values())) if added else self.agent

    @cached_property
    def own_handlers(self) -> Mapping[type[Effect[Any]], HandlerLike]:
        """The handlers of the pieces and of the user, which take precedence.

        Raises `InputError` for two pieces that have different handlers of one effect.
        """
        by_piece: dict[type[Effect[Any]], tuple[str, HandlerLike]] = {}
        for piece in self.pieces:
            for kind, handler in piece.handlers.items():
                owner, known = by_piece.setdefault(kind, (piece.name, handler))
                if known != handler and kind not in self.handlers:
                    raise InputError(
                        f"{owner} and {piece.name} have different handlers of {kind.__name__}; pass "
                        f"handlers={{{kind.__name__}: function}} to the executor, which is for both"
                    )
        return {kind: handler for kind, (_, handler) in by_piece.items()} | dict(self.handlers)

    def require_tools(self) -> None:
        """Raise `InputError` for a piece that names a tool which the executor does not have."""
        for piece in self.pieces:
            for name in piece.tool_names:
                if name not in self.offered:
                    hint = did_you_mean(name, self.offered, f"it has {', '.join(self.offered) or 'no tools'}")
                    raise InputError(f"{piece.name} names the tool {name}, which the executor does not have; {hint}")

    @cached_property
    def all_handlers(self) -> Handlers:
        """The handlers of all effects."""
        answers: dict[type[Effect[Any]], HandlerLike] = {}
        agent, memory = self.agent_with_tools, self.memory
        if agent.model is not None:
            answers[CallModel] = make_model_handler(agent.model, agent.read)
        if agent.function is not None:
            decides = agent.function
            answers[CallAgent] = decides if isinstance(decides, Handler) else make_agent_handler(decides)
        if memory is not None:
            # Imported here: few executors have a memory.
            from graphexec.memory.conversation import make_load_handler, make_save_handler

            answers |= {LoadMemory: make_load_handler(memory), SaveMemory: make_save_handler(memory)}
        calling = make_tool_handler(
            self.offered,
            on_error=self.on_tool_error,
            lookup=self.lookup,
            max_observation=self.max_observation,
            max_tool_input=self.max_tool_input,
        )
        answers[CallTool] = calling if agent.around_tools is None else surround(calling, agent.around_tools)
        answers |= self.own_handlers
        if CallModel in self.own_handlers:
            answers[CallModel] = reading_ahead(answering(answers[CallModel]), agent.read)
        if CallModel in answers:
            answers.setdefault(AttemptModel, make_attempt_handler(answering(answers[CallModel])))
        if self.catches and CallModel in answers:
            answers[CallModel] = catching(answering(answers[CallModel]), self.catches)
        return handlers_for(answers)

    @cached_property
    def _policies(self) -> Policies:
        """The policies, with the names of the tools that pieces have brought, and their changes of requests.

        Raises `InputError` for an agent that makes no requests.
        """
        names = tuple(tool.name for piece in self.pieces for tool in piece.tools)
        edits = (*self.policies.edits, *edits_of(self.agent, self.pieces))
        return replace(self.policies, piece_tools=names or self.policies.piece_tools, edits=edits)

    @cached_property
    def keys(self) -> InputKeys:
        """The names of the inputs."""
        return make_input_keys(self.agent_with_tools, self.memory)

    def name(self, inputs: Inputs) -> dict[str, Any]:
        """Return the inputs by name. Raises `InputError` if one is missing that the memory does not provide."""
        return self.keys.name(inputs, () if self.memory is None else self.memory.keys)

    @cached_property
    def settings(self) -> tuple[object, ...]:
        """What the nodes take, what the proof knows of nested runs, and what answers the nodes wherever they run."""
        nested = [
            replace(tool.nested, attempts=1 if tool.retry is None else tool.retry.attempts)
            for tool in self.offered.values()
            if tool.nested is not None
        ]
        runs = NestedRuns.merge(nested)
        typed: list[Trait] = []
        if self.output is not None:
            typed.append(Trait("the output type", json.dumps(self.output.schema, sort_keys=True, default=str)))
        return self.agent_with_tools, self._policies, self._rules, self.keys, *runs, *typed, self.all_handlers

    def make_graph(self, fan_out: int | None) -> Machine[Ready, Ending]:
        """Return the machine with its pieces, and with the settings.

        `fan_out` is the limit on the tool calls of one step.

        Raises `GraphError` for pieces that do not fit, and for a node whose parameter fits no setting.
        """
        self.require_tools()
        machine = self._limit_calls(plug(self._base, self.fitted), fan_out)
        machine = machine.with_settings(*self.settings)
        fill_parameters(machine)
        return machine

    def _limit_calls(self, machine: Machine[Ready, Ending], fan_out: int | None) -> Machine[Ready, Ending]:
        """Return the machine whose `dispatch_tools` calls as few tools as the agent's replies and the pieces allow.

        What the proof counts on, the engine enforces. A node of the user's stays as it is.
        """
        if self.changed is None and not self.pieces and self.agent_with_tools.max_actions is None:
            return machine
        home = machine.nodes.get(dispatch_tools.name)
        if home is None or home.function not in _DISPATCHING or home.most is not None:
            return machine
        lookup, quotas = self.lookup, {one.counts: one for one in home.quotas if one.name}
        for tool, calls in [limit for piece in self.pieces for limit in piece.tool_limits.items()]:
            counts = _CallsOf.named(tool, lookup)
            known = quotas.get(counts)
            name = re.sub(r"\W|^(?=\d)", "_", f"{tool}_calls") if known is None else known.name
            while known is None and name in (*machine.meters, *[one.name for one in quotas.values()]):
                name += "_"
            least = calls if known is None or known.limit is None else min(calls, known.limit)
            quotas[counts] = Quota(name, least, counts)
        if CallTool in self.own_handlers:
            quotas.clear()
        # The nodes of the shelf's pieces carry out the calls of the tools that they bring.
        acting = [one for piece in self.pieces if piece.acts for one in piece.tools]
        carried = {one.name for one in acting if str(one.function.__module__).startswith("graphexec.nodes.")}
        left = {_CallsOf.named(name, lookup) for name in self.offered if name not in carried}
        free = () if not quotas or left <= {*quotas} else (_FREE,)
        most = self._most_calls((*quotas.values(), *free))
        base = dispatch_known_tools if quotas else dispatch_tools
        limited = replace(
            home,
            function=base.function,
            parameters=base.parameters,
            quotas=(*quotas.values(), *free),
            # A lower limit applies only to a node that declares nothing.
            most=None if most is not None and fan_out is not None and fan_out < most else most,
        )
        return change_table(machine, [limited if one is home else one for one in machine], machine.edges)

    def _most_calls(self, quotas: Sequence[Quota]) -> int | None:
        """Return the most calls after one reply; `None` if only the limits bound them."""
        most = self.agent_with_tools.max_actions
        if quotas and _FREE not in quotas:
            # At least one, as a node that never asks has no outcome for a limit.
            several = max(1, sum(one.limit or 0 for one in quotas))
            most = several if most is None else min(most, several)
        return most

    def without(self, names: Sequence[str], graph: Graph[Any, Any]) -> Setup:
        """Return the setup without the pieces of these names. `graph` is its machine.

        Raises `InputError` for a name that is not plugged.
        """
        known = [piece.name for piece in self.pieces]
        for name in names:
            if name in known:
                continue
            if any(one.group == name for one in graph):
                raise InputError(
                    f"{name} is a part of the machine that splice, replace or with_graph has changed; unplug it from "
                    "the executor before that change"
                )
            raise InputError(f"{name} is not plugged; the executor has {', '.join(known) or 'no pieces'}")
        return replace(self, pieces=tuple(piece for piece in self.pieces if piece.name not in names))

    def with_agent(self, agent: Agent) -> Setup:
        """Return the setup with another agent; the pieces of its rules replace those of the agent's before.

        A rule that was unplugged stays so. A machine that surgery has changed keeps its rules.
        """
        if self.changed is not None:
            return replace(self, agent=agent)
        old, known = {*self.agent.rules}, {piece.name for piece in self.pieces}
        rules = (one for one in rule_pieces(agent) if one.name not in old or one.name in known)
        return replace(self, agent=agent, pieces=(*rules, *(one for one in self.pieces if one.name not in old)))

    def with_graph(self, graph: Machine[Ready, Ending]) -> Setup:
        """Return the setup of an executor whose machine surgery has changed: its pieces are a part of it.

        Raises `InputError` for the machine of another executor: its agent, tools and handlers would be replaced.
        """
        if graph.settings not in ((), self.settings):
            raise InputError(
                "the machine has the agent, the tools and the handlers of another executor; to run it with those of "
                "this one, pass graph.with_settings(); to run the other agent, embed its executor, as in "
                "embed(inner, name), or pass inner.as_tool(name, description) in tools"
            )
        changed = graph.with_settings()
        home = changed.nodes.get(dispatch_tools.name)
        if home is not None and home.function in _DISPATCHING:
            known = self._most_calls(home.quotas)
            # It is found again for the next agent and tools, unless the user has declared another number.
            again = replace(home, most=None if home.most == known else home.most)
            changed = change_table(changed, [again if one is home else one for one in changed], changed.edges)
        return replace(
            self,
            agent=self.agent_with_tools,
            tools=tuple(self.offered.values()),
            handlers=self.own_handlers,
            policies=self._policies,
            pieces=(),
            changed=changed,
            kept_output=self.output,
            kept_catches=self.catches,
        )
