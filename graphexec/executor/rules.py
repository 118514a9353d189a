"""The rules that agents name, as pieces: what is checked between the model's reply and the call of a tool.

Two nodes look at the reply before it is parsed, and may ask the model for another one. Two more answer the calls that a
rule forbids, so that their tools are not called: the observation of the step says why.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from functools import partial
from typing import Any

from graphexec.actions import AgentAction, AgentFinish, Run
from graphexec.agents import Agent, Decision
from graphexec.agents.agent import RuleName, validate_rules
from graphexec.agents.calls import CallRules
from graphexec.agents.prompt import format_observation
from graphexec.agents.reading.answers import READ_AHEAD, read_ahead, read_reply
from graphexec.effects import CallAgent, CallModel, CallTool, Decided
from graphexec.errors import InputError, ParseError
from graphexec.executor.nodes import Policies, dispatch_tools
from graphexec.executor.outcomes import Acted, Observed, Replied, limit_reached
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks
from graphexec.kernel.node import Node, node
from graphexec.messages import ModelReply

# The most requests of a visit that avoids dummies. A compromise: each costs a model call, and may be the one without a
# copied argument.
MOST_REQUESTS = 3


def _read(agent: Agent, reply: ModelReply | Decided) -> Decision:
    """Return the decision in a reply; no action if it cannot be read: that is left to `parse`."""
    if isinstance(reply, ModelReply) and id(reply) not in READ_AHEAD:
        # The nodes behind this one read it, too.
        read_ahead(agent.read, reply)
    try:
        return read_reply(agent.read, reply)
    except ParseError:
        return ()


def _actions_of(decision: Decision) -> tuple[AgentAction, ...]:
    return () if isinstance(decision, AgentFinish) else decision


def _is_answer(decision: Decision) -> bool:
    return isinstance(decision, AgentFinish) and bool(format_observation(decision.answer).strip())


@node(when_spent=limit_reached, asks=(0, MOST_REQUESTS))
def avoid_dummies(replied: Replied, policies: Policies, rules: CallRules) -> Asks[CallModel | CallAgent, Replied]:
    """Ask the model again if its reply calls a tool with an argument copied from a worked example.

    The requests are without the tools that were called in this way. There are at most as many as tools with arguments
    that can be copied. If the replies do not get better, the first one is kept.
    """
    agent, run, reply = rules.agent, replied.run, replied.reply
    allowed = frozenset(rules.tools)
    decision = _read(agent, reply)
    for _ in range(_most_requests(rules)):
        if not (copying := rules.copying_tools(run, _actions_of(decision))):
            break
        allowed -= copying
        reply = yield policies.request(agent, run, partial(_narrow, names=allowed))
        decision = _read(agent, reply)
    actions = _actions_of(decision)
    better = actions and not rules.copying_tools(run, actions)
    return Replied(run, reply) if better or _is_answer(decision) else replied


def _narrow(agent: Agent, run: Run, names: frozenset[str]) -> CallModel | CallAgent:
    assert agent.narrow is not None, "the piece requires it"
    return agent.narrow(run, names)


def _most_requests(rules: CallRules) -> int:
    return min(MOST_REQUESTS, len(rules.fillable))


@node(when_spent=limit_reached, asks=(0, 1))
def answer_repeats(replied: Replied, policies: Policies, rules: CallRules) -> Asks[CallModel | CallAgent, Replied]:
    """Ask once for the answer, instead of a reply that only repeats calls. Without an answer, keep the reply."""
    agent, seen = rules.agent, policies.trim(replied.run)
    actions = _actions_of(_read(agent, replied.reply))
    if not actions or not all(rules.is_futile(seen, action) for action in actions):
        return replied
    # The run ends with the result of such a tool.
    if any(tool.return_direct for action in actions if (tool := rules.find_tool(action))):
        return replied
    reply: ModelReply | Decided = yield policies.request(agent, replied.run, _ask_for_answer)
    return Replied(replied.run, reply) if _is_answer(_read(agent, reply)) else replied


def _ask_for_answer(agent: Agent, run: Run) -> CallModel | CallAgent:
    if agent.narrow is not None:
        return agent.narrow(run, frozenset())
    assert agent.conclude is not None, "the piece requires one of them"
    return agent.conclude(run)


@node
def refuse_dummies(acted: Acted, rules: CallRules) -> Acted:
    """Answer the calls with an argument copied from a worked example: their tools are not called."""
    for place in acted.open:
        result = rules.make_copied_result(acted.run, acted.actions[place])
        if result is not None:
            acted = acted.answer(place, result)
    return acted


@node
def refuse_repeats(acted: Acted, rules: CallRules) -> Acted:
    """Answer the calls that were made before with their earlier results. A call that stands twice is made once."""
    for place in acted.open:
        result = rules.make_earlier_result(acted.run, acted.actions[place])
        if result is not None:
            acted = acted.answer(place, result)
    left = acted.open
    for place, first in zip(left, rules.find_first_equal_calls([acted.actions[place] for place in left]), strict=True):
        if left[first] != place:
            acted = acted.answer(place, left[first])
    return acted


@node(when_spent=limit_reached)
def dispatch_known_tools(acted: Acted, rules: CallRules) -> Asks[CallTool, Observed]:
    """Call the tools as `dispatch_tools` does; answer the calls of unknown tools, and those with invalid arguments."""
    for place in acted.open:
        if (result := rules.make_unmade_result(acted.actions[place])) is not None:
            acted = acted.answer(place, result)
    # Any: a node does not type what its function yields.
    calling: Generator[Any, Any, Observed] = dispatch_tools.function(acted)
    return (yield from calling)


def rule_piece(name: RuleName) -> Piece:
    """Return the piece of a rule. It has no nodes in an executor whose calls it can never forbid."""
    return Piece(name, fit=partial(_make_nodes, name))


def rule_pieces(agent: Agent) -> tuple[Piece, ...]:
    """Return the pieces of an agent's rules. Raises `InputError` for invalid names."""
    # On the way out, the last of the list is met first: dummies are refused before repetitions.
    return tuple(map(rule_piece, sorted(validate_rules(agent.rules), reverse=True)))


def _make_nodes(name: RuleName, rules: CallRules) -> tuple[Node[Any, Any], ...]:
    """Return the nodes of a rule: one may ask the model again, one answers calls.

    Raises `InputError` for an agent that cannot ask again: it needs `narrow`, or against repetitions `conclude`.
    """
    agent, dummies = rules.agent, name == "no_dummies"
    if not (rules.fillable if dummies else rules.tools and rules.has_repeat_rule):
        return ()
    if agent.narrow is None and (dummies or agent.conclude is None):
        functions = "narrow" if dummies else "narrow and no conclude"
        raise InputError(
            f"{name} asks the model again, and the agent has no {functions} function; give it narrow(run, tools), "
            f"which asks for a decision with some of the tools, or leave out {name}"
        )
    if dummies:
        return dataclasses.replace(avoid_dummies, most=_most_requests(rules)), refuse_dummies
    return answer_repeats, refuse_repeats
