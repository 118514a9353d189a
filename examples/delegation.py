"""An agent within an agent: the inner agent carries out the actions of the outer one, with its own iterations.

The inner machine is embedded in the outer one, with nodes named `research.plan` and so on: one table, one picture, one
proof.
"""

from graphexec import (
    END,
    AgentAction,
    AgentExecutor,
    AgentFinish,
    AgentStep,
    Budget,
    StoppedResponse,
    create_react_agent,
    edges,
    embed,
    graph,
    node,
    on,
    tool,
)
from graphexec.actions import Run
from graphexec.executor import Acted, LimitReached, Ready, Replied, parse, plan, stopped_response
from graphexec.models import ScriptedModel


@tool
def search(query: str) -> str:
    """Search the archive."""
    return f"Nothing about {query}."


model = ScriptedModel(
    [
        "I need the archive.\nAction: research\nAction Input: elm trees",
        "Let me see.\nAction: search\nAction Input: elm",
        "Final Answer: The archive has nothing about elms.",
        "Final Answer: Nobody knows.",
    ]
)
alone = AgentExecutor(agent=create_react_agent(model, [search]), tools=[search], max_iterations=4, max_fan_out=1)
research = embed(alone.graph, "research", own=[Budget("iterations", 2)])


@node
def delegate(acted: Acted) -> Ready:
    """Pass the first action's input to the inner agent as its question, without earlier steps."""
    task = str(acted.actions[0].tool_input)
    return Ready(Run({"input": task, "outer": acted.run}))


@node
def report(finish: AgentFinish) -> Ready:
    """Continue the outer run, in which the inner run is a single step."""
    outer: Run = finish.run.inputs["outer"]
    return Ready(outer.with_steps([AgentStep(AgentAction("research", finish.run.inputs["input"]), finish.output)]))


machine = graph(
    edges(plan, on(Replied, parse) | on(LimitReached, stopped_response))
    | edges(parse, on(Acted, delegate) | on(Ready, plan) | on(AgentFinish, END))
    | edges(delegate, on(Ready, research))
    | edges(research, on(AgentFinish, report) | on(StoppedResponse, END))
    | edges(report, on(Ready, plan))
    | edges(stopped_response, on(StoppedResponse, END)),
    start=plan,
)

executor = alone.with_graph(machine)

if __name__ == "__main__":
    result = executor.run("Why do elms die?")
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
    print(executor.verify())
