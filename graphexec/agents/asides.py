"""Requests of a run with an aside: a summary in place of hidden steps, notes, and fewer tools."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from graphexec.actions import AgentAction, AgentStep, Run, Steps
from graphexec.agents.agent import Agent, find_remake
from graphexec.effects import CallAgent, CallModel
from graphexec.errors import InputError
from graphexec.messages import ChatRequest, Message, ModelRequest, SystemMessage
from graphexec.messages.turns import Conversation

# The tool name in the step that stands for hidden steps; no tool has such a name.
SUMMARY_TOOL = "_Summary"


def show_steps(run: Run, select: Callable[[Steps], Sequence[AgentStep]] | None) -> Run:
    """Return the run with the steps that the model is shown, as `select` leaves them, behind the summary.

    Its aside hides nothing any more. The cost is linear in the number of steps shown if some are hidden or cleared.
    """
    aside = run.aside
    shown = run.steps
    if aside.hidden or aside.cleared:
        cleared = {one.step: one for one in aside.cleared}
        several = [cleared[place].of(step) if place in cleared else step for place, step in enumerate(run.steps)]
        shown = Steps(several[aside.hidden :])
    selected: Sequence[AgentStep] = shown if select is None else select(shown)
    if aside.summary:
        # The log is what the model wrote, as far as it knows.
        action = AgentAction(SUMMARY_TOOL, "", "I have summarized the earlier steps.")
        selected = [AgentStep(action, aside.summary), *selected]
    if selected is run.steps:
        return run
    return Run(run.inputs, Steps(selected), dataclasses.replace(aside, hidden=0, summary="", cleared=()))


def ask_with_aside(agent: Agent, run: Run, ask: Callable[[Agent, Run], CallModel | CallAgent]) -> CallModel | CallAgent:
    """Return the request that `ask` makes of an agent for a run whose steps are those shown, with its aside applied.

    A callable agent gets the run with its aside. Raises `InputError` as `require_fewer_tools` does.
    """
    aside = run.aside
    if aside.tools is not None and agent.tools is not None:
        agent = _offer(agent, frozenset(aside.tools))
    effect = ask(agent, run)
    notes = "\n\n".join(note for note in aside.notes.values() if note)
    if not notes or isinstance(effect, CallAgent):
        return effect
    return CallModel(add_notes(effect.request, notes))


def require_fewer_tools(agent: Agent) -> None:
    """Raise `InputError` for an agent that cannot offer its model only some of its tools.

    An agent without a list of tools, such as a function, can: it reads `run.aside.tools`, or ignores them.
    """
    if agent.tools is not None and find_remake(agent) is None:
        raise InputError(
            f"the agent ({agent.kind}) offers all of its tools in each request; give it remake(tools), or make it with "
            "create_agent or another create_... function"
        )


def _offer(agent: Agent, names: frozenset[str]) -> Agent:
    """Return the agent whose requests offer only these tools, and the one that its first call must be of."""
    require_fewer_tools(agent)
    tools = [tool for tool in agent.tools or () if tool.name in {*names, agent.tool_choice}]
    if tools or agent.narrow is None:
        return agent.with_tools(tools)
    # Without any tool, the definitions stay: earlier calls in the conversation may need them.
    narrow = agent.narrow

    def ask_without(run: Run, _: frozenset[str] = frozenset()) -> CallModel | CallAgent:
        return narrow(run, frozenset())

    return dataclasses.replace(agent, ask=ask_without, narrow=ask_without)


def add_notes(request: ModelRequest, notes: str) -> ModelRequest:
    """Return the request with notes at the end of its system message, or before its prompt."""
    if not isinstance(request, ChatRequest):
        return dataclasses.replace(request, prompt=f"{notes}\n\n{request.prompt}")
    messages = request.messages
    if isinstance(messages, Conversation):
        return dataclasses.replace(request, messages=messages.with_head(lambda head: _add_to_system(head, notes)))
    return dataclasses.replace(request, messages=_add_to_system(messages, notes))


def _add_to_system(messages: Sequence[Message], notes: str) -> tuple[Message, ...]:
    match messages:
        case [SystemMessage(content), *others]:
            return (SystemMessage(f"{content}\n\n{notes}"), *others)
        case _:
            return (SystemMessage(notes), *messages)
