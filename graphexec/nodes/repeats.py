"""A piece that detects an agent that repeats itself: it warns the model first, and then stops the run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from graphexec._arguments import NAME, validate, whole
from graphexec.actions import AgentStep, Run, Steps
from graphexec.agents.prompt import observation_text
from graphexec.errors import InputError
from graphexec.executor.plugging import Piece
from graphexec.executor.rules.turns import Turn, last_turns
from graphexec.executor.table import LimitReached, Ready
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import node, rename
from graphexec.tools.formatting import split_observation

# The most turns in a repeated round: the agent may repeat one turn, or alternate between a few.
ROUND = 4

# The name of the limit in the stopped response.
REPEATS = "repeats"

WARNING = (
    "(You have done exactly this {times} times, with the same result. Do something else, or give your final answer.)"
)


def stop_repeats(*, warn_after: int = 2, stop_after: int = 3, name: str = "stop_repeats") -> Piece:
    """Warn a model that repeats itself, and then stop the run; the limit of the stopped response is `repeats`.

        executor = create_agent(model, tools, nodes=[stop_repeats()])
        result = executor.run("How many people live in Porto?")
        print(result.reason)  # "repeats", if the model made the same call three times

    A turn is the steps of one reply. The piece looks for the last turn, or the last round of up to four turns, being
    repeated in a row with the same tools, inputs and observations. After `warn_after` times it adds a warning to the
    observation that the model is shown; after `stop_after` times it stops the run. Each visit compares the last
    `4 * stop_after` turns; a warning copies all steps.

    It adds one transition before each decision, and no model call. Raises `InputError` unless
    2 <= warn_after <= stop_after.
    """
    # A turn that is done once is not repeated.
    validate("stop_repeats", ("warn_after", warn_after, whole(2)), ("stop_after", stop_after, whole(2)))
    validate("stop_repeats", ("name", name, NAME))
    if warn_after > stop_after:
        raise InputError(
            f"stop_repeats has warn_after={warn_after} and stop_after={stop_after}; make stop_after at least warn_after"
        )

    @node
    def notice_repeats(ready: Ready) -> Ready | LimitReached:
        """Warn the model that it repeats itself, or stop the run."""
        times = count_repeats(ready.run.steps, stop_after)
        if times >= stop_after:
            return LimitReached(ready.run, Exhausted(REPEATS, stop_after, times))
        return Ready(_add_warning(ready.run, times)) if times >= warn_after else ready

    return Piece(name, (rename(notice_repeats, name),))


def count_repeats(steps: Sequence[AgentStep], most: int) -> int:
    """Return how many times in a row the last round of turns was done, counted up to `most`."""
    turns = last_turns(steps, ROUND * most)
    return max(_count_rounds(turns, size, most) for size in range(1, ROUND + 1))


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
