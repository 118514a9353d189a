"""Pictures: the machine, a run laid over it, the edges that several runs took, and a page with every step.

Formats with a layout need the extra `draw`: pip install 'graphexec-agents[draw]'.
"""

import sys
import tempfile
from pathlib import Path

from graphexec import AgentExecutor, create_react_agent, tool
from graphexec.models import ScriptedModel


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    return {"Lisbon": 567_131, "Porto": 248_769}[city]


script = [
    "Let me look it up.\nAction: population\nAction Input: Porto",
    "I now know the final answer\nFinal Answer: 248769 people live in Porto.",
    "Let me look it up.\nAction: population\nAction Input: Atlantis",
    "I now know the final answer\nFinal Answer: Atlantis is a legend.",
]
executor = AgentExecutor(agent=create_react_agent(ScriptedModel(script), [population]), tools=[population])

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
    executor.draw(folder / "machine.svg")
    first = executor.run("How many people live in Porto?")
    first.draw(folder / "run.svg")
    first.draw(folder / "run.html")
    second = executor.run("How many people live in Atlantis?")
    executor.draw(folder / "both.png", runs=[first, second])
    first.draw(folder / "run.txt")
    print(f"{executor.graph:text}")
    print("drawn:", ", ".join(sorted(path.name for path in folder.iterdir())))
