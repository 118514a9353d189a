"""Agents whose tool notes when its calls begin and end, for workers that are killed."""

import os
import time
from pathlib import Path
from typing import Any

from graphexec import AgentAction, AgentExecutor, AgentFinish, AskHuman, Asks, ask, edges, node, on, tool
from graphexec.executor import Acted, Stopped, dispatch_tools, limit_reached, parse, stopped_response
from graphexec.kernel import END, Event, Failed

CALLS = 5


def make_executor(folder: Path, *, seconds: float = 0.03) -> AgentExecutor[Any]:
    """Return an agent that calls its tool `CALLS` times; each call takes so many seconds."""

    def note(fact: str, item: str) -> None:
        # One write is whole, whichever process makes it.
        file = os.open(folder / "calls", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
        os.write(file, f"{fact} {item} {os.getpid()}\n".encode())
        os.close(file)

    @tool
    def work(item: str) -> str:
        """Work on an item."""
        note("begin", item)
        time.sleep(seconds)
        note("end", item)
        return f"worked on {item}"

    def agent(steps: Any, inputs: Any) -> AgentAction | AgentFinish:
        name = inputs["input"]
        return (
            AgentFinish({"output": f"{name} is done"})
            if len(steps) == CALLS
            else AgentAction("work", f"{name}.{len(steps)}")
        )

    def observe(event: Event[Any]) -> None:
        if isinstance(event, Failed) and event.call is not None:
            note("failed", event.call.run_id)

    return AgentExecutor(agent=agent, tools=[work], observers=[observe])


def make_asking(folder: Path) -> AgentExecutor[Any]:
    """Return the same agent, which asks a person before its first call; a question of the run `other` soon expires."""

    @node(when_spent=limit_reached, asks=(0, 1))
    def approve(acted: Acted) -> Asks[AskHuman, Acted | AgentFinish]:
        if acted.run.steps:
            return acted
        seconds = 0.5 if acted.run.inputs["input"] == "other" else 3600.0
        answer = yield from ask(AskHuman("Work?", choices=("yes", "no"), expires_in=seconds, default="no"))
        return acted if answer == "yes" else AgentFinish({"output": "not approved"})

    rows = edges(approve, on(Acted, dispatch_tools) | on(AgentFinish, END) | on(Stopped, stopped_response))
    return make_executor(folder, seconds=0.0).splice(rows, after=parse, on=Acted)
