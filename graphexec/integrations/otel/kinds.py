"""The names and the attributes of the spans of calls, by the effect and by the agent that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, TypeVar, final

from opentelemetry.trace import SpanKind

from graphexec.actions import AgentAction
from graphexec.agents import Agent
from graphexec.agents.calls import CallRules
from graphexec.effects import AttemptModel, CallModel, CallTool, ModelEffect
from graphexec.integrations.otel import names
from graphexec.integrations.otel.content import clip
from graphexec.kernel.effects import CallContext, Perform
from graphexec.kernel.graph import Graph
from graphexec.messages import CompletionRequest

T = TypeVar("T")

# Any: attributes, of the classes that OpenTelemetry takes.
Attributes = dict[str, Any]

# For a provider or a tool that is not known.
_OTHER = "_OTHER"


@final
@dataclass(frozen=True, slots=True)
class CallKind:
    """What the spans and the metrics of calls of one kind have: a name, a kind and attributes."""

    name: str
    kind: SpanKind
    attributes: Attributes
    # None for an effect of which the conventions measure nothing.
    duration: names.Metric | None = None
    measured: Attributes = field(default_factory=dict[str, Any])
    # Counts the calls, in several threads.
    calls: Iterator[int] = field(default_factory=count)


def make_kind(graph: Graph[Any, Any], agent_name: str, call: CallContext[Any]) -> CallKind:
    """Return the kind of a call in a run of an agent."""
    effect = call.effect
    own = graph.nodes[call.node].settings
    settings = graph.settings if own is None else own
    node = {names.NODE: call.node}
    if isinstance(effect, CallTool):
        name, rules = effect.name, find_setting(settings, CallRules)
        if rules is not None:
            # A model may call a tool that does not exist, by any name.
            tool = rules.find_tool(AgentAction(name, ""))
            name = _OTHER if tool is None else tool.name
        caller = agent_name if own is None else call.node.rpartition(".")[0]
        measured = drop_empty({names.TOOL_NAME: name, names.TOOL_TYPE: "function", names.AGENT_NAME: caller})
        # Without the description, which may be long, and would be the same on each span.
        attributes = {names.OPERATION: names.EXECUTE_TOOL, **measured}
        title = f"{names.EXECUTE_TOOL} {name}"
        return CallKind(title, SpanKind.INTERNAL, attributes, names.TOOL_DURATION, measured)
    if not isinstance(effect, ModelEffect):
        return CallKind(call.node if type(effect) is Perform else type(effect).__name__, SpanKind.INTERNAL, node)
    # A subclass asks another model than the agent's.
    agent = find_setting(settings, Agent) if type(effect) in (CallModel, AttemptModel) else None
    model = None if agent is None else agent.model
    name = text_of(model, "name")
    operation = names.TEXT_COMPLETION if isinstance(effect.request, CompletionRequest) else names.CHAT
    provider = text_of(model, "provider") or _OTHER
    measured = drop_empty({names.OPERATION: operation, names.PROVIDER: provider, names.REQUEST_MODEL: name})
    title = f"{operation} {name}".rstrip()
    return CallKind(title, SpanKind.CLIENT, {**measured, **node}, names.INFERENCE_DURATION, measured)


def find_setting(settings: tuple[object, ...], kind: type[T]) -> T | None:
    """Return the setting of a graph that is of this class, if any."""
    return next((one for one in settings if isinstance(one, kind)), None)


def drop_empty(attributes: Attributes) -> Attributes:
    """Return the attributes that have a value."""
    return {name: value for name, value in attributes.items() if value}


def text_of(model: object, name: str) -> str:
    """Return an attribute that the protocol of models does not require, or an empty string."""
    found = getattr(model, name, "")
    return clip(found) if isinstance(found, str) else ""
