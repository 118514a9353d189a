"""A person may extend a run: when the iterations are used up they are asked, and can reset them at most twice.

The edge back to `plan` resets the iterations. A piece has no edges of its own that could say so: `splice` puts the row
of `ask_for_more` onto one edge. Without a budget it would create a loop that may not terminate: the proof would fail,
and the executor would be refused. `ask_for_more` costs one of a meter that nothing resets.
"""

from graphexec import AgentExecutor, AskHuman, Asks, Meter, ask, create_react_agent, edges, node, on, tool
from graphexec.executor import Ready, Stopped, limit_reached, plan, stopped_response
from graphexec.kernel import ITERATIONS
from graphexec.models import ScriptedModel

EXTENSIONS = Meter("extensions", 2)


@node(when_spent=limit_reached, meters=[EXTENSIONS], asks=1)
def ask_for_more(reached: Stopped) -> Asks[AskHuman, Ready | Stopped]:
    """Ask a person whether to continue."""
    answer = yield from ask(AskHuman(f"After {len(reached.run.steps)} steps {reached.cause}. Go on?"))
    return Ready(reached.run) if answer == "yes" else reached


rows = edges(ask_for_more, on(Ready, plan, resets=[ITERATIONS]) | on(Stopped, stopped_response))


@tool
def dig(where: str) -> str:
    """Dig a little deeper."""
    return f"{where}: earth"


model = ScriptedModel(["Deeper.\nAction: dig\nAction Input: the garden"], repeat_last=True)
strict = AgentExecutor(
    agent=create_react_agent(model, [dig]),
    tools=[dig],
    max_iterations=3,
    max_fan_out=1,
    handlers={AskHuman: lambda asked: print(asked.question, "yes") or "yes"},
)
executor = strict.splice(rows, after=plan, on=Stopped)

if __name__ == "__main__":
    print(executor.verify())
    result = executor.run("Find the treasure.")
    print(result.output, result.spent["model_calls"])
