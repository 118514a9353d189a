"""The records of a run: those of one that an exception ended have what happened until then, and nothing else."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace
from typing import Any, final

import pytest

import graphexec as gx
from graphexec.actions import AgentAction, AgentFinish
from graphexec.draw import recording_of
from graphexec.effects import CallModel
from graphexec.kernel import replay
from graphexec.messages import ChatRequest, ModelReply, ToolCall, UserMessage
from graphexec.models import ScriptedModel
from tests.kernel.machines import SELF_LOOP, Landed, Left, Stopped
from tests.parameters import cases


@gx.tool
def look_up(what: str) -> str:
    """Look something up."""
    return f"{what} is found"


def calls(*names: str) -> ModelReply:
    return ModelReply("", tuple(ToolCall(name, "look_up", f'{{"what": "{name}"}}') for name in names))


class Strict:
    """An observer that ends the run at an event: the first is number 0."""

    raise_error = True

    def __init__(self, number: int) -> None:
        self.number = number
        self.seen: list[Any] = []

    def __call__(self, event: Any) -> None:
        self.seen.append(event)
        if len(self.seen) == self.number + 1:
            raise ValueError("no further")


def events_of(error: BaseException) -> list[tuple[str, str]]:
    """Return the recorded events, and check the records behind them."""
    records = [*recording_of(error).records]
    assert records[0]["event"] == "start"
    assert records[-1]["event"] == "result"
    last = -2 if records[-2]["event"] == "failed" else -1
    return [(record["event"], record["node"]) for record in records[1:last]]


def run_until(number: int) -> tuple[Strict, ValueError | None]:
    observer = Strict(number)
    model = ScriptedModel([calls("a", "b"), calls("c"), "done"])
    agent = gx.create_tool_calling_agent(model, [look_up])
    # One call of a batch at a time, in their order.
    executor = gx.AgentExecutor(agent=agent, tools=[look_up], observers=[observer], tool_concurrency=1)
    try:
        executor.run("go")
    except ValueError as error:
        return observer, error
    return observer, None


# The last event, `Done`, is that of a run that is over.
@cases("number", range(len(run_until(1000)[0].seen) - 1))
def test_records_end_at_the_event_that_ended_the_run(number: int) -> None:
    observer, error = run_until(number)
    assert error is not None
    *before, last = observer.seen[: number + 1]
    # A request and a reply are in the snapshot when an observer is called; an entry and a move are not.
    happened = [*before, last] if isinstance(last, (gx.Asked, gx.Answered)) else before
    assert events_of(error) == [(type(event).__name__.lower(), event.node) for event in happened]
    snapshot, failed = gx.snapshot_of(error), recording_of(error).records[-2]
    assert snapshot is not None
    assert (failed["event"], failed["node"]) == ("failed", snapshot.node)


@cases("decision", [(AgentAction("look_up", {"what": "a"}),), AgentFinish({"output": "x"})])
def test_an_interrupt_in_a_node_ends_the_records(decision: Any) -> None:
    interrupted: list[int] = []

    def read(reply: ModelReply) -> Any:
        # Once, as a person does it: the node is not interrupted again when the run is replayed.
        if not interrupted:
            interrupted.append(1)
            signal.raise_signal(signal.SIGINT)
        return decision

    request = CallModel(ChatRequest((UserMessage("q"),)))
    agent = gx.chat_agent(lambda run: request, read, ScriptedModel(["one"]), tools=[look_up])
    with pytest.raises(KeyboardInterrupt) as caught:
        gx.AgentExecutor(agent=agent, tools=[look_up]).run("q")
    assert events_of(caught.value) == [
        *[("entered", "plan"), ("asked", "plan"), ("answered", "plan"), ("moved", "plan"), ("entered", "parse")]
    ]
    assert recording_of(caught.value).records[-1]["status"] == "interrupted"


@cases("last", [0, 1, 4])
def test_an_interrupt_in_a_loop_without_requests_ends_the_records(last: int) -> None:
    interrupted: list[int] = []

    @gx.metered(when_spent=Stopped)
    @gx.node
    def countdown(left: Left) -> Left | Landed:
        if left.steps == last and not interrupted:
            interrupted.append(1)
            signal.raise_signal(signal.SIGINT)
        return Left(left.steps - 1) if left.steps else Landed()

    loop = gx.graph(
        gx.edges(countdown, gx.on(Left, countdown) | gx.on(Landed, gx.END) | gx.on(Stopped, gx.END)), start=countdown
    )
    with pytest.raises(KeyboardInterrupt) as caught:
        loop.run(Left(4), limits=gx.Limits(iterations=9))
    visits = 4 - last
    assert events_of(caught.value) == [("entered", "countdown"), ("moved", "countdown")] * visits + [
        ("entered", "countdown")
    ]


def test_run_without_an_end_and_fields_without_values() -> None:
    done = SELF_LOOP.run(Left(2))
    assert done.journal is not None
    # It has one more iteration than any state of the run.
    charged = replace(done.snapshot, spent=replace(done.snapshot.spent, iterations=3), entered=False)
    names = [type(event).__name__ for event in replay(done.journal, until=charged)]
    assert names == ["Entered", "Moved"] * 2

    # A field without a value is left out.
    @gx.node
    def finish(left: Left) -> Unfinished:
        return Unfinished(left.steps)

    finished = gx.graph(gx.edges(finish, gx.on(Unfinished, gx.END)), start=finish).run(Left(3))
    assert [record["value"] for record in recording_of(finished).records if record["event"] == "moved"] == [
        {"known": 3}
    ]


@final
@dataclass(frozen=True)
class Unfinished:
    known: int
    unknown: int = field(init=False)
