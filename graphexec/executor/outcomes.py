"""The outcomes of the agent's nodes: what the edges of its table carry from one node to the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, final

from graphexec.actions import AgentAction, Cause, Refusal, Run
from graphexec.effects import Decided, ToolResult
from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import fill_slots
from graphexec.kernel.meters import Exhausted
from graphexec.messages import ModelReply


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class Ready:
    """The run is ready for the agent's next decision."""

    run: Run


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class Replied:
    """The model has replied, or a callable agent has decided."""

    run: Run
    reply: ModelReply | Decided


# The answer to an action whose tool is not called: a result, or the place of an earlier action with the same result.
Answer: TypeAlias = ToolResult | int


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class Acted:
    """The agent has chosen these actions; their tools have not been called yet.

    A node may answer an action in the place of its tool. `answers` has an entry for each action, `None` if its tool is
    to be called; it is empty if no action is answered. Raises `InputError` for more answers than actions, and for an
    answer that is neither a result nor the place of an earlier action.
    """

    run: Run
    actions: tuple[AgentAction, ...]
    answers: tuple[Answer | None, ...] = ()

    def __post_init__(self) -> None:
        if not self.answers:
            return
        # A node that leaves out an action would give its answer to another one, whose tool might then be called.
        if len(self.answers) > len(self.actions):
            raise InputError(
                f"Acted has {len(self.answers)} answers for {len(self.actions)} actions; keep the actions, and answer "
                "those that are not to be called: acted.answer(place, ToolResult(...))"
            )
        for place, answer in enumerate(self.answers):
            earlier = isinstance(answer, int) and 0 <= answer < place
            if not (answer is None or isinstance(answer, ToolResult) or earlier):
                raise InputError(
                    f"Acted has the answer {format_value(answer)} for action {place}; give None, a ToolResult, or the "
                    "place of an earlier action"
                )

    @property
    def open(self) -> tuple[int, ...]:
        """The places of the actions whose tools are to be called."""
        return tuple(place for place in range(len(self.actions)) if not self.answered(place))

    def answered(self, place: int) -> bool:
        """Return whether the action at this place has an answer, so that its tool is not called."""
        return place < len(self.answers) and self.answers[place] is not None

    def sharing(self, place: int) -> tuple[int, ...]:
        """Return the places of the later actions whose answer is the result of this one."""
        sharing = {place}
        for later, answer in enumerate(self.answers):
            if isinstance(answer, int) and answer in sharing:
                sharing.add(later)
        return tuple(sorted(sharing - {place}))

    def answer(self, place: int, answer: Answer) -> Acted:
        """Return the actions with the one at this place answered, so that its tool is not called.

        Raises `IndexError` for a place without an action.
        """
        if not 0 <= place < len(self.actions):
            raise IndexError(f"there is no action {place}; there are {len(self.actions)}")
        answers = [*self.answers, *[None] * (len(self.actions) - len(self.answers))]
        answers[place] = answer
        return Acted(self.run, self.actions, tuple(answers))

    def with_results(self, called: Sequence[ToolResult]) -> Observed:
        """Return what was observed: the answers, and the results of the tools of the `open` actions in their order."""
        results: list[ToolResult] = []
        rest = iter(called)
        for place in range(len(self.actions)):
            answer = self.answers[place] if place < len(self.answers) else None
            if answer is None:
                results.append(next(rest))
            else:
                results.append(results[answer] if isinstance(answer, int) else answer)
        return Observed(self.run, self.actions, tuple(results))


@final
@fill_slots
@dataclass(frozen=True, slots=True)
class Observed:
    """The tools have returned: one result per action, in the order of the actions."""

    run: Run
    actions: tuple[AgentAction, ...]
    results: tuple[ToolResult, ...]


@final
@dataclass(frozen=True, slots=True)
class Stopped:
    """The run must stop, and the model is asked for no further decision. `run` holds the steps so far.

    The `cause` is a limit that is used up, or the `Refusal` of a node that does not let the run go on.
    """

    run: Run
    cause: Cause

    @classmethod
    def by_refusal(cls, run: Run, by: str, why: str) -> Stopped:
        """Return the outcome of a node that refuses to go on: `by` names what refuses, and `why` is for people."""
        return cls(run, Refusal(by, why))


class HasRun(Protocol):
    """Any value that carries a run."""

    @property
    def run(self) -> Run:
        """The run so far."""
        ...


def limit_reached(value: HasRun, limit: Exhausted) -> Stopped:
    """Return the outcome of a node of an agent's graph when a limit is used up; its `when_spent`."""
    return Stopped(value.run, limit)
