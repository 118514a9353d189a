"""A person may extend a run: when the iterations are used up they are asked, and can reset them at most twice.

The edge back to `plan` resets the iterations, so without a budget it would create a loop that may not terminate: the
proof would fail, and the executor would be refused. `ask_for_more` is metered with a budget that nothing resets.
"""

from graphexec import (
    END,
    AgentExecutor,
    AgentFinish,
    AskHuman,
    Asks,
    Budget,
    StoppedResponse,
    ask,
    create_react_agent,
    edges,
    graph,
    metered,
    node,
    on,
    tool,
)
from graphexec.executor import (
    Acted,
    LimitReached,
    Observed,
    Ready,
    Replied,
    check_return_direct,
    dispatch_tools,
    limit_reached,
    parse,
    plan,
    stopped_response,
)
from graphexec.kernel import ITERATIONS
from graphexec.models import ScriptedModel

EXTENSIONS = Budget("extensions", 2)


@metered(when_spent=limit_reached, budget=EXTENSIONS, asks=1)
@node
def ask_for_more(reached: LimitReached) -> Asks[AskHuman, Ready | LimitReached]:
    """Ask a person whether to continue."""
    answer = yield from ask(AskHuman(f"After {len(reached.run.steps)} steps {reached.limit}. Go on?"))
    return Ready(reached.run) if answer == "yes" else reached


machine = graph(
    edges(plan, on(Replied, parse) | on(LimitReached, ask_for_more))
    | edges(ask_for_more, on(Ready, plan, resets=[ITERATIONS]) | on(LimitReached, stopped_response))
    | edges(parse, on(Acted, dispatch_tools) | on(Ready, plan) | on(AgentFinish, END))
    | edges(dispatch_tools, on(Observed, check_return_direct) | on(LimitReached, stopped_response))
    | edges(check_return_direct, on(Ready, plan) | on(AgentFinish, END))
    | edges(stopped_response, on(StoppedResponse, END)),
    start=plan,
)


@tool
def dig(where: str) -> str:
    """Dig a little deeper."""
    return f"{where}: earth"


model = ScriptedModel(["Deeper.\nAction: dig\nAction Input: the garden"], repeat_last=True)
executor = AgentExecutor(
    agent=create_react_agent(model, [dig]),
    tools=[dig],
    max_iterations=3,
    max_fan_out=1,
    handlers={AskHuman: lambda asked: print(asked.question, "yes") or "yes"},
).with_graph(machine)

if __name__ == "__main__":
    print(executor.verify())
    result = executor.run("Find the treasure.")
    print(result.output, result.spent["model_calls"])
