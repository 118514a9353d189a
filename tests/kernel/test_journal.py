"""A journal holds the replies of a run; `replay` derives everything else from them."""

from __future__ import annotations

import asyncio
import copy
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from graphexec import AgentExecutor, Done, Reported, RunResult, actions, create_react_agent, models, tool
from graphexec.effects import Decided, ToolResult, Unreadable
from graphexec.kernel.events import CompactReply, Journal, MemberReply
from graphexec.kernel.stepping import replay
from graphexec.messages.observations import Excerpt
from tests.executor.actors import snapshot_after
from tests.parameters import cases

CALL = "Look.\nAction: look_up\nAction Input: a"
BROKEN = "no action in sight"
FINISH = "Final Answer: 42"


@tool
def look_up(what: str, run: actions.Run) -> str:
    """Look something up."""
    return f"found {what} after {len(run.steps)}"


def executor(replies: list[str], **options: Any) -> AgentExecutor:
    agent = create_react_agent(models.ScriptedModel(replies, repeat_last=True), [look_up])
    return AgentExecutor(agent=agent, tools=[look_up], handle_parsing_errors=True, **options)


def journal_of(result: RunResult) -> Journal:
    assert result.journal is not None
    return result.journal


def compacted(reply: object) -> tuple[type | None, object]:
    """Return what a run's journal keeps of a reply."""
    return (type(reply), reply.compact()) if isinstance(reply, CompactReply) else (None, reply)


def replayed_outcome(result: RunResult) -> object:
    *_, done = replay(journal_of(result))
    assert isinstance(done, Done)
    return done.outcome


@given(
    st.lists(st.sampled_from([CALL, BROKEN, FINISH]), min_size=1, max_size=6),
    st.integers(0, 4),
    st.sampled_from(["force", "generate"]),
)
def test_replay_yields_the_events_of_the_run(replies: list[str], iterations: int, stopping: str) -> None:
    ticks = iter(range(10_000))
    watched = executor(replies, max_iterations=iterations, early_stopping_method=stopping)
    object.__setattr__(watched.run_context, "clock", lambda: float(next(ticks)))
    events = list(watched.stream("?"))
    done = events[-1]
    assert isinstance(done, Done)
    assert done.journal is not None
    assert list(replay(done.journal)) == [event for event in events if not isinstance(event, Reported)]
    assert len(done.journal) == done.spent["model_calls"] + done.spent["tool_calls"]


def test_every_driver_keeps_the_same_journal() -> None:
    def replies(result: RunResult) -> list[object]:
        return [reply for reply, _, _ in journal_of(result)]

    script = [CALL, BROKEN, FINISH]
    kept = replies(executor(script).run("?"))
    assert isinstance(kept[1], ToolResult)
    assert kept == replies(asyncio.run(executor(script).arun("?")))
    seen: list[Any] = []
    assert kept == replies(executor(script, observers=[seen.append]).run("?"))
    assert kept == replies(asyncio.run(executor(script, observers=[seen.append]).arun("?")))


def test_journal_is_replayed_to_its_end() -> None:
    # The journal of a run that was resumed or cut.
    failing = AgentExecutor(agent=create_react_agent(models.ScriptedModel([CALL]), [look_up]), tools=[look_up])
    result = executor([FINISH]).run(snapshot_after(AssertionError, lambda: failing.run("?")))
    assert repr(result.journal) == "<journal of 1 replies from plan on>"
    assert replayed_outcome(result) == result.ending
    ticks = iter([0.0, 0.0, 0.0, 0.0, 9.0, *[9.0] * 100])
    late = executor([CALL], max_execution_time=5)
    object.__setattr__(late.run_context, "clock", lambda: next(ticks))
    result = late.run("?")
    assert result.reason == "seconds"
    assert replayed_outcome(result) == result.ending
    # An incomplete journal is replayed to its end.
    journal = journal_of(executor([CALL, FINISH]).run("?"))
    whole = list(replay(journal))
    answer, *times = next(iter(journal))
    cut = type(journal)(journal.graph, journal.limits, journal.start, compacted(answer), times)
    part = list(replay(cut))
    assert part == whole[: len(part)]
    assert 0 < len(part) < len(whole)


def test_journal_is_compact_and_not_copied() -> None:
    journal = journal_of(executor([FINISH]).run("?"))
    assert copy.copy(journal) is journal
    assert copy.deepcopy(journal) is journal
    assert compacted(Decided((ACTION,))) == (Decided, ACTION)
    assert compacted(ToolResult("found")) == (ToolResult, "found")
    assert compacted("found") == (None, "found")


ACTION = actions.AgentAction("look_up", {"what": "a"})


@dataclass(frozen=True, slots=True)
class CountedResult(ToolResult):
    """A result of a user's own, which has more than a `ToolResult`."""

    count: int = 0


REPLIES = (
    CountedResult("found", count=3),
    Decided((ACTION,)),
    Decided((ACTION, ACTION)),
    Decided(()),
    Decided(actions.AgentFinish({"output": "42"})),
    Decided(Unreadable("no action", "try again")),
    ToolResult("found"),
    ToolResult(None),
    ToolResult(ToolResult("inner")),
    ToolResult("late", "timed_out", error="TimeoutError", traceback="line 1"),
    ToolResult("answer", return_direct=True),
    ToolResult("long", excerpt=Excerpt(2)),
    ToolResult("long", excerpt=Excerpt(note=" time")),
    ToolResult("found", traceback="line 1"),
    MemberReply(0, ToolResult("found")),
    None,
)


@cases("reply", *REPLIES)
def test_reply_is_restored_from_what_a_journal_keeps(reply: object) -> None:
    journal = journal_of(executor([FINISH]).run("?"))
    kept = compacted(reply)
    [(restored, at, seconds)] = Journal(journal.graph, journal.limits, journal.start, kept, [1.0, 0.5])
    assert (type(restored), restored, at, seconds) == (type(reply), reply, 1.0, 0.5)
    # `traceback` is not compared.
    assert getattr(restored, "traceback", None) == getattr(reply, "traceback", None)
