"""For any agent and any settings, the executor does what the table of docs/semantics.md says.

The same script is run by a naive interpreter of that table, and through every door of the executor.
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec.executor.result import Ending
from graphexec.integrations import langchain
from graphexec.runtime import run
from tests.drivers import DriverResult, options_of, run_script
from tests.executor.actors import run_by, script_of
from tests.parameters import cases, examples
from tests.semantics.acting import (
    FLAVOURS,
    LATE,
    Actor,
    Call,
    Flavour,
    Turn,
    Turns,
    adapt_script,
    as_shown,
    interpret,
    make_outcome,
)
from tests.semantics.reference import TAKES, Expected, Settings

# ---- the comparison


ERRORS: dict[str, type[Exception]] = {"parse error": gx.ParseError, "tool error": ValueError}


# Any: the result of a driver or of an executor.
def check_ending(ending: Ending, result: Any, expected: Expected) -> None:
    """Require that a run ended as it is expected to, and spent as much."""
    assert make_outcome(ending, result) == expected
    assert result.spent.seconds == expected.seconds


def check_limits(outcome: Expected, given: Settings, driver_result: DriverResult[Ending]) -> None:
    """Check that every count, and the path through the table, is within its limit."""
    spent = driver_result.spent
    # The final answer of a stopped run may be one more call.
    last = 1 if given.early_stopping == "generate" else 0
    for limit, reached in (
        (given.iterations, spent.iterations),
        (given.model_calls, spent["model_calls"] - last),
        (given.tool_calls, spent["tool_calls"]),
    ):
        assert limit is None or reached <= limit
    if given.iterations is not None:
        moves = [event for event in driver_result.events if isinstance(event, gx.Moved)]
        assert len(moves) <= 4 * given.iterations + 2 + last
    asked = sum(len(getattr(effect, "effects", (effect,))) for effect in driver_result.asked)
    assert asked == spent["model_calls"] + spent["tool_calls"]
    assert outcome.end != "seconds" or (given.seconds is not None and spent.seconds >= given.seconds)


def check_notes(actor: Actor, expected: Expected, flavour: Flavour) -> None:
    """Require that the agent was shown, and the tools were called, as is expected."""
    assert actor.shown == [as_shown(steps, flavour) for steps in expected.shown]
    # Several at once run in any order. Where one raises, those behind it may have begun, or not.
    if expected.end != "tool error":
        assert sorted(actor.called) == sorted(expected.called)


def until_it_ends(chunks: Any, into: list[Any]) -> None:
    for chunk in chunks:
        into.append(chunk)  # noqa: PERF402 - what is there before an exception stays


def without_messages(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    assert all(chunk["messages"] for chunk in chunks)
    return [{name: value for name, value in chunk.items() if name != "messages"} for chunk in chunks]


def check(turns: Turns, conclusion: Turn, given: Settings, flavour: Flavour) -> None:
    expected = interpret(adapt_script(turns, flavour), given, conclusion)
    actors: list[Actor] = []

    def fresh() -> gx.AgentExecutor:
        actors.append(Actor(turns, given, flavour, conclusion))
        return actors[-1].executor

    if expected.end in ERRORS:
        kind = ERRORS[expected.end]
        with pytest.raises(kind) as raised:
            run_script(lambda: script_of(fresh()))
        kept = gx.snapshot_of(raised.value)
        assert kept is None or kept.spent["model_calls"] == expected.model_calls
        got: list[Any] = []
        with pytest.raises(kind):
            until_it_ends(langchain.stream_chunks(fresh(), "q"), got)
        assert without_messages(got) == expected.chunks
    else:
        result = run_script(lambda: script_of(fresh()))
        check_ending(result.outcome, result, expected)
        check_limits(expected, given, result)
        # Through the doors that people know.
        assert without_messages(list(langchain.stream_chunks(fresh(), "q"))) == expected.chunks
        assert without_messages(run_by("astream_chunks", fresh())) == expected.chunks
        assert list(langchain.iterate(fresh(), "q")) == expected.turns
        assert run_by("aiter", fresh()) == expected.turns
        # The last chunk has the steps, where they are wanted.
        assert fresh().invoke("q") == {"input": "q", **expected.chunks[-1]}
        assert asyncio.run(fresh().ainvoke("q", return_only_outputs=True)) == expected.chunks[-1]
        check_repeated_runs(Actor(turns, given, flavour, conclusion), result.texts, expected)
    for actor in actors:
        check_notes(actor, expected, flavour)


def check_repeated_runs(actor: Actor, texts: Sequence[str], expected: Expected) -> None:
    """Run one executor twice, and resume what is paused before any of its effects: it comes to the same end."""
    executor = actor.executor
    for _ in range(2):
        actor.turn = 0
        again = executor.run("q")
        check_ending(again.ending, again, expected)
    for text in texts:
        paused = gx.Snapshot.from_json(text, executor.graph)
        actor.turn = int(paused.spent["model_calls"])
        resumed = run(executor.graph, paused, **options_of(executor.run_context))
        check_ending(resumed.outcome, resumed, expected)


# ---- scripts and settings


CALLS = st.builds(
    Call,
    st.sampled_from(["echo", "aecho", "echo", "fail", "direct", "direct_fail", "nope", "", "ECHO", "Direct"]),
    st.one_of(st.integers(0, 99), st.just("x")),
)
TEXTS = st.sampled_from(["so", "", "  ", "no idea", " 42 "])
TOKENS = st.sampled_from([0, 0, 1, 5])


NONE: st.SearchStrategy[tuple[Call, ...]] = st.just(())


def turns_of(kind: str, calls: st.SearchStrategy[tuple[Call, ...]] = NONE) -> st.SearchStrategy[Turn]:
    return st.builds(Turn, st.just(kind), calls, TEXTS, st.sampled_from([None, "Say it again.", ""]), TOKENS)


ANSWER = turns_of("answer")
UNREADABLE = turns_of("empty") | turns_of("garbage")
ACT = turns_of("act", st.tuples(CALLS)) | turns_of("act", st.lists(CALLS, min_size=2, max_size=4).map(tuple))
# Runs that end late see more.
SCRIPTS = st.lists(st.one_of(ACT, ACT, UNREADABLE, ANSWER), min_size=1, max_size=5).map(tuple)
CONCLUSIONS = st.one_of(ANSWER, UNREADABLE, ACT)
FLAVOUR = st.sampled_from(FLAVOURS)


def fix(error: gx.ParseError) -> str:
    return f"Fix it: {error.llm_output}"


def that_worked(steps: Sequence[gx.AgentStep]) -> list[gx.AgentStep]:
    return [step for step in steps if step.status == "ok"]


def last_pairs(steps: Sequence[gx.AgentStep]) -> list[tuple[gx.AgentAction, Any]]:
    """As a function of LangChain's would have them."""
    return [(action, observation) for action, observation in steps[-2:]]


# What `sampled_from` makes of different types is an `object`. Most handle parse errors: a run that raises tests less.
POLICIES: st.SearchStrategy[Any] = st.sampled_from([True, True, True, False, "Fix it!", "", fix])
TRIMS: st.SearchStrategy[Any] = st.sampled_from([-1, 0, 1, 2, that_worked, last_pairs])


def none_or(most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, most)


@st.composite
def limit_settings(draw: st.DrawFn) -> Settings:
    """Return settings in which an agent sees all its steps, and every run ends by itself or by a limit."""
    model_calls = draw(none_or(6))
    # One of these two always limits the run; the others may be unlimited.
    iterations = draw(st.integers(0, 6) if model_calls is None else none_or(6))
    return Settings(
        iterations=iterations,
        model_calls=model_calls,
        tool_calls=draw(none_or(8)),
        tokens=draw(none_or(12)),
        seconds=draw(st.sampled_from((None,) * 9 + (0,))),
        parsing=draw(POLICIES),
        at_once=draw(st.sampled_from([1, 2, 8])),
    )


@st.composite
def all_settings(draw: st.DrawFn) -> Settings:
    limits = draw(limit_settings())
    # One of the two bounds every step.
    fan_outs = (1_000, 1_000, 1, 2) if limits.tool_calls is None else (1_000, None, 1, 2)
    return dataclasses.replace(
        limits,
        seconds=draw(st.sampled_from((None,) * 6 + (0, TAKES, TAKES + 1, 3 * TAKES))),
        cost=draw(st.sampled_from((None, None, 0.25, 1.25))),
        fan_out=draw(st.sampled_from(fan_outs)),
        trim=draw(TRIMS),
        return_direct=draw(st.sampled_from(["single", "any"])),
        early_stopping=draw(st.sampled_from(["force", "generate"])),
        tool_errors=draw(st.sampled_from(["observe", "observe", "raise"])),
        lookup=draw(st.sampled_from(["exact", "case_insensitive"])),
        with_steps=draw(st.booleans()),
    )


@pytest.mark.medium
@given(turns=SCRIPTS, conclusion=CONCLUSIONS, given=all_settings(), flavour=FLAVOUR)
@example(
    turns=(Turn("act", (Call("echo", 1), Call("aecho", 2))),),
    conclusion=Turn("garbage", text="no idea"),
    given=Settings(iterations=2, trim=1, early_stopping="generate"),
    flavour="tool calling",
)
@example(
    turns=(Turn("garbage"), Turn("act", (Call("echo"), Call("", "x")))),
    conclusion=LATE,
    given=Settings(iterations=2),
    flavour="tool calling",
)
def test_executor_matches_the_reference_loop(turns: Turns, conclusion: Turn, given: Settings, flavour: Flavour) -> None:
    check(turns, conclusion, given, flavour)


@pytest.mark.slow
@pytest.mark.slowest
@pytest.mark.parametrize("flavour", FLAVOURS)
@settings(max_examples=examples(1_500, 75))
@given(turns=SCRIPTS, conclusion=CONCLUSIONS, given=all_settings())
def test_executor_matches_the_reference_loop_thoroughly(
    flavour: Flavour, turns: Turns, conclusion: Turn, given: Settings
) -> None:
    check(turns, conclusion, given, flavour)


def calls(*pairs: tuple[str, int | str], tokens: int = 0) -> Turn:
    return Turn("act", tuple(Call(*pair) for pair in pairs), tokens=tokens)


ECHO = calls(("echo", 1))
BATCH = calls(("echo", 1), ("direct", 2), ("fail", 3))
DIRECT_FAILS = calls(("direct_fail", 1))
NO, EMPTY = Turn("garbage", text="so"), Turn("empty", text="so")
# The traps that such loops fall into, each once.
TRAPS: dict[str, tuple[Turns, Settings]] = {
    "no iteration is allowed": ((ECHO,), Settings(iterations=0)),
    "endless actions": ((ECHO,), Settings(iterations=3)),
    "an answer at the last iteration": ((ECHO, ECHO, LATE), Settings(iterations=3)),
    "an answer at the last model call": ((ECHO, ECHO, LATE), Settings(iterations=None, model_calls=3)),
    "endless garbage": ((NO,), Settings(iterations=3)),
    "unhandled garbage": ((ECHO, NO), Settings(parsing=False)),
    "endless empty lists": ((EMPTY,), Settings(iterations=3)),
    "an unhandled empty list": ((EMPTY,), Settings(iterations=3, parsing=False)),
    "an unhandled empty list with the usual limit": ((EMPTY,), Settings(parsing=False)),
    "endless unknown tools": ((calls(("nope", 0)),), Settings(iterations=None, tool_calls=2, model_calls=6)),
    "endless failing tools": ((calls(("fail", 0)),), Settings(tool_calls=3)),
    "a batch beyond what is left": ((ECHO, BATCH), Settings(tool_calls=3)),
    "the second of two batches beyond what is left": ((calls(("echo", 0), ("echo", 1)),), Settings(tool_calls=3)),
    "a batch that is too wide": ((BATCH,), Settings(fan_out=2)),
    "a direct answer at every limit": ((calls(("direct", 1)),), Settings(iterations=1, tool_calls=1, model_calls=1)),
    "two direct answers at once": ((calls(("direct", 0), ("direct", 1)), LATE), Settings()),
    "a direct answer among others": ((BATCH, LATE), Settings()),
    "a direct answer among others that counts": ((BATCH, LATE), Settings(return_direct="any")),
    "a direct tool with bad arguments": ((calls(("direct", "x")), LATE), Settings()),
    "a direct tool that fails": ((DIRECT_FAILS, LATE), Settings()),
    "a direct tool that fails where any counts": ((DIRECT_FAILS, LATE), Settings(return_direct="any")),
    "a tool that fails and is to raise": ((BATCH,), Settings(tool_errors="raise")),
    "endless tokens": ((calls(("echo", 1), tokens=5),), Settings(tokens=5)),
    "no tokens": ((LATE,), Settings(tokens=0)),
    "endless money": ((calls(("echo", 1), tokens=1),), Settings(cost=0.5)),
    "no time": ((LATE,), Settings(seconds=0)),
    "an answer after the time limit": ((ECHO, LATE), Settings(seconds=2 * TAKES + 1)),
    "an action after the time limit": ((ECHO,), Settings(seconds=2 * TAKES + 1)),
    "a name in another case": ((calls(("ECHO", 1)), LATE), Settings()),
    "a name in another case that counts": ((calls(("ECHO", 1)), LATE), Settings(lookup="case_insensitive")),
    "steps that are not shown": ((ECHO, BATCH, ECHO, LATE), Settings(trim=2)),
}
LAST_WORDS: dict[str, Turn] = {
    "an answer": LATE,
    "nothing": Turn("answer", text=" "),
    "an action": ECHO,
    "garbage": Turn("garbage", text="no idea"),
}


@pytest.mark.medium
@cases("flavour", *FLAVOURS)
@cases("trap", *TRAPS)
def test_no_run_falls_into_a_known_trap(trap: str, flavour: Flavour) -> None:
    turns, given = TRAPS[trap]
    check(turns, LATE, given, flavour)


@pytest.mark.medium
@cases("flavour", *FLAVOURS)
@cases("words", *LAST_WORDS)
def test_a_stopped_run_has_these_last_words(words: str, flavour: Flavour) -> None:
    for limit in (Settings(iterations=2), Settings(model_calls=1), Settings(tool_calls=1), Settings(seconds=0)):
        check((ECHO,), LAST_WORDS[words], dataclasses.replace(limit, early_stopping="generate"), flavour)
