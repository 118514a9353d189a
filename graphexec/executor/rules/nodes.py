"""The nodes of the rules: two that may ask the model again before its reply is parsed, and one that calls tools."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from graphexec.actions import AgentAction, AgentFinish
from graphexec.agents import Agent
from graphexec.agents.prompt import format_observation
from graphexec.agents.rules import validate_rules
from graphexec.effects import CallAgent, CallModel, CallTool, Decided
from graphexec.errors import InputError, ParseError
from graphexec.executor.rules.calls import CallRules
from graphexec.executor.table import (
    Acted,
    LimitReached,
    Observed,
    Policies,
    Replied,
    dispatch_tools,
    limit_reached,
    plan,
)
from graphexec.kernel.effects import Asks, ask_all
from graphexec.kernel.graph import Graph, edges, on
from graphexec.kernel.node import charged, node, rename
from graphexec.kernel.surgery import replace, splice
from graphexec.messages import ModelReply

S = TypeVar("S")
F = TypeVar("F")

# The most requests of a visit that avoids dummies: each is without one more tool.
MOST_REQUESTS = 3


def _read_actions(agent: Agent, reply: ModelReply | Decided) -> tuple[AgentAction, ...]:
    """Return the actions in a reply; none if it is an answer, or cannot be read: that is left to `parse`."""
    try:
        decision = agent.read(reply)
    except ParseError:
        return ()
    return () if isinstance(decision, AgentFinish) else decision


def _is_answer(agent: Agent, reply: ModelReply | Decided) -> bool:
    try:
        decision = agent.read(reply)
    except ParseError:
        return False
    return isinstance(decision, AgentFinish) and bool(format_observation(decision.answer).strip())


@charged(when_spent=limit_reached, asks=(0, MOST_REQUESTS))
@node
def avoid_dummies(replied: Replied, policies: Policies, rules: CallRules) -> Asks[CallModel | CallAgent, Replied]:
    """Ask again, without the tool, for a reply that calls a tool with an argument copied from an example.

    If the replies do not get better, the first one is kept.
    """
    agent, run, reply = rules.agent, replied.run, replied.reply
    allowed = frozenset(rules.tools)
    for _ in range(min(MOST_REQUESTS, len(rules.tools))):
        actions = _read_actions(agent, reply)
        copied = {action.tool for action in actions if rules.copied_argument(run, action) is not None}
        if not copied:
            break
        allowed -= {tool.name for action in actions if action.tool in copied and (tool := rules.tool_of(action))}
        assert agent.narrow is not None, "add_rules requires it"
        reply = yield agent.narrow(policies.trim(run), allowed)
    actions = _read_actions(agent, reply)
    better = actions and not any(rules.copied_argument(run, action) for action in actions)
    return Replied(run, reply) if better or _is_answer(agent, reply) else replied


@charged(when_spent=limit_reached, asks=(0, 1))
@node
def answer_repeats(replied: Replied, policies: Policies, rules: CallRules) -> Asks[CallModel | CallAgent, Replied]:
    """Ask once for the answer, instead of a reply that only repeats calls. Without an answer, keep the reply."""
    agent, seen = rules.agent, policies.trim(replied.run)
    actions = _read_actions(agent, replied.reply)
    if not actions or not all(rules.is_settled(seen, action) for action in actions):
        return replied
    # The run ends with the result of such a tool.
    if any(tool.return_direct for action in actions if (tool := rules.tool_of(action))):
        return replied
    assert agent.narrow is not None, "add_rules requires it"
    reply: ModelReply | Decided = yield agent.narrow(seen, frozenset())
    return Replied(replied.run, reply) if _is_answer(agent, reply) else replied


@charged(when_spent=limit_reached)
@node
def dispatch_allowed(acted: Acted, rules: CallRules) -> Asks[CallTool, Observed]:
    """Call the tools concurrently, except for calls that a rule forbids; the results keep the order of the actions."""
    run, actions = acted.run, acted.actions
    known = [rules.result_of(run, action) for action in actions]
    results = yield from ask_all(
        [
            CallTool(action.tool, action.tool_input, run, action.call_id)
            for action, result in zip(actions, known, strict=True)
            if result is None
        ]
    )
    new = iter(results)
    return Observed(run, actions, tuple(next(new) if result is None else result for result in known))


def add_rules(machine: Graph[S, F], rules: CallRules) -> Graph[S, F]:
    """Return the machine with the nodes of the agent's rules between `plan` and `parse`, and in `dispatch_tools`.

    Raises `InputError` for unknown rules, and for an agent that cannot be asked again.
    """
    names = validate_rules(rules.agent.rules)
    if not names or not rules.tools:
        return machine
    if rules.agent.narrow is None:
        raise InputError(
            f"the agent has rules={names!r} but no narrow function; give it one, which asks for a decision with some "
            "of the tools, or leave out the rules"
        )
    # The last one is spliced in first, right behind plan.
    nodes = [answer_repeats] if {*names} - {"no_dummies"} else []
    if "no_dummies" in names:
        nodes.append(dataclasses.replace(avoid_dummies, most=min(MOST_REQUESTS, len(rules.tools))))
    target = machine["parse"]
    for one in nodes:
        routes = on(Replied, target) | on(LimitReached, machine["stopped_response"])
        machine = splice(machine, edges(one, routes), after=plan, on=Replied, allow_nonterminating=True)
        target = one
    return replace(machine, rename(dispatch_allowed, dispatch_tools.name), allow_nonterminating=True)
