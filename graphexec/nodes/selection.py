"""A piece that offers the model only the tools that a task needs: `select_tools`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from graphexec._arguments import MODEL, NAME, optional, validate, validate_each, whole
from graphexec._parsing import compile_lazily
from graphexec.agents import Agent
from graphexec.agents.asides import require_fewer_tools
from graphexec.agents.calls import CallRules
from graphexec.effects import AttemptModel
from graphexec.executor.nodes import Policies
from graphexec.executor.outcomes import Ready
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, ask
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import Node, node
from graphexec.messages import ChatRequest, Model, UserMessage
from graphexec.nodes._texts import choose_model, describe_task, read_text

SELECTION_REQUEST = """\
Choose the tools that are useful for this task:
{task}

The tools are:
{tools}

Write the names of at most {most} tools, the most useful first, one a line, and nothing else."""

_WORD = compile_lazily(r"[^\s,;:\"'`*()\[\]{}]+")


@dataclass(frozen=True, slots=True)
class AskSelector(AttemptModel):
    """Ask the model of `select_tools` which tools are useful."""


def select_tools(
    max_tools: int = 3, *, always: Sequence[str] = (), model: Model | None = None, name: str = "select_tools"
) -> Piece:
    """Offer the model only the tools that are useful for the task, which a model chooses before the first decision.

    At most `max_tools` are chosen. The tools in `always` and those of other pieces, such as `write_todos`, are always
    offered. The choice is made by `model`, or by the agent's. Names that it makes up are ignored. All tools are offered
    if it names none, if its call fails, and if a limit leaves no call for it.

        from graphexec.nodes import select_tools

        executor = create_agent(model, many_tools, nodes=[select_tools(max_tools=3, always=["search"])])
        print(executor.run("What is the weather in Rome?").output)

    It adds one transition and one model call to a run; none where it has nothing to choose. Raises `InputError` for an
    invalid argument, and the executor raises it for a tool that it does not have, and for an agent that cannot offer
    fewer tools.
    """
    validate(
        "select_tools",
        ("max_tools", max_tools, whole(1)),
        ("model", model, optional(MODEL, "the agent's")),
        ("name", name, NAME),
    )
    kept = validate_each("always", always, str, "names of tools")
    effect, handlers = choose_model(model, AskSelector)

    def offer_all(ready: Ready, _: Exhausted) -> Ready:
        return ready

    @node(name=name, when_spent=offer_all, asks=(0, 1))
    def select(ready: Ready, agent: Agent, policies: Policies) -> Asks[AttemptModel, Ready]:
        """Choose the tools that the model is offered."""
        fixed = {*kept, *policies.piece_tools}
        tools = [tool for tool in agent.tools or () if tool.name not in fixed]
        if len(tools) <= max_tools:
            return ready
        listing = "\n".join(f"- {tool.name}: {tool.description}" for tool in tools)
        text = SELECTION_REQUEST.format(task=describe_task(ready.run), tools=listing, most=max_tools)
        words = _WORD().findall(read_text((yield from ask(effect(ChatRequest([UserMessage(text)]))))))
        known = {tool.name for tool in tools}
        chosen = [word for word in dict.fromkeys(word.rstrip(".") for word in words) if word in known][:max_tools]
        if not chosen:
            return ready
        offered = tuple(tool.name for tool in agent.tools or () if tool.name in fixed or tool.name in chosen)
        return Ready(ready.run.with_aside(tools=offered))

    selecting = dataclasses.replace(select, effects=(effect,))

    def fit(rules: CallRules) -> tuple[Node[Any, Any], ...]:
        require_fewer_tools(rules.agent)
        return (selecting,)

    return Piece(name, (selecting,), once=True, handlers=handlers, tool_names=kept, fit=fit)
