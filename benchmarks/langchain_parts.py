"""A step with LangChain's chat model and tool: in this executor, and in LangChain's own `create_agent`.

    python benchmarks/langchain_parts.py [--check]

A step is a reply of a scripted chat model with one call, and the call of a trivial tool: the same objects of LangChain
on both sides, with its callbacks. Times are of the processor, in microseconds a step of a run of 50, the least of
rounds in which all take turns; ratios are the median of those of the rounds. `parts` are the model and the tool called
alone, without a loop. With `--check` the exit status is 1 if the executor's step, not async, takes more than the goal.
"""

# Some of the package has no types, and it chooses the parameters.
# ruff: noqa: ARG002
# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from langchain.agents import create_agent as create_langchain_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool

import graphexec

STEPS, ROUNDS = 50, 21
GOAL = 0.6
QUESTION = "Go on."


@tool
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


class Calls(BaseChatModel):
    """A chat model that calls the tool until there are enough results."""

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Return the model with the tools, as those of providers do."""
        return self.bind(tools=tools, **options)

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        done = sum(1 for message in messages if type(message) is ToolMessage)
        calls = [{"name": "double", "args": {"x": done}, "id": f"call_{done}"}] if done < STEPS else []
        return ChatResult(generations=[ChatGeneration(message=AIMessage("" if calls else "done", tool_calls=calls))])

    async def _agenerate(self, messages: Any, stop: Any = None, run_manager: Any = None, **options: Any) -> ChatResult:
        return self._generate(messages)


def call_parts(model: BaseChatModel) -> None:
    """Call the model with a growing history, and the tool, as a loop without a library does."""
    bound, messages = model.bind_tools([double]), [HumanMessage(QUESTION)]
    for _ in range(STEPS):
        reply = bound.invoke(messages)
        messages += [reply, double.invoke({**reply.tool_calls[0], "type": "tool_call"})]
    bound.invoke(messages)


def measure(work: Callable[[], object]) -> float:
    """Return the time of the processor for one of the steps that a function makes."""
    gc.collect()
    began = time.process_time()
    work()
    return (time.process_time() - began) / STEPS * 1e6


def main() -> int:
    """Measure, print, and return the exit status."""
    model = Calls()
    ours = graphexec.create_agent(model, [double], kind="tool_calling", max_iterations=2 * STEPS)
    theirs = create_langchain_agent(model, [double])
    asked: Any = {"messages": [{"role": "user", "content": QUESTION}]}
    limits: Any = {"recursion_limit": 3 * STEPS}
    rows: dict[str, Callable[[], object]] = {
        "parts": lambda: call_parts(model),
        "executor": lambda: ours.run(QUESTION),
        "create_agent": lambda: theirs.invoke(asked, limits),
        "executor, async": lambda: asyncio.run(ours.arun(QUESTION)),
        "create_agent, async": lambda: asyncio.run(theirs.ainvoke(asked, limits)),
    }
    assert ours.run(QUESTION).output == theirs.invoke(asked, limits)["messages"][-1].content == "done"
    times = [{name: measure(work) for name, work in rows.items()} for _ in range(ROUNDS)]
    ratios = dict[str, float]()
    for name in rows:
        least, ratio = min(one[name] for one in times), ""
        if name.startswith("executor"):
            ratios[name] = median(one[name] / one[name.replace("executor", "create_agent")] for one in times)
            ratio = f"{ratios[name]:8.2f} of create_agent's"
        print(f"{name:24}{least:8.0f} µs{ratio}")
    print(f"the goal is {GOAL:.1f}")
    return int("--check" in sys.argv and ratios["executor"] > GOAL)


if __name__ == "__main__":
    raise SystemExit(main())
