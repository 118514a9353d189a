"""Wrappers around a model: a cache, retries, a fallback, and prices, so that cost can be limited.

Each wrapper is itself a model around another one. Its actions appear as `Reported` events of the run. The
models are scripted, so that the example runs anywhere; see `react.py` for real ones.
"""

from graphexec import AgentExecutor, Event, Reported, create_react_agent, tool
from graphexec.errors import ServerError
from graphexec.messages import ModelReply, Usage
from graphexec.models import Price, ScriptedModel, cached, priced, retrying, with_fallbacks


@tool
def population(city: str) -> int:
    """The number of people who live in a city."""
    return {"Lisbon": 567_131, "Porto": 248_769}[city]


LOOK = ModelReply("Action: population\nAction Input: Porto", usage=Usage(1_000, 50), model="big-1")
ANSWER = ModelReply("Final Answer: 248769 people.", usage=Usage(1_200, 20), model="small-1")
AGAIN = ModelReply("Action: population\nAction Input: Lisbon", usage=Usage(1_400, 50), model="big-1")
DOWN = ServerError("the server is down")

big = ScriptedModel([DOWN, LOOK, DOWN, DOWN, AGAIN], repeat_last=True)
small = ScriptedModel([ANSWER])

# From the inside out: a second attempt; prices in money per million tokens; the fallback; and a cache, so that the same
# request is not paid twice.
costly = priced(retrying(big, attempts=2, first_wait=0.01), Price(prompt=2.0, completion=10.0))
cheap = priced(small, Price(prompt=0.1, completion=0.4))
model = cached(with_fallbacks(costly, cheap), {}, name="big, else small")


def print_report(event: Event[object]) -> None:
    """Print what the wrappers report."""
    if isinstance(event, Reported):
        print(f"  {event.node}: {type(event.news).__name__}")


executor = AgentExecutor(
    agent=create_react_agent(model, [population]), tools=[population], max_cost=0.01, observers=[print_report]
)

if __name__ == "__main__":
    porto = "How many people live in Porto?"
    for question in (porto, porto, "Which city is the largest?"):
        print(question)
        result = executor.run(question)
        answer = result.stopped.reason if result.stopped else result.output
        print(f"{answer} {result.spent['model_calls']} calls, {result.spent['cost']:.4f} spent.")
