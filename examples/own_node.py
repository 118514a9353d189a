"""A custom node: a guard on the tool calls, plugged into an agent.

The guard takes `Acted`, so it sits before `dispatch_tools` on every way to a tool. The picture, the proof and the run
include it. Tests, pictures and `unplug` know it by the name of its function.
"""

from graphexec import create_agent, node
from graphexec.effects import ToolResult
from graphexec.executor import Acted, Stopped
from graphexec.models import ScriptedModel


def delete_file(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


@node
def protect_notes(acted: Acted) -> Acted | Stopped:
    """Answer calls that would delete a note in the place of the tool; end the run if the model wants all files."""
    for place, action in enumerate(acted.actions):
        path = str(action.tool_input)  # what the model wrote; it may be anything
        if "*" in path:
            return Stopped.by_refusal(acted.run, "protect_notes", "it wants to delete all files")
        if ".txt" in path:
            acted = acted.answer(place, ToolResult(f"{path} is protected.", "rejected"))
    return acted


model = ScriptedModel(
    [
        "They are old.\nAction: delete_file\nAction Input: notes.txt",
        "Then the log.\nAction: delete_file\nAction Input: run.log",
        "And now the rest.\nAction: delete_file\nAction Input: *",
    ]
)
executor = create_agent(model, [delete_file], kind="react", nodes=[protect_notes])

if __name__ == "__main__":
    result = executor.run("Tidy up my notes.")
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
    print(executor.seats())
