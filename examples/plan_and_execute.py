"""Plan and execute: the model first makes a plan, once; then the usual loop works through it.

`make_plan` is a piece that runs once, before the agent's first decision: one table, one picture, one proof. The plan
becomes an input of the run, and the agent's prompt contains it.
"""

import dataclasses

from graphexec import AgentExecutor, Asks, ask, create_react_agent, node, tool
from graphexec.effects import CallModel
from graphexec.executor import Ready, limit_reached
from graphexec.messages import ChatRequest, UserMessage
from graphexec.models import ScriptedModel
from graphexec.nodes import Piece

PROMPT = """\
Work through the plan, a step at a time, with these tools:
{tools}

Write "Action:" with one of {tool_names} and "Action Input:", or "Final Answer:" when the plan is done.

Task: {input}
The plan:
{plan}

Thought: {agent_scratchpad}"""


@tool
def population(country: str) -> int:
    """The number of people who live in a country."""
    return {"Malta": 563_443, "Iceland": 389_444}[country]


@tool
def area(country: str) -> int:
    """The area of a country in square kilometres."""
    return {"Malta": 316, "Iceland": 103_000}[country]


@node(when_spent=limit_reached, asks=1)
def make_plan(ready: Ready) -> Asks[CallModel, Ready]:
    """Ask the model for a numbered plan, and add it to the inputs of the run."""
    question = f"Make a numbered plan for this task, one line for each step: {ready.run.inputs['input']}"
    reply = yield from ask(CallModel(ChatRequest((UserMessage(question),))))
    return Ready(dataclasses.replace(ready.run, inputs={**ready.run.inputs, "plan": reply.content}))


model = ScriptedModel(
    [
        "1. Find the population of Malta.\n2. Find its area.\n3. Divide the one by the other.",
        "Step 1.\nAction: population\nAction Input: Malta",
        "Step 2.\nAction: area\nAction Input: Malta",
        "Step 3: 563443 / 316 is about 1783.\nFinal Answer: About 1783 people live on each square kilometre of Malta.",
    ]
)
tools = [population, area]
# The caller passes the task; the run makes the plan.
agent = dataclasses.replace(create_react_agent(model, tools, prompt=PROMPT), input_keys=("input",))
planning = Piece("planning", (make_plan,), once=True)
executor = AgentExecutor(agent=agent, tools=tools, max_iterations=6, max_fan_out=1, nodes=[planning])

if __name__ == "__main__":
    result = executor.run("How densely is Malta populated?")
    print(result.ending.run.inputs["plan"])
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
    print(executor.verify())
