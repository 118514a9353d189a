"""The nodes of the rules: two that may ask the model again before its reply is parsed, and two that answer calls."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Mapping, Sequence
from functools import partial
from typing import Any

from graphexec.actions import AgentAction, AgentFinish, Run
from graphexec.agents import Agent, Decision
from graphexec.agents.agent import RuleName
from graphexec.agents.prompt import format_observation
from graphexec.effects import CallAgent, CallModel, CallTool, Decided
from graphexec.errors import InputError, ParseError
from graphexec.executor.rules.calls import CallRules
from graphexec.executor.table import (
    Acted,
    Observed,
    Policies,
    Replied,
    dispatch_tools,
    limit_reached,
    read_once,
)
from graphexec.kernel.effects import Asks
from graphexec.kernel.node import Node, node
from graphexec.messages import ModelReply

# The most requests of a visit that avoids dummies. A compromise: each costs a model call, and may be the one without a
# copied argument.
MOST_REQUESTS = 3


def _read(agent: Agent, run: Run, reply: ModelReply | Decided) -> Decision:
    """Return the decision in a reply; no action if it cannot be read: that is left to `parse`."""
    try:
        return read_once(agent, run, reply)
    except ParseError:
        return ()


def _actions_of(decision: Decision) -> tuple[AgentAction, ...]:
    return () if isinstance(decision, AgentFinish) else decision


def _is_answer(decision: Decision) -> bool:
    return isinstance(decision, AgentFinish) and bool(format_observation(decision.answer).strip())


@node(when_spent=limit_reached, asks=(0, MOST_REQUESTS))
def avoid_dummies(replied: Replied, policies: Policies, rules: CallRules) -> Asks[CallModel | CallAgent, Replied]:
    """Ask the model again if its reply calls a tool with an argument copied from a worked example.

    The first request allows only values of the question as that argument, if the agent has `choose` and the question
    has values. Every other request is without the tools that were called in this way. There are at most as many
    requests as tools with arguments that can be copied. If the replies do not get better, the first one is kept.
    """
    agent, run, reply = rules.agent, replied.run, replied.reply
    allowed = frozenset(rules.tools)
    decision = _read(agent, run, reply)
    for request in range(_most_requests(rules)):
        if not (copying := rules.copying_tools(run, _actions_of(decision))):
            break
        choices = None if request else rules.known_choices(run, _actions_of(decision))
        if agent.choose is not None and choices is not None:
            reply = yield policies.request(agent, run, partial(_choose, choices=choices))
        else:
            allowed -= copying
            reply = yield policies.request(agent, run, partial(_narrow, names=allowed))
        decision = _read(agent, run, reply)
    actions = _actions_of(decision)
    better = actions and not rules.copying_tools(run, actions)
    return Replied(run, reply) if better or _is_answer(decision) else replied


def _choose(agent: Agent, run: Run, choices: tuple[str, Mapping[str, Sequence[Any]]]) -> CallModel | CallAgent:
    assert agent.choose is not None, "avoid_dummies checks it"
    return agent.choose(run, *choices)


def _narrow(agent: Agent, run: Run, names: frozenset[str]) -> CallModel | CallAgent:
    assert agent.narrow is not None, "add_rules requires it"
    return agent.narrow(run, names)


def _most_requests(rules: CallRules) -> int:
    return min(MOST_REQUESTS, len(rules.fillable))


@node(when_spent=limit_reached, asks=(0, 1))
def answer_repeats(replied: Replied, policies: Policies, rules: CallRules) -> Asks[CallModel | CallAgent, Replied]:
    """Ask once for the answer, instead of a reply that only repeats calls. Without an answer, keep the reply."""
    agent, seen = rules.agent, policies.trim(replied.run)
    actions = _actions_of(_read(agent, replied.run, replied.reply))
    if not actions or not all(rules.is_futile(seen, action) for action in actions):
        return replied
    # The run ends with the result of such a tool.
    if any(tool.return_direct for action in actions if (tool := rules.find_tool(action))):
        return replied
    reply: ModelReply | Decided = yield policies.request(agent, replied.run, _ask_for_answer)
    return Replied(replied.run, reply) if _is_answer(_read(agent, replied.run, reply)) else replied


def _ask_for_answer(agent: Agent, run: Run) -> CallModel | CallAgent:
    if agent.narrow is not None:
        return agent.narrow(run, frozenset())
    assert agent.conclude is not None, "add_rules requires one of them"
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


def require_rules(rules: CallRules) -> None:
    """Raise `InputError` for an agent without the functions that ask again for its rules.

    It needs `narrow`, or for the rules against repetitions `narrow` or `conclude`.
    """
    agent = rules.agent
    if not (rules.fillable or rules.has_repeat_rule):
        return
    if agent.narrow is None and (rules.fillable or agent.conclude is None):
        functions = "narrow" if rules.fillable else "narrow and no conclude"
        raise InputError(
            f"the agent has rules={agent.rules!r} but no {functions} function; give it narrow(run, tools), which asks "
            "for a decision with some of the tools, or leave out the rules"
        )


def nodes_of_rule(name: RuleName, rules: CallRules) -> tuple[Node[Any, Any], ...]:
    """Return the nodes of a rule: one may ask the model again, one answers calls. A rule that forbids none has none."""
    if name == "no_dummies":
        if not rules.fillable:
            return ()
        return dataclasses.replace(avoid_dummies, most=_most_requests(rules)), refuse_dummies
    return (answer_repeats, refuse_repeats) if rules.tools and rules.has_repeat_rule else ()
