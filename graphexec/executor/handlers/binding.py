"""The handlers of an executor, and the objects that its graph is bound to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from graphexec.actions import extending
from graphexec.agents import Agent
from graphexec.effects import CallAgent, CallModel, CallTool, LoadMemory, SaveMemory
from graphexec.errors import InputError
from graphexec.executor.handlers.functions import make_agent_handler
from graphexec.executor.handlers.models import make_model_handler
from graphexec.kernel.effects import Effect
from graphexec.kernel.graph import Graph
from graphexec.runtime.calls import hold_over_fork
from graphexec.runtime.handlers import Handler, HandlerLike
from graphexec.tools import AnyTool

if TYPE_CHECKING:
    from graphexec.memory import Memory

# Runs extend their steps in several threads.
hold_over_fork(extending)


@final
@dataclass(frozen=True, slots=True)
class Binding:
    """The agent that an executor's graph is bound to, and the objects that answer its effects."""

    agent: Agent
    # By the class of the effect: a model, a function, a memory, or tools by name.
    answers: Mapping[type[Effect[Any]], object]

    @classmethod
    def of(
        cls,
        agent: Agent,
        tools: Mapping[str, AnyTool],
        memory: Memory | None,
        handlers: Mapping[type[Effect[Any]], HandlerLike],
    ) -> Binding:
        """Return the binding of an executor with these; `handlers` take precedence."""
        answers: dict[type[Effect[Any]], object] = {CallModel: agent.model, CallAgent: agent.function, CallTool: tools}
        answers |= {LoadMemory: memory, SaveMemory: memory, **handlers}
        return cls(agent, {kind: answer for kind, answer in answers.items() if answer is not None})

    def require_same(self, graph: Graph[Any, Any]) -> None:
        """Raise `InputError` if nodes are bound to another agent, or if other objects would answer their effects."""
        conflicts: dict[str, list[str]] = {}
        for node in graph:
            # The nodes of an embedded executor are answered by their own world.
            bound = node.bound if node.world is None else ()
            for difference in dict.fromkeys(found for one in bound for found in self._differences(one)):
                conflicts.setdefault(difference, []).append(node.name)
        if conflicts:
            nodes = list(dict.fromkeys(name for names in conflicts.values() for name in names))
            raise InputError(
                f"{', '.join(nodes)} {'is' if len(nodes) == 1 else 'are'} bound to {' and '.join(conflicts)} than this "
                "executor's; to run the other agent, embed its executor, as in embed(inner, name), or pass "
                "inner.as_tool(name, description) in tools; to run this "
                "executor's agent, embed a graph that is bound to no executor, such as AGENT_EXECUTOR"
            )

    def _differences(self, setting: object) -> list[str]:
        match setting:
            case Agent():
                return [] if _is_same_agent(setting, self.agent) else ["another agent"]
            case Binding(agent, answers):
                if not _is_same_agent(agent, self.agent):
                    # Another agent has another model, too: report only the agent.
                    answers = {kind: answer for kind, answer in answers.items() if kind not in (CallModel, CallAgent)}
                return [
                    "other tools" if kind is CallTool else f"another handler of {kind.__name__}"
                    for kind, answer in answers.items()
                    if answer is not self.answers.get(kind) and answer != self.answers.get(kind)
                ]
            case _:
                return []


def _is_same_agent(one: Agent, other: Agent) -> bool:
    """Return true if both are one agent, or were made of the same function."""
    return one is other or (one.function is not None and one.function == other.function)


def validate_handlers(
    handlers: Mapping[type[Effect[Any]], HandlerLike] | None,
) -> Mapping[type[Effect[Any]], HandlerLike]:
    """Return the user's handlers; there may be none. Raises `InputError` for any other value."""
    # Callers without a type checker may pass another type.
    if handlers is not None and not isinstance(handlers, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"handlers is {handlers!r}; give a dict, for example {{AskHuman: function}}")
    return handlers or {}


def make_handlers(agent: Agent, memory: Memory | None) -> dict[type[Effect[Any]], HandlerLike]:
    """Return the handlers of the effects of an agent and of a memory."""
    handlers: dict[type[Effect[Any]], HandlerLike] = {}
    if agent.model is not None:
        handlers[CallModel] = make_model_handler(agent.model, agent.read)
    if agent.function is not None:
        decides = agent.function
        handlers[CallAgent] = decides if isinstance(decides, Handler) else make_agent_handler(decides)
    if memory is not None:
        # Imported here: few executors have a memory.
        from graphexec.memory.handlers import make_load_handler, make_save_handler

        handlers |= {LoadMemory: make_load_handler(memory), SaveMemory: make_save_handler(memory)}
    return handlers
