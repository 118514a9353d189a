"""A ReAct agent: thought, action and observation in plain text.

The model is scripted, so that the example runs anywhere; for a real one, write
`model = create_model("openai:gpt-5-mini")` (with OPENAI_API_KEY set) or `create_model("local")`.
"""

from graphexec import AgentExecutor, create_react_agent, tool
from graphexec.models import ScriptedModel


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    return {"Lisbon": 567_131, "Porto": 248_769}[city]


model = ScriptedModel(
    [
        "I need to look Lisbon up.\nAction: population\nAction Input: Lisbon",
        "And Porto.\nAction: population\nAction Input: Porto",
        "I now know the final answer\nFinal Answer: Lisbon, with 567131 people to Porto's 248769.",
    ]
)
executor = AgentExecutor(
    agent=create_react_agent(model, [population]), tools=[population], handle_parsing_errors=True, max_iterations=6
)

if __name__ == "__main__":
    result = executor.run("Which is larger, Lisbon or Porto?")
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
