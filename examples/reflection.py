"""Reflection: the model reviews the answer before the run ends with it.

`reflect` takes `AgentFinish`, so it sits on both edges on which an answer ends the run: the agent's answer, and the
result of a tool with `return_direct`. It asks the model what is missing; if something is, the remark becomes a step and
the run returns to `plan`, which is metered, so the run still ends within its iterations. `graphexec.nodes.critic` is a
piece like it with a bound of its own.
"""

from graphexec import AgentAction, AgentExecutor, AgentFinish, AgentStep, Asks, ask, create_react_agent, node, tool
from graphexec.effects import CallModel
from graphexec.executor import Ready
from graphexec.messages import ChatRequest, UserMessage
from graphexec.models import ScriptedModel


@tool
def height(mountain: str) -> int:
    """The height of a mountain in metres."""
    return {"Zugspitze": 2962, "Watzmann": 2713}[mountain]


@node
def reflect(finish: AgentFinish) -> Asks[CallModel, AgentFinish | Ready]:
    """Ask the model what is missing from its answer."""
    question = f"{finish.run.inputs['input']}\nAnswer: {finish.output}\nSay OK, or what is missing."
    reply = yield from ask(CallModel(ChatRequest((UserMessage(question),))))
    if reply.content == "OK":
        return finish
    remark = AgentStep(AgentAction("reflect", finish.output, finish.log), reply.content)
    return Ready(finish.run.with_steps([remark]))


model = ScriptedModel(
    [
        "Action: height\nAction Input: Zugspitze",
        "Final Answer: 2962",
        "The unit is missing.",
        "Final Answer: 2962 metres",
        "OK",
    ]
)
hasty = AgentExecutor(agent=create_react_agent(model, [height]), tools=[height], max_iterations=6)
executor = hasty.plug(reflect)

if __name__ == "__main__":
    result = executor.run("How high is the Zugspitze?")
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
