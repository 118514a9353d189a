"""Long prompts: a step whose model encodes the whole request, as a client does, beside a loop that encodes once.

    python benchmarks/prompts.py [--check]

The model is scripted, and makes the body of each request as the client of an OpenAI-compatible server does; nothing is
sent. The hand-written loop encodes each message once and joins them. Processor time per step in runs of 10, 100 and
1,000 steps, the best of several rounds that take turns; with `--check` the exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count

from graphexec import Agent, AgentExecutor, create_react_agent, create_structured_agent, create_tool_calling_agent, tool
from graphexec.messages import ModelReply, ModelRequest, ToolCall
from graphexec.models.http.dialect import Dialect, Sampling
from graphexec.models.http.json_bodies import write
from graphexec.models.providers.anthropic import MESSAGES
from graphexec.models.providers.openai_compatible import CHAT_COMPLETIONS
from graphexec.models.providers.openai_responses import RESPONSES

STEPS = (10, 100, 1_000)
ROUNDS = 5

# The goals: a step of the longest run costs at most so much of one of the shortest run, and of the hand-written loop's.
GROWTH = {"tool calling": 1.5, "structured": 2.0, "ReAct": 2.0}
TO_HAND_WRITTEN = 5.0


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"At {place} there is nothing to be seen but grass."


@dataclass
class Encodes:
    """A model that acts endlessly, and makes the body of each request."""

    reply: ModelReply
    dialect: Dialect
    last: bytes = b""
    ids: Iterator[int] = field(default_factory=count)

    instant = True

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Encode the request, and return the reply."""
        del timeout
        self.last = write(self.dialect.encode(request, Sampling("model", max_tokens=1_000), stream=False))
        # As a server does; the calls of one that repeats its ids are renumbered in each request.
        calls = tuple([replace(call, id=f"call_{next(self.ids)}") for call in self.reply.tool_calls])
        return replace(self.reply, tool_calls=calls)

    async def acomplete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return what `complete` returns."""
        return self.complete(request, timeout=timeout)


CALL = ModelReply("", (ToolCall("call_1", "look", '{"place": "home"}'),))
TEXT = ModelReply("I shall look.\nAction: look\nAction Input: home")
JSON = ModelReply('{"action": "look", "action_input": {"place": "home"}}')

AGENTS: dict[str, tuple[Callable[..., Agent], ModelReply, Dialect]] = {
    "tool calling": (create_tool_calling_agent, CALL, CHAT_COMPLETIONS),
    "structured": (create_structured_agent, JSON, CHAT_COMPLETIONS),
    "ReAct": (create_react_agent, TEXT, CHAT_COMPLETIONS),
    "tool calling, Anthropic": (create_tool_calling_agent, CALL, MESSAGES),
    "tool calling, Responses": (create_tool_calling_agent, CALL, RESPONSES),
}


def run_executor(kind: str, steps: int) -> Callable[[], bytes]:
    """Return a function that runs an executor for so many steps, and returns its last request."""
    make, reply, dialect = AGENTS[kind]
    model = Encodes(reply, dialect)
    made = AgentExecutor(agent=make(model, [look]), tools=[look], max_iterations=steps)

    def run() -> bytes:
        assert len(made.run("Go on.").steps) == steps
        return model.last

    return run


def run_hand_written(steps: int) -> bytes:
    """Run a loop that encodes each message once, and return its last request."""
    spec = look.spec
    described = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    rest = json.dumps({"model": "model", "tools": [{"type": "function", "function": described}]}, default=dict)[1:]
    encoded = [json.dumps({"role": "user", "content": "Go on."})]
    body = b""
    for _ in range(steps):
        body = f'{{"messages":[{",".join(encoded)}],{rest}'.encode()
        reply = CALL
        calls = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in reply.tool_calls
        ]
        encoded.append(json.dumps({"role": "assistant", "content": None, "tool_calls": calls}))
        for call in reply.tool_calls:
            observed = look.function(**json.loads(call.arguments))
            encoded.append(json.dumps({"role": "tool", "tool_call_id": call.id, "content": observed}))
    return body


def best(measured: list[tuple[Callable[[], object], int]]) -> list[float]:
    """Return each one's best processor time of several rounds, in µs per step; short runs are repeated."""
    times: list[float] = [float("inf")] * len(measured)
    for _ in range(ROUNDS):
        for place, (work, steps) in enumerate(measured):
            again = max(1, STEPS[1] // steps)
            began = time.process_time()
            for _ in range(again):
                work()
            times[place] = min(times[place], (time.process_time() - began) / (again * steps) * 1e6)
    return times


def main() -> int:
    """Measure, print, and return the exit status."""
    works: dict[str, Callable[[int], Callable[[], bytes]]] = {
        "hand-written": lambda steps: partial(run_hand_written, steps),
        **{kind: partial(run_executor, kind) for kind in AGENTS},
    }
    rows = {name: [(make(steps), steps) for steps in STEPS] for name, make in works.items()}
    times = iter(best([one for row in rows.values() for one in row]))
    measured = {name: [next(times) for _ in row] for name, row in rows.items()}
    print(f"{'µs per step':<26}" + "".join(f"{steps:>9,}" for steps in STEPS) + "   growth   KB of the last request")
    for name, row in measured.items():
        size = len(rows[name][-1][0]()) / 1024
        print(f"{name:<26}" + "".join(f"{one:9.1f}" for one in row) + f"{row[-1] / row[0]:9.2f}{size:9.0f}")
    goals = [(f"growth of {name}", measured[name][-1] / measured[name][0], most) for name, most in GROWTH.items()]
    hand_written = measured["tool calling"][-1] / measured["hand-written"][-1]
    goals.append(("tool calling / hand-written, 1,000 steps", hand_written, TO_HAND_WRITTEN))
    for name, ratio, most in goals:
        print(f"{name}: {ratio:.2f} (goal: at most {most:g}){'' if ratio <= most else ' - MISSED'}")
    return 0 if all(ratio <= most for _, ratio, most in goals) or "--check" not in sys.argv else 1


if __name__ == "__main__":
    sys.exit(main())
