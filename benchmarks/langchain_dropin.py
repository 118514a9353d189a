"""The cost of a step of LangChain's agents through our `AgentExecutor`, beside LangChain's own.

    python benchmarks/langchain_dropin.py [--check]

A step is one decision and one call of a tool, in one run of 20. `planner` is an agent whose `plan` does nothing else,
`runnable` a function as a runnable, `model` a prompt, a chat model that does not wait, and LangChain's parser of tool
calls. The tool is made by LangChain's `@tool`; `subclass` calls one that is a class with `_run`, and `observed` has a
callback. `stream` and `async` are the same runs by `stream` and `ainvoke`. Both executors take turns in each round, and
the ratio is the median of the rounds. With `--check` the exit status is 1 if one is above the goal. It is not for
`model`, whose time is that of LangChain's own `plan`.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from langchain_classic.agents import AgentExecutor as LangChainExecutor
from langchain_classic.agents import BaseSingleActionAgent
from langchain_classic.agents import create_tool_calling_agent as create_langchain_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_core.agents import AgentAction, AgentFinish
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnableLambda
from langchain_core.tools import BaseTool, tool

from graphexec.integrations.langchain import AgentExecutor

STEPS, RUNS, ROUNDS = 20, 10, 15
GOAL = 0.9
INPUTS = {"input": "question"}


@tool
def look(query: str) -> str:
    """Look it up."""
    return query


class Look(BaseTool):
    """A tool that is a class."""

    name: str = "look"
    description: str = "Look it up."

    def _run(self, query: str) -> str:
        return query


def decide(steps: Any) -> AgentAction | AgentFinish:
    """Return the decision after these steps."""
    if len(steps) < STEPS:
        return AgentAction("look", {"query": "x"}, "log")
    return AgentFinish({"output": "done"}, "")


class Planner(BaseSingleActionAgent):
    """An agent that costs nothing."""

    @property
    def input_keys(self) -> list[str]:
        """The key of the question."""
        return ["input"]

    def plan(self, intermediate_steps: Any, callbacks: Any = None, **kwargs: Any) -> AgentAction | AgentFinish:
        """Return the decision."""
        del callbacks, kwargs
        return decide(intermediate_steps)

    async def aplan(self, intermediate_steps: Any, callbacks: Any = None, **kwargs: Any) -> AgentAction | AgentFinish:
        """Return the decision."""
        del callbacks, kwargs
        return decide(intermediate_steps)


class Model(FakeMessagesListChatModel):
    """A chat model that answers with its messages in turn."""

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        """Return the model."""
        del tools, kwargs
        return self


def make_model_agent() -> Any:
    """Return LangChain's agent for models that call tools."""
    call = AIMessage("", tool_calls=[{"name": "look", "args": {"query": "x"}, "id": "1"}])
    replies: list[BaseMessage] = [*[call] * STEPS, AIMessage("done")]
    prompt = ChatPromptTemplate([("human", "{input}"), ("placeholder", "{agent_scratchpad}")])
    return create_langchain_agent(Model(responses=replies), [look], prompt)  # pyright: ignore[reportUnknownVariableType]


def measure(executor: Any, method: str, config: Any) -> float:
    """Return the processor's microseconds for a step."""

    async def run_async() -> None:
        for _ in range(RUNS):
            await executor.ainvoke(INPUTS, config)

    gc.collect()
    began = time.process_time()
    if method == "ainvoke":
        asyncio.run(run_async())
    else:
        for _ in range(RUNS):
            output = executor.invoke(INPUTS, config) if method == "invoke" else [*executor.stream(INPUTS, config)][-1]
            assert output["output"] == "done"
    return (time.process_time() - began) / STEPS / RUNS * 1e6


def main() -> int:
    """Measure, print, and return the exit status."""

    # Any: LangChain does not say what it passes.
    def decide_on(inputs: Any) -> AgentAction | AgentFinish:
        return decide(inputs["intermediate_steps"])

    def make_runnable() -> Any:
        return RunnableLambda(decide_on)

    observed: Any = {"callbacks": [BaseCallbackHandler()]}
    # The agent, the tool, the method, and the config.
    rows: dict[str, tuple[Callable[[], Any], BaseTool, str, Any]] = {
        "planner": (Planner, look, "invoke", {}),
        "planner, subclass": (Planner, Look(), "invoke", {}),
        "runnable": (make_runnable, look, "invoke", {}),
        "model": (make_model_agent, look, "invoke", {}),
        "planner, async": (Planner, look, "ainvoke", {}),
        "runnable, async": (make_runnable, look, "ainvoke", {}),
        "planner, stream": (Planner, look, "stream", {}),
        "planner, observed": (Planner, look, "invoke", observed),
        "runnable, observed": (make_runnable, look, "invoke", observed),
    }
    print(f"{'µs a step':20}{'LangChain':>10}{'ours':>8}{'ratio':>8}")
    missed: list[str] = []
    for name, (make, called, method, config) in rows.items():
        kinds: tuple[Any, ...] = (LangChainExecutor, AgentExecutor)
        executors = [kind(agent=make(), tools=[called], max_iterations=STEPS + 1) for kind in kinds]
        for one in executors:
            measure(one, method, config)
        times = [[measure(one, method, config) for one in executors] for _ in range(ROUNDS)]
        ratio = median(ours / theirs for theirs, ours in times)
        theirs, ours = (min(one) for one in zip(*times, strict=True))
        print(f"{name:20}{theirs:10.0f}{ours:8.0f}{ratio:8.2f}")
        if ratio > GOAL and make is not make_model_agent:
            missed.append(name)
    if missed:
        print(f"more than {GOAL} times LangChain's own step: {', '.join(missed)}")
    return bool(missed) and "--check" in sys.argv


if __name__ == "__main__":
    sys.exit(main())
