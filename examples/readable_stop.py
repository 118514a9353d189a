"""A readable report of a stopped run: the limit, its value, and the steps so far.

A stop is a result, not an exception: all finished steps are in it.
"""

from graphexec import AgentExecutor, RunResult, create_react_agent, tool
from graphexec.models import ScriptedModel


@tool
def search(query: str) -> str:
    """Search the archive."""
    return f"3 documents mention {query}, none answers the question"


model = ScriptedModel(["Once more.\nAction: search\nAction Input: dragons"], repeat_last=True)
executor = AgentExecutor(agent=create_react_agent(model, [search]), tools=[search], max_iterations=3)


def report(result: RunResult) -> str:
    """Return a readable report of how a run ended."""
    if result.stopped is None:
        return f"Answer: {result.output}"
    found = "\n".join(f"  {number}. {step.observation}" for number, step in enumerate(result.steps, 1))
    return f"No answer. {result.stopped.reason}\nFound so far:\n{found}"


if __name__ == "__main__":
    print(report(executor.run("Where do dragons live?")))
