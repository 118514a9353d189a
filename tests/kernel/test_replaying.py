"""A run is where it was after any part of its journal, over all its restarts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from graphexec import Effect, Limits, Snapshot
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits
from graphexec.errors import InputError, SnapshotError
from graphexec.kernel import (
    All,
    ChargedReply,
    Restarted,
    advance,
    begin,
    dump_reply,
    fork,
    load_reply,
    members_of,
    replay_to,
    snapshot_of,
)
from graphexec.kernel.events import Journal, MemberReply, MemberStarted, journal_of
from graphexec.kernel.snapshot import PAID
from graphexec.messages import CompletionRequest, Image, ModelReply, ToolCall, Usage
from graphexec.runtime import run
from tests.drivers import FakeClock, make_run_context, options_of
from tests.kernel import machines as m
from tests.kernel.test_properties import CHOICES, LIMITS, Drawn, Red, machines
from tests.parameters import cases, thorough


class CrashError(Exception):
    """Raised by the handler of a call, where the process ends."""


def context_until(crash: int, limits: Limits) -> Any:
    """Return a context whose handlers answer the calls before number `crash`."""
    numbers = iter(range(1_000_000))
    clock = FakeClock()

    def answer(reply: Callable[[int], object]) -> Any:
        def handle(_: Any) -> Any:
            number = next(numbers)
            clock.advance(0.5)
            if number == crash:
                raise CrashError
            return reply(number)

        return handle

    handlers: dict[type[Effect[Any]], Any] = {
        CallModel: answer(lambda number: ModelReply(f"{number}", usage=Usage(2, 1))),
        CallTool: answer(ToolResult),
    }
    return make_run_context(handlers, limits=limits, clock=clock, at_once=1)


def crash_at(table: Any, value: Any, limits: Limits, call: int) -> tuple[Snapshot, Journal] | None:
    """Return where the run stood when it crashed in that call, and its journal; `None` if it ended before."""
    try:
        run(table, value, **options_of(context_until(call, limits)))
    except CrashError as error:
        snapshot, journal = snapshot_of(error), journal_of(error)
        assert snapshot is not None
        assert journal is not None
        return snapshot, journal
    return None


def at(snapshot: Snapshot, seconds: float) -> Snapshot:
    return replace(snapshot, spent=replace(snapshot.spent, seconds=seconds))


@given(machines(), LIMITS, CHOICES)
def test_run_is_replayed_to_each_of_its_calls(machine: Drawn, limits: Limits, choices: tuple[int, ...]) -> None:
    table, _ = machine
    whole = run(table, Red(choices), **options_of(context_until(-1, limits)))
    assert whole.journal is not None
    entries, calls = [*whole.journal], 0
    while (crash := crash_at(table, Red(choices), limits, calls)) is not None:
        calls += 1
        snapshot, journal = crash
        # The journal of the run that crashed is a part of that of the run that did not.
        assert [*journal] == entries[: len(journal)]
        restored = replay_to(table, journal.start, entries[: len(journal)], limits)
        # The time of the call that crashed is spent.
        assert at(restored, snapshot.spent.seconds) == snapshot
        assert at(fork(whole.journal, len(journal)), snapshot.spent.seconds) == snapshot
        assert Snapshot.from_json(restored.to_json(), table).to_json() == restored.to_json()
        # The open calls are made and charged again.
        left = options_of(context_until(-1, Limits(iterations=limits.iterations)))
        again = run(table, restored, **left)
        assert again.journal is not None
        # Over the restart, too.
        over = [*entries[: len(journal)], (Restarted(left["limits"], frozenset(range(9))), 0.0, 0.0), *again.journal]
        replayed = replay_to(table, journal.start, over, limits)
        assert (replayed.node, replayed.value, replayed.spent) == (
            again.snapshot.node,
            again.snapshot.value,
            again.spent,
        )
    answered = [entry for entry, _, _ in entries if not isinstance(entry, MemberStarted)]
    assert len(answered) == calls
    assert replay_to(table, whole.journal.start, entries, limits) == whole.snapshot


test_many_runs_are_replayed = thorough(test_run_is_replayed_to_each_of_its_calls, 200, machines(), LIMITS, CHOICES)

BEGUN = begin(m.SURVEY, m.Topics(("a", "b", "c")))


def survey_entries(*replies: tuple[int, str]) -> list[Any]:
    return [
        (MemberReply(member, ToolResult(text)), float(number), 0.0) for number, (member, text) in enumerate(replies)
    ]


@cases(
    ("unpaid", "crashed", "charged"),
    ((), False, 0),
    ((0,), False, 1),
    ((1,), False, 0),
    ((0, 2), True, 2),
)
def test_unpaid_calls_are_charged_again(unpaid: tuple[int, ...], crashed: bool, charged: int) -> None:
    limits = Limits(restarts=3)
    entries = [*survey_entries((1, "b")), (Restarted(limits, frozenset(unpaid), crashed), 7.5, 0.0)]
    live = replay_to(m.SURVEY, BEGUN, entries[:1], limits)
    assert (live.open, live.spent["tool_calls"]) == ((PAID, ToolResult("b"), PAID), 3)
    # Its calls are asked for again, so they are charged.
    after = replay_to(m.SURVEY, BEGUN, entries, limits)
    assert [state is PAID for state in after.open] == [True, False, True]
    assert (after.spent["tool_calls"], after.spent.seconds, after.spent.restarts) == (3 + charged, 7.5, int(crashed))
    # The others go on, and the journal with them.
    whole = replay_to(m.SURVEY, BEGUN, [*entries, *survey_entries((2, "c"), (0, "a"))], limits)
    assert (whole.value, whole.spent["tool_calls"]) == (m.Topics(("a", "b", "c")), 3 + charged)
    assert whole.replies == ((ToolResult("a"), ToolResult("b"), ToolResult("c")),)
    # What a store keeps of it.
    restored = Snapshot.from_json(after.to_json(), m.SURVEY)
    assert restored.to_json() == after.to_json()


def test_restart_within_lower_limits_stops_the_run() -> None:
    start, more, less = begin(m.PROMPTS, m.Prompt()), agent_limits(model_calls=9), agent_limits(model_calls=2)
    replied: list[Any] = [(ModelReply("so"), 1.0, 1.0)]
    restarted: list[Any] = [(Restarted(less), 2.0, 0.0)]
    assert replay_to(m.PROMPTS, start, 3 * replied, more).spent["model_calls"] == 4
    stopped = replay_to(m.PROMPTS, start, [*2 * replied, *restarted], more)
    assert (stopped.value, stopped.spent["model_calls"], stopped.open) == (m.Prompt(2), 2, ())
    # Nor does a lower limit of the first process stop the second one.
    restarted = [(Restarted(more), 2.0, 0.0)]
    going_on = replay_to(m.PROMPTS, start, [*2 * replied, *restarted, *replied], less)
    assert (going_on.value, going_on.spent["model_calls"], going_on.open) == (m.Prompt(3), 4, (PAID,))


def test_fork_takes_a_part_of_the_journal() -> None:
    done = run(m.INTERVIEW, begin(m.INTERVIEW, m.Topic("tea"), run_id="trip"), **options_of(m.reporter()))
    assert done.journal is not None
    assert len(done.journal) == 3
    for number in range(3):
        forked = fork(done.journal, number)
        assert (len(forked.replies), forked.run_id, forked.sequence) == (number, "trip", number)
        assert run(m.INTERVIEW, forked, **options_of(m.reporter())).outcome == done.outcome
    assert fork(done.journal, 3) == done.snapshot
    for number in (-1, 4):
        with pytest.raises(InputError, match=f"at={number} is none; give 0 to 3"):
            fork(done.journal, number)


def test_first_snapshot_has_the_id_of_the_run() -> None:
    start = begin(m.INTERVIEW, m.Topic("tea"), run_id="trip")
    assert Snapshot.from_json(start.to_json(), m.INTERVIEW).run_id == "trip"
    pending: Any = advance(m.INTERVIEW, start, Limits())
    assert [f"{call.id}" for call in pending.calls] == ["trip/1.0"]
    assert pending.reply("fine").run_id == "trip"
    assert begin(m.INTERVIEW, m.Topic("tea")).run_id == ""


def test_charges_of_nested_runs_are_charged_again() -> None:
    entries: list[Any] = [(ChargedReply("fine", {"model_calls": 2.0, "tokens": 7.0}), 1.0, 1.0), ("good", 2.0, 1.0)]
    spent = replay_to(m.INTERVIEW, begin(m.INTERVIEW, m.Topic("tea")), entries, Limits()).spent
    assert dict(spent.meters) == {"model_calls": 2.0, "tokens": 7.0}


class Inner(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str = "a"


class Renamed(BaseModel):
    """A model that reads a field by its earlier name, too."""

    name: str = Field("a", validation_alias=AliasChoices("name", "title"))


@dataclass(frozen=True)
class Marked:
    inner: Inner
    renamed: Renamed
    images: tuple[Image, ...]
    others: Mapping[str, Inner]


@dataclass(frozen=True)
class Mark(Effect[Marked]):
    pass


MARKED = Marked(
    Inner.model_validate({"name": "b", "more": {"x": [1]}}),
    Renamed(name="c"),
    (Image("https://a/b.png"),),
    {"d": Inner.model_validate({"y": 2})},
)


@cases(
    ("place", "value", "lost"),
    ("inner/name", "b", False),
    ("inner/still", "more", False),
    ("others/d/still", {"more": 1}, False),
    ("renamed", {"title": "c"}, False),
    ("older", 1, True),
    ("renamed/older", 1, True),
    ("images/0/older", 1, True),
)
def test_field_that_its_class_would_lose_is_refused(place: str, value: object, lost: bool) -> None:
    data = dump_reply(MARKED, [Mark])
    part: Any = data["reply"]["data"]
    *outer, last = place.split("/")
    for name in outer:
        part = part[int(name) if name.isdigit() else name]
    part[last] = value
    if lost:
        with pytest.raises(SnapshotError, match=last):
            load_reply(Mark(), data)
    else:
        loaded = load_reply(Mark(), data)
        assert (loaded.renamed, loaded.images) == (MARKED.renamed, MARKED.images)
        assert ("still" in f"{loaded}") == ("still" in place)


@dataclass(frozen=True)
class Anything(Effect[Any]):
    pass


MODEL, TOOL = CallModel(CompletionRequest("?")), CallTool("look_up", "a")
REPLY = ModelReply("so", (ToolCall("1", "look_up", "{}"),), usage=Usage(1, 2), cost=0.5)


@cases(
    ("request", "reply"),
    (MODEL, REPLY),
    (TOOL, ToolResult({"a": [1, 2.5, None, "ü"]}, "error", error="OSError")),
    (m.Question("tea"), "so \ud83d"),
    (m.Travel(), None),
    (m.Travel(), 2.5),
    (Anything(), (1, "a", None)),
    (Anything(), [1, ["a"]]),
    (All((MODEL, TOOL)), (REPLY, ToolResult("found"))),
)
def test_reply_is_the_same_from_json(request: Any, reply: Any) -> None:
    kinds = [*dict.fromkeys(type(one) for one in members_of(request))]
    data = dump_reply(reply, kinds, is_batch=isinstance(request, All))
    stored = load_reply(request, json.loads(json.dumps(data)))
    assert (type(stored), stored) == (type(reply), reply)


def test_batch_has_members_and_one_effect_is_its_own() -> None:
    assert tuple(members_of(TOOL)) == (TOOL,)
    assert tuple(members_of(All((MODEL, TOOL)))) == (MODEL, TOOL)
