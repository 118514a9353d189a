"""The cost of fourteen pieces on one agent: the time of their proof, and of a step beside what its effects explain.

    python benchmarks/pieces.py [--check]

Each proof is of other limits, so that none is cached. A step is one plan by a scripted model, which reads the request,
and one call of a trivial tool, unobserved; with the pieces, a reviewer approves each call, too. What the effects
explain is the step without pieces, times the ratio of the effects. Times are the best of several rounds of wall time,
in which both take turns; with `--check` the exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence

from graphexec import AgentExecutor, create_tool_calling_agent, tool
from graphexec.messages import ChatRequest, ModelReply, ModelRequest, ToolCall, transcript
from graphexec.models import ScriptedModel
from graphexec.nodes import (
    Piece,
    Review,
    approve_tools,
    ask_user,
    cache_tools,
    compact,
    critic,
    escalate,
    guard_input,
    guard_output,
    limit_tool,
    output_type,
    redact_pii,
    select_tools,
    tell_time,
    todo_list,
)
from graphexec.runtime import Handler

STEPS = 15
ROUNDS = 25

# The goals: milliseconds for a proof, and the step beside what its effects explain.
PROOF = 10.0
STEP = 1.25


@tool(repeatable=True)
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


@tool
def square(x: int) -> int:
    """Square a number."""
    return x * x


async def approve(*_: object) -> Review:
    """Approve a call at once."""
    return Review("approve")


class Reader(ScriptedModel):
    """A scripted model that reads all messages of a request, as every client does."""

    def complete(self, request: ModelRequest, *, timeout: float | None = None) -> ModelReply:
        """Return the next reply."""
        transcript(request.messages if isinstance(request, ChatRequest) else ())
        return super().complete(request, timeout=timeout)


def make_pieces() -> list[Piece]:
    """Return fourteen pieces."""
    return [
        approve_tools({"double": ["approve", "reject"]}, reviewer=Handler(approve, instant=True)),
        guard_input(lambda _: None),
        guard_output(lambda _: None),
        redact_pii(),
        compact(max_tokens=1_000_000),
        output_type(str),
        select_tools(max_tools=3),
        todo_list(),
        escalate(ScriptedModel(["done"], repeat_last=True)),
        critic(rounds=1),
        cache_tools("square"),
        limit_tool("double", 1_000),
        ask_user(lambda _: "yes"),
        tell_time(),
    ]


def make_executor(pieces: Sequence[Piece], steps: int = STEPS) -> AgentExecutor:
    """Return an executor whose model calls the tool so many times, and then answers."""
    calls = [ModelReply("", (ToolCall(f"c{step}", "double", f'{{"x": {step}}}'),)) for step in range(steps)]
    model = Reader([*calls, "done"], repeat_last=True)
    agent = create_tool_calling_agent(model, [double, square])
    return AgentExecutor(agent=agent, tools=[double, square], max_iterations=2 * steps, nodes=pieces)


def seconds_of(pieces: Sequence[Piece], steps: int) -> float:
    """Return the seconds of one run of so many steps."""
    executor = make_executor(pieces, steps)
    began = time.perf_counter()
    executor.run("Go on.")
    return time.perf_counter() - began


def effects_of(pieces: Sequence[Piece], steps: int) -> int:
    """Return how many effects the nodes of a run ask for."""
    return sum(type(event).__name__ == "Asked" for event in make_executor(pieces, steps).stream("Go on."))


def per_step(pieces: Sequence[Piece]) -> tuple[float, float]:
    """Return the seconds and the effects of a step: the difference of a long and a short run."""
    long, short = (min(seconds_of(pieces, steps) for _ in range(ROUNDS)) for steps in (2 * STEPS, STEPS))
    more = effects_of(pieces, 2 * STEPS) - effects_of(pieces, STEPS)
    return (long - short) / STEPS, more / STEPS


def main() -> int:
    """Print the figures; return 1 if one misses its goal and `--check` is given."""
    executor = make_executor(make_pieces())
    proofs: list[float] = []
    for number in range(ROUNDS):
        limits = dataclasses.replace(executor.limits, iterations=1_000 + number)
        began = time.perf_counter()
        executor.graph.verify(limits)
        proofs.append(time.perf_counter() - began)
    proof = min(proofs) * 1e3
    (bare, effects), (plugged, more) = per_step([]), per_step(make_pieces())
    ratio = plugged / (bare * more / effects)
    bounds = executor.verify().bounds
    assert bounds is not None, "an executor is proved"
    print(f"{len(executor.pieces)} pieces, {len(executor.graph)} nodes; {bounds.transitions}")
    print(f"proof: {proof:.1f} ms (goal {PROOF:.0f})")
    print(f"step without pieces: {bare * 1e6:.1f} µs, {effects:.0f} effects")
    print(f"step with pieces: {plugged * 1e6:.1f} µs, {more:.0f} effects")
    print(f"beside what the effects explain: {ratio:.2f} (goal {STEP})")
    return int("--check" in sys.argv and (proof > PROOF or ratio > STEP))


if __name__ == "__main__":
    sys.exit(main())
