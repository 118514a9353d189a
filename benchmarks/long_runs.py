"""Long runs: time and memory of a run of 1,000 steps beside those of one of 100, for each kind of prompt.

    python benchmarks/long_runs.py [--check]

The model is scripted. It reads nothing, or it reads the whole conversation as a client that writes it into a request
does. Times are the best of several rounds, in µs of processor time per step; memory is the peak that Python
allocated beyond the initial amount, in KB per step. The prompt grows; its size is printed in KB at the last step:
code that reads all of it at every step does work that grows with it. With `--check` the exit status is 1 if a goal is
missed.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphexec import Agent, AgentExecutor, create_react_agent, create_structured_agent, create_tool_calling_agent, tool
from graphexec.messages import (
    AssistantMessage,
    ChatRequest,
    Message,
    ModelReply,
    ModelRequest,
    ToolCall,
    UserMessage,
)
from graphexec.tools import AnyTool

SHORT, LONG = 100, 1_000
ROUNDS = 7

# The goal: a step of the long run costs at most so much of one of the short run, and so does its memory.
GROWTH = 1.2


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"At {place} there is nothing to be seen but grass."


@dataclass
class Acts:
    """A model that acts endlessly; `read` counts the characters that it has read."""

    reply: ModelReply
    reads: bool
    read: int = 0

    instant = True

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the reply, after reading the request or not."""
        del timeout
        if self.reads:
            assert isinstance(request, ChatRequest), "the agents here chat"
            self.read = sum(len(_text(message)) for message in request.messages)
        return self.reply

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return what `complete` returns."""
        return self.complete(request, timeout=timeout)


def _text(message: Message) -> str:
    return message.content


CALL = ModelReply("", (ToolCall("call_1", "look", '{"place": "home"}'),))
TEXT = ModelReply("I shall look.\nAction: look\nAction Input: home")
JSON = ModelReply('{"action": "look", "action_input": {"place": "home"}}')

# Any: each way of making an agent has options of its own.
AGENTS: dict[str, tuple[Callable[..., Agent], ModelReply]] = {
    "tool calling": (create_tool_calling_agent, CALL),
    "structured": (create_structured_agent, JSON),
    "ReAct": (create_react_agent, TEXT),
}


def executor(kind: str, steps: int, *, reads: bool, **options: Any) -> tuple[AgentExecutor, Acts]:
    """Make an executor that takes so many steps, and its model."""
    make, reply = AGENTS[kind]
    model = Acts(reply, reads)
    tools: list[AnyTool] = [look]
    return AgentExecutor(agent=make(model, tools), tools=tools, max_iterations=steps, **options), model


def inputs(earlier: int) -> dict[str, Any]:
    """Return the inputs of a run: a question, and so many earlier messages."""
    messages = [UserMessage("And now?"), AssistantMessage("There is nothing but grass.")]
    return {"input": "Go on.", "chat_history": [messages[number % 2] for number in range(earlier)]}


def microseconds(made: AgentExecutor, given: dict[str, Any], steps: int) -> float:
    """The processor time of a step, in the best of several runs."""
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.process_time()
        result = made.run(given)
        best = min(best, time.process_time() - began)
        assert len(result.steps) == steps
    return best / steps * 1e6


def kilobytes(made: AgentExecutor, given: dict[str, Any], steps: int) -> float:
    """The memory of a step, at the run's peak."""
    tracemalloc.start()
    made.run(given)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / steps / 1024


def measured(kind: str, *, reads: bool, earlier: int = 0, **options: Any) -> tuple[str, float, float]:
    """A line of the table, and how a step's time and memory grow from the short run to the long one."""
    times: list[float] = []
    sizes: list[float] = []
    model: Acts | None = None
    for steps in (SHORT, LONG):
        made, model = executor(kind, steps, reads=reads, **options)
        times.append(microseconds(made, inputs(earlier), steps))
        sizes.append(kilobytes(made, inputs(earlier), steps))
    assert model is not None, "there are two lengths"
    chat = f", {earlier} earlier messages" if earlier else ""
    name = f"{kind}{', read' if reads else ''}{chat}{''.join(f', {name}={value}' for name, value in options.items())}"
    prompt = f"{model.read / 1024:8.0f}" if reads else "       -"
    line = f"{name:<44}{times[0]:9.1f}{times[1]:9.1f}{sizes[0]:9.2f}{sizes[1]:9.2f}{prompt}"
    return line, times[1] / times[0], sizes[1] / sizes[0]


def main() -> int:
    """Measure, print, and return the exit status."""
    print(f"{'':<44}{'µs/step':>18}{'KB/step':>18}{'prompt':>8}")
    print(f"{'':<44}{SHORT:9,}{LONG:9,}{SHORT:9,}{LONG:9,}{'KB':>8}")
    kept = True
    for line, slower, larger in (
        measured("tool calling", reads=False),
        measured("tool calling", reads=False, earlier=40),
        measured("structured", reads=False),
        # ReAct's prompt is one text, rewritten at every step; shown the last ten steps, it does not grow.
        measured("ReAct", reads=False, trim_intermediate_steps=10),
    ):
        kept = kept and slower <= GROWTH and larger <= GROWTH
        print(line)
    for kind in AGENTS:
        print(measured(kind, reads=True)[0])
    print(f"a step of {LONG:,} costs at most {GROWTH} of one of {SHORT}: {'kept' if kept else 'NOT KEPT'}")
    return 0 if kept or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
