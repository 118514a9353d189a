"""A custom node: a guard between `parse` and `dispatch_tools`, which asks a person.

Nothing else changes: the guard is spliced onto one edge, and the picture, the checks and the run include it.
"""

from graphexec import (
    END,
    AgentExecutor,
    AgentFinish,
    AskHuman,
    Asks,
    ask,
    charged,
    create_react_agent,
    edges,
    node,
    on,
    tool,
)
from graphexec.executor import Acted, LimitReached, dispatch_tools, limit_reached, parse, stopped_response
from graphexec.models import ScriptedModel


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@charged(when_spent=limit_reached)
@node
def approve(acted: Acted) -> Asks[AskHuman, Acted | AgentFinish]:
    """Ask a person before anything is deleted."""
    for action in acted.actions:
        if action.tool == "delete_file":
            answer = yield from ask(AskHuman(f"May I delete {action.tool_input}? (yes/no)"))
            if answer != "yes":
                return AgentFinish({"output": "I was not allowed to delete it."})
    return acted


model = ScriptedModel(["It is old.\nAction: delete_file\nAction Input: notes.txt", "Final Answer: Deleted."])
unguarded = AgentExecutor(
    agent=create_react_agent(model, [delete_file]),
    tools=[delete_file],
    handlers={AskHuman: lambda asked: print(asked.question, "no") or "no"},
)
rows = edges(approve, on(Acted, dispatch_tools) | on(AgentFinish, END) | on(LimitReached, stopped_response))
executor = unguarded.splice(rows, after=parse, on=Acted)

if __name__ == "__main__":
    print(executor.run("Tidy up my notes.").output)
    print(executor.graph)
