"""An agent within an agent: the inner agent carries out calls of the outer one, with its own model, tools and limit.

The inner machine is embedded in the outer one, with nodes named `research.plan` and so on: one table, one picture, one
proof. The outer run is saved meanwhile, also in a snapshot.
"""

from graphexec import AgentExecutor, AgentFinish, Meter, StoppedResponse, create_react_agent, embed, tool
from graphexec.actions import Run
from graphexec.effects import ToolResult
from graphexec.executor import Acted, Ready
from graphexec.models import ScriptedModel


@tool
def search(query: str) -> str:
    """Search the archive."""
    return f"Nothing about {query}."


@tool
def research(task: str) -> str:
    """Find out what the archive has about a subject."""
    return f"Nobody has researched {task}."


archivist = ScriptedModel(
    ["Let me see.\nAction: search\nAction Input: elm", "Final Answer: The archive has nothing about elms."]
)
inner = AgentExecutor(agent=create_react_agent(archivist, [search]), tools=[search], max_fan_out=1)


def brief(acted: Acted) -> Ready | Acted:
    """Give the task to the inner agent as its question, unless another tool is called."""
    action = acted.actions[0]
    return Ready(Run({"input": str(action.tool_input)})) if action.tool == "research" else acted


def report(ending: AgentFinish | StoppedResponse, acted: Acted) -> Acted:
    """Answer the call with what the inner agent says."""
    return acted.answer(0, ToolResult(ending.output))


delegate = embed(inner, "delegate", own=[Meter("iterations", 2)], enter=brief, leave=report)

model = ScriptedModel(
    ["I need the archive.\nAction: research\nAction Input: elm trees", "Final Answer: Nobody knows."],
)
executor = AgentExecutor(
    agent=create_react_agent(model, [research]), tools=[research], max_iterations=4, max_fan_out=1, nodes=[delegate]
)

if __name__ == "__main__":
    result = executor.run("Why do elms die?")
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
    print(executor.verify())
