"""Detect an agent that repeats itself: a node that warns the model first, and then stops the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from graphexec._arguments import validate, whole
from graphexec.actions import AgentStep, Run, Steps
from graphexec.agents.prompt import observation_text
from graphexec.errors import InputError
from graphexec.executor.table import LimitReached, Ready, plan, stopped_response
from graphexec.kernel.graph import Graph, check_table, edges, edges_of, on
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import node
from graphexec.tools.formatting import split_observation

F = TypeVar("F")

# The most turns in a repeated round: the agent may repeat one turn, or alternate between a few.
ROUND = 4

# The name of the node.
NOTICE = "notice_repeats"

# The name of the limit in the stopped response.
REPEATS = "repeats"

WARNING = (
    "(You have done exactly this {times} times, with the same result. Do something else, or give your final answer.)"
)


def stop_repeats(machine: Graph[Ready, F], *, warn_after: int = 2, stop_after: int = 3) -> Graph[Ready, F]:
    """Return the agent's graph with a node `notice_repeats` on every edge that leads to `plan`.

    A turn is the steps of one reply. The node looks for the last turn, or the last round of up to four turns, being
    repeated in a row with the same tools, inputs and observations. After `warn_after` times it adds a warning to the
    observation; after `stop_after` times the limit `repeats` stops the run. Each visit compares the last
    `4 * stop_after` turns; a warning copies all steps.

    Raises `InputError` unless 2 <= warn_after <= stop_after, and for a graph without `plan` and `stopped_response`.
    """
    # A turn that is done once is not repeated.
    validate("stop_repeats", ("warn_after", warn_after, whole(2)), ("stop_after", stop_after, whole(2)))
    if warn_after > stop_after:
        raise InputError(
            f"stop_repeats has warn_after={warn_after} and stop_after={stop_after}; make stop_after at least warn_after"
        )
    if NOTICE in machine:
        raise InputError(f"the graph already has {NOTICE}; apply stop_repeats once, to a graph without it")
    for needed in (plan, stopped_response):
        if needed.name not in machine:
            raise InputError(f"the graph has no {needed.name}; make it from executor.graph")

    @node
    def notice_repeats(ready: Ready) -> Ready | LimitReached:
        """Warn the model that it repeats itself, or stop the run."""
        times = count_repeats(ready.run.steps, stop_after)
        if times >= stop_after:
            return LimitReached(ready.run, Exhausted(REPEATS, stop_after, times))
        return Ready(_add_warning(ready.run, times)) if times >= warn_after else ready

    routes = on(Ready, plan) | on(LimitReached, stopped_response)
    row = [edge for source, row in edges(notice_repeats, routes).rows for edge in edges_of(source, row)]
    back = [
        dataclasses.replace(edge, target=notice_repeats.name) if edge.target == plan.name else edge
        for edge in machine.edges
    ]
    return check_table([*machine, notice_repeats], [*back, *row], machine.start)


def count_repeats(steps: Sequence[AgentStep], most: int) -> int:
    """Return how many times in a row the last round of turns was done, counted up to `most`."""
    turns = last_turns(steps, ROUND * most)
    return max(_count_rounds(turns, size, most) for size in range(1, ROUND + 1))


# The steps of one reply.
Turn: TypeAlias = Sequence[AgentStep]


def last_turns(steps: Sequence[AgentStep], most: int) -> list[Turn]:
    """Return the last turns, at most `most` of them, in order."""
    turns: list[Turn] = []
    end = len(steps)
    while end and len(turns) < most:
        start = end - 1
        message, calls = steps[start].action.message, {steps[start].action.call_id}
        # An equal message with a call id seen before belongs to another reply.
        while message is not None and start:
            before = steps[start - 1].action
            if before.message != message or before.call_id in calls:
                break
            calls.add(before.call_id)
            start -= 1
        turns.append(steps[start:end])
        end = start
    return turns[::-1]


def _count_rounds(turns: Sequence[Turn], size: int, most: int) -> int:
    if len(turns) < size:
        return 0
    times = 1
    last = turns[-size:]
    while times < most and len(turns) >= size * (times + 1):
        before = turns[-size * (times + 1) : -size * times]
        if not all(_is_same_turn(one, other) for one, other in zip(before, last, strict=True)):
            break
        times += 1
    return times


def _is_same_turn(one: Turn, other: Turn) -> bool:
    return len(one) == len(other) and all(map(_is_same_step, one, other))


def _is_same_step(one: AgentStep, other: AgentStep) -> bool:
    return (
        one.action.tool == other.action.tool
        and one.action.tool_input == other.action.tool_input
        # Different unreadable replies may have the same observation, so their texts are compared.
        and (one.status != "parse_error" or one.action.log == other.action.log)
        # Compared as text and images: an observation may define == in its own way.
        and split_observation(one.observation) == split_observation(other.observation)
    )


def _add_warning(run: Run, times: int) -> Run:
    *before, last = run.steps
    text = f"{observation_text(last)}\n{WARNING.format(times=times)}"
    return dataclasses.replace(run, steps=Steps([*before, dataclasses.replace(last, model_text=text)]))
