"""A run that waits for a person: paused to a file, and resumed later, possibly in another process.

There is no handler for `AskHuman`, so the run ends with `MissingHandlerError`, whose snapshot is the run. It contains
all replies so far; a resumed run does not ask for them again.
"""

import tempfile
from pathlib import Path

from graphexec import (
    AgentAction,
    AgentExecutor,
    AskHuman,
    Asks,
    Snapshot,
    advance,
    ask,
    create_react_agent,
    edges,
    node,
    on,
    snapshot_of,
    tool,
)
from graphexec.errors import MissingHandlerError
from graphexec.executor import Acted, Stopped, dispatch_tools, limit_reached, parse, stopped_response
from graphexec.kernel import PendingEffect
from graphexec.models import ScriptedModel


@tool
def send(text: str) -> str:
    """Send a message to everybody."""
    return f"sent: {text}"


@node(when_spent=limit_reached, asks=1)
def edit(acted: Acted) -> Asks[AskHuman, Acted]:
    """Let a person write the message that is sent."""
    (action,) = acted.actions
    text = yield from ask(AskHuman(f"Send {action.tool_input!r}? Write it as it is to be."))
    return Acted(acted.run, (AgentAction(action.tool, text, action.log),))


model = ScriptedModel(["Action: send\nAction Input: we r closed 2morrow", "Final Answer: Everybody knows."])
unattended = AgentExecutor(agent=create_react_agent(model, [send]), tools=[send])
rows = edges(edit, on(Acted, dispatch_tools) | on(Stopped, stopped_response))
executor = unattended.splice(rows, after=parse, on=Acted)


def pause(question: str, file: Path) -> None:
    """Run until a person is asked, and store the run."""
    try:
        executor.run(question)
    except MissingHandlerError as error:
        snapshot = snapshot_of(error)
        assert snapshot is not None
        file.write_text(snapshot.to_json(), encoding="utf-8")


def resume(answer: str, file: Path) -> str:
    """Resume the stored run with the person's answer."""
    snapshot = Snapshot.from_json(file.read_text(encoding="utf-8"), executor.graph)
    state = advance(executor.graph, snapshot, executor.limits)
    assert isinstance(state, PendingEffect)
    print(state.effect)
    result = executor.run(state.reply(answer))
    return f"{result.steps[-1].observation} / {result.output}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        stored = Path(folder) / "run.json"
        pause("Tell everybody that we are closed tomorrow.", stored)
        print(resume("We are closed tomorrow.", stored))
