"""The members of a batch can be answered one by one, in any order and in separate processes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from graphexec import Done, Limits, Snapshot, advance, begin
from graphexec.effects import TOOL_CALLS, ToolResult, agent_limits
from graphexec.errors import InputError, SnapshotError
from graphexec.kernel import Cut, PendingEffect
from graphexec.kernel.snapshot import PAID
from tests.kernel.machines import INTERVIEW, SURVEY, Stopped, Survey, Topic, Topics
from tests.parameters import cases

TEN = Limits(seconds=10)
NAMES = tuple("abcdef")


def pending(snapshot: Snapshot, limits: Limits = TEN) -> PendingEffect:
    state = advance(SURVEY, snapshot, limits)
    assert isinstance(state, PendingEffect)
    return state


def reload(snapshot: Snapshot) -> Snapshot:
    return Snapshot.from_json(snapshot.to_json(), SURVEY)


def finish(snapshot: Snapshot) -> Done[object]:
    state = advance(SURVEY, snapshot, TEN)
    assert isinstance(state, Done)
    return state


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


def test_answered_members_are_not_asked_again() -> None:
    state = pending(begin(SURVEY, Topics(NAMES)))
    ids = {call.member: call.id for call in state.calls}
    state = pending(reload(state.reply_member(3, ToolResult("d"))))
    assert [call.member for call in state.calls] == [0, 1, 2, 4, 5]
    assert {call.member: call.id for call in state.calls} == {member: ids[member] for member in (0, 1, 2, 4, 5)}
    assert state.snapshot.spent[TOOL_CALLS] == 6


def test_retry_charges_the_open_members_again() -> None:
    """One call of three is done, one has failed and one is running: two are made again, so five are charged."""
    state = pending(begin(SURVEY, Topics(("a", "b", "c"))))
    state = pending(reload(state.reply_member(1, ToolResult("b"))).retried())
    assert [call.member for call in state.calls] == [0, 2]
    assert state.snapshot.spent[TOOL_CALLS] == 5
    first = pending(state.reply_member(0, ToolResult("again 0")))
    assert finish(first.reply_member(2, ToolResult("again 2"))).outcome == Survey(
        (ToolResult("again 0"), ToolResult("b"), ToolResult("again 2"))
    )


def test_retry_beyond_the_limit_is_refused() -> None:
    limits = agent_limits(tool_calls=4)
    state = pending(begin(SURVEY, Topics(("a", "b", "c"))), limits)
    end = advance(SURVEY, reload(state.reply_member(1, ToolResult("b"))).retried(), limits)
    assert isinstance(end, Done)
    assert isinstance(end.outcome, Stopped)
    assert end.outcome.limit.limit == "tool_calls"


@cases("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
def test_cut_and_failed_members_survive_json(order: Sequence[int]) -> None:
    replies = [Cut(), ToolResult("no", "error", error="ValueError"), ToolResult("c")]
    snapshot = begin(SURVEY, Topics(("a", "b", "c")))
    for member in order:
        snapshot = reload(pending(reload(snapshot)).reply_member(member, replies[member], at=3.0))
    outcome = finish(snapshot).outcome
    assert isinstance(outcome, Survey)
    assert [result.status for result in outcome.results] == ["cut", "error", "ok"]
    assert outcome.results[1].error == "ValueError"


def test_cut_keeps_answered_members() -> None:
    state = pending(begin(SURVEY, Topics(("a", "b", "c"))))
    state = pending(reload(state.reply_member(1, ToolResult("b"))))
    assert state.snapshot.open[0] is PAID
    outcome = finish(reload(state.cut(at=10.0))).outcome
    assert isinstance(outcome, Survey)
    assert [result.status for result in outcome.results] == ["cut", "ok", "cut"]


def test_reply_member_needs_a_pending_member() -> None:
    state = pending(begin(SURVEY, Topics(("a", "b"))))
    state = pending(state.reply_member(0, ToolResult("a")))
    for member in (0, 2, -1):
        with pytest.raises(InputError, match=rf"waits for the members \[1\], not for {member}"):
            state.reply_member(member, ToolResult("again"))
    single = advance(INTERVIEW, begin(INTERVIEW, Topic("tea")), Limits())
    assert isinstance(single, PendingEffect)
    with pytest.raises(InputError, match="Question is not a batch"):
        single.reply_member(0, "fine")


def test_reply_member_refuses_a_time_before_the_run() -> None:
    with pytest.raises(InputError, match="0 or more"):
        pending(begin(SURVEY, Topics(("a", "b")))).reply_member(0, ToolResult("a"), at=-1.0)


def test_cut_of_a_member_needs_a_deadline() -> None:
    state = pending(begin(SURVEY, Topics(("a", "b"))), Limits())
    with pytest.raises(InputError, match="no deadline"):
        state.reply_member(0, Cut())


def test_snapshot_of_another_batch_is_refused() -> None:
    snapshot = pending(begin(SURVEY, Topics(NAMES))).reply_member(3, ToolResult("d"))
    fewer = replace(snapshot, value=Topics(NAMES[:4]))
    with pytest.raises(SnapshotError, match="has 6 open calls, but survey asks for 4; resume it with its own graph"):
        advance(SURVEY, fewer, TEN)
    with pytest.raises(SnapshotError, match="has 6 open calls, but survey asks for 4"):
        advance(SURVEY, fewer.retried(), TEN)
