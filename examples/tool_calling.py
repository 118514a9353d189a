"""A tool-calling agent: native tool calls, several at once, and a tool that needs time.

Both calls of the first step run at the same time. The model is scripted, so that the example runs anywhere; see
`react.py` for real ones.
"""

import asyncio
from typing import Literal

from graphexec import AgentExecutor, create_tool_calling_agent, tool
from graphexec.messages import ModelReply, ToolCall
from graphexec.models import ScriptedModel


@tool(timeout=5)
async def weather(city: str, unit: Literal["C", "F"] = "C") -> str:
    """The weather in a city now."""
    await asyncio.sleep(0.01)
    degrees = {"Oslo": 4, "Rome": 19}[city]
    return f"{degrees if unit == 'C' else degrees * 9 // 5 + 32} °{unit}"


model = ScriptedModel(
    [
        ModelReply(
            "",
            (ToolCall("1", "weather", '{"city": "Oslo"}'), ToolCall("2", "weather", '{"city": "Rome", "unit": "F"}')),
        ),
        "It is 4 °C in Oslo and 66 °F in Rome.",
    ]
)
executor = AgentExecutor(agent=create_tool_calling_agent(model, [weather]), tools=[weather], max_execution_time=30)

if __name__ == "__main__":
    result = asyncio.run(executor.arun("What is the weather in Oslo, and in Rome in Fahrenheit?"))
    for action, observation in result.steps:
        print(f"{action.tool}({action.tool_input}) -> {observation}")
    print(result.output)
    print(f"{result.spent['model_calls']} model calls, {result.spent['tool_calls']} tool calls, ended: {result.reason}")
