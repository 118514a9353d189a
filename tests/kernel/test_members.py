"""The members of a batch can be answered one by one, in any order and in separate processes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from graphexec import Limits, Snapshot, advance, begin, errors, node
from graphexec.effects import TOOL_CALLS, ToolResult, agent_limits
from graphexec.kernel.effects import Batch
from graphexec.kernel.events import EVENT_TYPES, Asked, Cut
from graphexec.kernel.execution import Execution
from graphexec.kernel.snapshot import PAID
from tests.kernel import machines
from tests.kernel.machines import INTERVIEW, SURVEY, Stopped, Survey, Topic, Topics, error_message
from tests.parameters import cases

TEN = Limits(seconds=10)
NAMES = tuple("abcdef")


pending, finish = partial(machines.pending, SURVEY, limits=TEN), partial(machines.finish, SURVEY, limits=TEN)
reload = partial(machines.reload, machine=SURVEY)


@pytest.mark.medium
def test_order_of_replies_does_not_matter() -> None:
    """Try 400 random orders, and reload the snapshot from JSON at random."""
    chance = random.Random(13)
    for _ in range(40):
        replies = [chance.choice([ToolResult(name), ToolResult(name, "error"), Cut()]) for name in NAMES]
        ends = set[str]()
        for _ in range(10):
            order = chance.sample(range(len(NAMES)), len(NAMES))
            snapshot = begin(SURVEY, Topics(NAMES))
            for member in order:
                state = pending(reload(snapshot) if chance.random() < 0.5 else snapshot)
                snapshot = state.reply_member(member, replies[member], at=1.0)
            end = finish(snapshot)
            ends.add(f"{end.outcome} {reload(end.snapshot).to_json()}")
        assert len(ends) == 1


def test_answered_members_are_kept() -> None:
    state = pending(Topics(NAMES))
    ids = {call.member: call.id for call in state.calls}
    state = pending(reload(state.reply_member(3, ToolResult("d"))))
    assert [call.member for call in state.calls] == [0, 1, 2, 4, 5]
    assert {call.member: call.id for call in state.calls} == {member: ids[member] for member in (0, 1, 2, 4, 5)}
    assert state.snapshot.spent[TOOL_CALLS] == 6
    state = pending(Topics(("a", "b", "c")))
    state = pending(reload(state.reply_member(1, ToolResult("b"))))
    assert state.snapshot.open[0] is PAID
    outcome = finish(reload(state.cut(at=10.0))).outcome
    assert isinstance(outcome, Survey)
    assert [result.status for result in outcome.results] == ["cut", "ok", "cut"]


@node
def conclude(stopped: Stopped) -> Survey:
    return Survey((ToolResult(stopped.limit.limit),))


def test_retry_charges_the_open_members_again() -> None:
    """One call of three is done, one has failed and one is running: two are made again, so five are charged."""
    state = pending(Topics(("a", "b", "c")))
    state = pending(reload(state.reply_member(1, ToolResult("b"))).retried())
    assert [call.member for call in state.calls] == [0, 2]
    assert state.snapshot.spent[TOOL_CALLS] == 5
    first = pending(state.reply_member(0, ToolResult("again 0")))
    assert finish(first.reply_member(2, ToolResult("again 2"))).outcome == Survey(
        (ToolResult("again 0"), ToolResult("b"), ToolResult("again 2"))
    )
    limits = agent_limits(tool_calls=4)
    state = pending(Topics(("a", "b", "c")), limits=limits)
    outcome = finish(reload(state.reply_member(1, ToolResult("b"))).retried(), limits=limits).outcome
    assert isinstance(outcome, Stopped)
    assert outcome.limit.limit == "tool_calls"
    # The node behind it begins without the refused batch.
    machine = machines.machine_of(machines.survey, conclude)
    paused = machines.pending(machine, Topics(("a", "b", "c")), limits=limits).reply_member(1, ToolResult("b"))
    assert machines.finish(machine, paused.retried(), limits=limits).outcome == Survey((ToolResult("tool_calls"),))


@cases("order", (0, 1, 2), (2, 1, 0), (1, 2, 0))
def test_cut_and_failed_members_survive_json(order: Sequence[int]) -> None:
    replies = [Cut(), ToolResult("no", "error", error="ValueError"), ToolResult("c")]
    snapshot = begin(SURVEY, Topics(("a", "b", "c")))
    for member in order:
        snapshot = reload(pending(reload(snapshot)).reply_member(member, replies[member], at=3.0))
    outcome = finish(snapshot).outcome
    assert isinstance(outcome, Survey)
    assert [result.status for result in outcome.results] == ["cut", "error", "ok"]
    assert outcome.results[1].error == "ValueError"


@cases(
    ("member", "reply", "at", "text"),
    *((member, ToolResult("again"), 1.0, f"waits for the members [1], not for {member}") for member in (0, 2, -1)),
    (1, ToolResult("a"), -1.0, "0 or more"),
    (1, Cut(), 1.0, "no deadline"),
)
def test_invalid_reply_of_a_member_is_refused(member: int, reply: object, at: float, text: str) -> None:
    state = pending(pending(Topics(("a", "b")), limits=Limits()).reply_member(0, ToolResult("a")), limits=Limits())
    assert text in error_message(errors.InputError, lambda: state.reply_member(member, reply, at=at))


def test_single_effect_has_no_members() -> None:
    single = machines.pending(INTERVIEW, Topic("tea"))
    assert "Question is not a batch" in error_message(errors.InputError, single.reply_member, 0, "fine")


@cases("change", replace, Snapshot.retried)
def test_snapshot_of_another_batch_is_refused(change: Callable[[Snapshot], Snapshot]) -> None:
    fewer = replace(pending(Topics(NAMES)).reply_member(3, ToolResult("d")), value=Topics(NAMES[:4]))
    text = "has 6 open calls, but survey asks for 4; resume it with its own graph"
    assert text in error_message(errors.SnapshotError, advance, SURVEY, change(fewer), TEN)


def test_events_are_yielded_or_passed_on() -> None:
    """Of a batch that is answered as a whole."""

    def follow(notify: Callable[[object], object] | None) -> list[object]:
        path = Execution(SURVEY, begin(SURVEY, Topics(NAMES)), TEN).run(observed=EVENT_TYPES, notify=notify)
        yielded: list[object] = []
        answer: tuple[object, float, float] | None = None
        with suppress(StopIteration):
            while True:
                # It begins with None.
                item = path.send(answer)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
                answer = (tuple(map(ToolResult, NAMES)), 1.0, 1.0) if isinstance(item, Batch) else None
                yielded += [] if isinstance(item, Batch) else [item]
        return yielded

    notified: list[object] = []
    assert follow(notified.append) == []
    assert list(map(repr, notified)) == list(map(repr, follow(None)))
    assert [type(one) for one in notified].count(Asked) == len(NAMES)
