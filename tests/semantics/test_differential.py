"""For any agent and any settings, the executor does what the table of docs/semantics.md says.

The same script is run by a naive interpreter of that table, and through every door of the executor.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec.effects import reported_tokens
from graphexec.executor.result import Ending
from graphexec.runtime import run
from tests.drivers import limit_of, run_script
from tests.executor.actors import script_of
from tests.parameters import cases
from tests.semantics.acting import FLAVOURS, Actor, Flavour, Turn, as_shown, executor_of, script_in
from tests.semantics.reference import TAKES, Expected, Settings, interpret

# ---- the comparison


ERRORS: dict[str, type[Exception]] = {"ParseError": gx.ParseError, "ValueError": ValueError}


def ended(ending: Ending, spent: gx.Spent, expected: Expected) -> None:
    """Require that a run ended as it is expected to, and spent as much."""
    if isinstance(ending, gx.StoppedResponse):
        assert (limit_of(ending).limit, {"output": ending.output}) == (expected.end, expected.values)
        assert ending.generated is expected.generated
    else:
        assert ending.return_values == expected.values
        assert ("return_direct" if ending.return_direct else "finished") == expected.end
    assert list(ending.steps) == expected.steps
    assert (spent.iterations, spent["model_calls"], spent["tool_calls"]) == (
        expected.iterations,
        expected.model_calls,
        expected.tool_calls,
    )
    assert (reported_tokens(spent), spent["cost"], spent.seconds) == (expected.tokens, expected.cost, expected.seconds)


def noted(actor: Actor, expected: Expected, flavour: Flavour) -> None:
    """Require that the agent was shown, and the tools were called, as is expected."""
    assert actor.shown == [as_shown(steps, flavour) for steps in expected.shown]
    # Several at once run in any order. Where one raises, those behind it may have begun, or not.
    if expected.end != "ValueError":
        assert sorted(actor.called) == sorted(expected.called)


async def every(chunks: Any) -> list[Any]:
    return [chunk async for chunk in chunks]


def until_it_ends(chunks: Any, into: list[Any]) -> None:
    for chunk in chunks:
        into.append(chunk)  # noqa: PERF402 - what is there before an exception stays


def without_messages(chunks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    assert all(chunk["messages"] for chunk in chunks)
    return [{name: value for name, value in chunk.items() if name != "messages"} for chunk in chunks]


def by_kind(chunks: Sequence[dict[str, Any]]) -> list[tuple[bool, list[dict[str, Any]]]]:
    """The chunks of steps between two others, or of these, and which they are."""
    return [(steps, list(some)) for steps, some in groupby(chunks, lambda chunk: "steps" in chunk)]


def check_chunks(got: Sequence[dict[str, Any]], expected: Expected, at_once: int) -> None:
    """Of several tools at once the first to return is the first step; beside one that raises, some have returned."""
    if at_once == 1:
        assert list(got) == expected.chunks
        return
    result, wanted = by_kind(got), by_kind(expected.chunks)
    if expected.end == "ValueError":
        beside = result.pop()[1] if result and result[-1][0] else []
        wanted = wanted[:-1] if wanted and wanted[-1][0] else wanted
        asked = [chunk["actions"][0] for chunk in result[-1][1]]
        assert all(chunk["steps"][0].action in asked and chunk["steps"][0].status != "error" for chunk in beside)
    for (steps, some), (as_wanted, others) in zip(result, wanted, strict=True):
        assert steps == as_wanted
        assert sorted(map(repr, some)) == sorted(map(repr, others)) if steps else some == others


def check(turns: Sequence[Turn], conclusion: Turn, given: Settings, flavour: Flavour) -> None:
    script = script_in(turns, conclusion, flavour)
    expected = interpret(script, given)
    actors: list[Actor] = []

    def fresh() -> gx.AgentExecutor:
        executor, actor = executor_of(script, given, flavour)
        actors.append(actor)
        return executor

    if expected.end in ERRORS:
        kind = ERRORS[expected.end]
        with pytest.raises(kind):
            run_script(lambda: script_of(fresh()))
        got: list[Any] = []
        with pytest.raises(kind):
            until_it_ends(fresh().stream_chunks("q"), got)
        check_chunks(without_messages(got), expected, given.at_once)
    else:
        result = run_script(lambda: script_of(fresh()))
        ended(result.outcome, result.spent, expected)
        # Through the doors that people know.
        check_chunks(without_messages(list(fresh().stream_chunks("q"))), expected, given.at_once)
        check_chunks(without_messages(asyncio.run(every(fresh().astream_chunks("q")))), expected, given.at_once)
        assert list(fresh().iter("q")) == expected.turns
        assert asyncio.run(every(fresh().iter("q"))) == expected.turns
        # The last chunk has the steps, where they are wanted.
        assert fresh().invoke("q") == {"input": "q", **expected.chunks[-1]}
        assert asyncio.run(fresh().ainvoke("q", return_only_outputs=True)) == expected.chunks[-1]
        # Paused before any of its effects, it comes to the same end.
        for text in result.texts:
            paused = gx.Snapshot.from_json(text, fresh().graph)
            actors.pop()
            executor, _ = executor_of(script, given, flavour, begun=int(paused.spent["model_calls"]))
            resumed = run(executor.graph, paused, executor.run_context)
            ended(resumed.outcome, resumed.spent, expected)
    for actor in actors:
        noted(actor, expected, flavour)


# ---- scripts and settings


CALLS = st.tuples(
    st.sampled_from(["echo", "aecho", "echo", "fail", "direct", "direct_fail", "nope", "", "ECHO", "Direct"]),
    st.one_of(st.integers(0, 99), st.just("x")),
)
TEXTS = st.sampled_from(["so", "", "  ", "no idea", " 42 "])
FEEDBACK = st.sampled_from([None, "Say it again.", ""])
TOKENS = st.sampled_from([0, 0, 1, 5])
ANSWER = st.builds(Turn, st.just("answer"), st.just(()), TEXTS, FEEDBACK, TOKENS)
UNREADABLE = st.one_of(
    st.builds(Turn, st.just("empty"), st.just(()), TEXTS, FEEDBACK, TOKENS),
    st.builds(Turn, st.just("garbage"), st.just(()), TEXTS, FEEDBACK, TOKENS),
)
ACT = st.one_of(
    st.builds(Turn, st.just("act"), st.lists(CALLS, min_size=1, max_size=1).map(tuple), TEXTS, FEEDBACK, TOKENS),
    st.builds(Turn, st.just("act"), st.lists(CALLS, min_size=2, max_size=4).map(tuple), TEXTS, FEEDBACK, TOKENS),
)
# Runs that end late see more.
TURNS = st.lists(st.one_of(ACT, ACT, UNREADABLE, ANSWER), min_size=1, max_size=5)
CONCLUSIONS = st.one_of(ANSWER, UNREADABLE, ACT)


def fix(error: gx.ParseError) -> str:
    return f"Fix it: {error.llm_output}"


def that_worked(steps: Sequence[gx.AgentStep]) -> list[gx.AgentStep]:
    return [step for step in steps if step.status == "ok"]


def last_pairs(steps: Sequence[gx.AgentStep]) -> list[tuple[gx.AgentAction, Any]]:
    """As a function of LangChain's would have them."""
    return [(action, observation) for action, observation in steps[-2:]]


def none_or(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from((None, None, *values))


# What `sampled_from` makes of different types is an `object`.
POLICIES: st.SearchStrategy[Any] = st.sampled_from([True, True, False, "Fix it!", "", fix])
TRIMS: st.SearchStrategy[Any] = st.sampled_from([-1, 0, 1, 2, that_worked, last_pairs])


@st.composite
def all_settings(draw: st.DrawFn) -> Settings:
    model_calls = draw(none_or(0, 1, 2, 3, 5))
    # One of the two bounds every run; the others need not be spent at all.
    iterations = draw(st.integers(0, 4) if model_calls is None else none_or(0, 1, 2, 3))
    tool_calls = draw(none_or(0, 1, 2, 4))
    # One of the two bounds every step.
    fan_outs = (1_000, 1_000, 1, 2) if tool_calls is None else (1_000, None, 1, 2)
    return Settings(
        iterations=iterations,
        seconds=draw(st.sampled_from((None,) * 6 + (0, TAKES, TAKES + 1, 3 * TAKES))),
        model_calls=model_calls,
        tool_calls=tool_calls,
        tokens=draw(none_or(0, 1, 5, 6)),
        cost=draw(none_or(0.25, 1.25)),
        fan_out=draw(st.sampled_from(fan_outs)),
        parsing=draw(POLICIES),
        trim=draw(TRIMS),
        return_direct=draw(st.sampled_from(["single", "any"])),
        early_stopping=draw(st.sampled_from(["force", "generate"])),
        tool_errors=draw(st.sampled_from(["observe", "observe", "raise"])),
        lookup=draw(st.sampled_from(["exact", "case_insensitive"])),
        with_steps=draw(st.booleans()),
        at_once=draw(st.sampled_from([1, 2, 8])),
    )


FLAVOUR = st.sampled_from(FLAVOURS)
LATE = Turn("answer", text="late")


@given(turns=TURNS, conclusion=CONCLUSIONS, given=all_settings(), flavour=FLAVOUR)
@example(
    turns=[Turn("act", (("echo", 1), ("aecho", 2)))],
    conclusion=Turn("garbage", text="no idea"),
    given=Settings(iterations=2, trim=1, early_stopping="generate"),
    flavour="tool calling",
)
def test_executor_matches_the_reference_loop(
    turns: list[Turn], conclusion: Turn, given: Settings, flavour: Flavour
) -> None:
    check(turns, conclusion, given, flavour)


# Minutes each: several processes share them.
@pytest.mark.slow
@cases("flavour", FLAVOURS)
@settings(max_examples=1000)
@given(turns=TURNS, conclusion=CONCLUSIONS, given=all_settings())
def test_executor_matches_the_reference_loop_thoroughly(
    turns: list[Turn], conclusion: Turn, given: Settings, flavour: Flavour
) -> None:
    check(turns, conclusion, given, flavour)


ECHO = Turn("act", (("echo", 1),))
BATCH = Turn("act", (("echo", 1), ("direct", 2), ("fail", 3)))
# The traps that such loops fall into, each once.
TRAPS: dict[str, tuple[list[Turn], Settings]] = {
    "no iteration is allowed": ([ECHO], Settings(iterations=0)),
    "endless actions": ([ECHO], Settings(iterations=3)),
    "an answer at the last iteration": ([ECHO, ECHO, LATE], Settings(iterations=3)),
    "an answer at the last model call": ([ECHO, ECHO, LATE], Settings(iterations=None, model_calls=3)),
    "endless garbage": ([Turn("garbage")], Settings(iterations=3)),
    "unhandled garbage": ([ECHO, Turn("garbage")], Settings(parsing=False)),
    "unhandled empty list": ([Turn("empty")], Settings(parsing=False)),
    "a batch beyond what is left": ([ECHO, BATCH], Settings(tool_calls=3)),
    "a batch that is too wide": ([BATCH], Settings(fan_out=2)),
    "a direct answer at every limit": (
        [Turn("act", (("direct", 1),))],
        Settings(iterations=1, tool_calls=1, model_calls=1),
    ),
    "a direct answer among others": ([BATCH, LATE], Settings()),
    "a direct answer among others that counts": ([BATCH, LATE], Settings(return_direct="any")),
    "a direct tool that fails": ([Turn("act", (("direct_fail", 1),)), LATE], Settings(return_direct="any")),
    "a tool that fails and is to raise": ([BATCH], Settings(tool_errors="raise")),
    "endless tokens": ([dataclasses.replace(ECHO, tokens=5)], Settings(tokens=5)),
    "endless money": ([dataclasses.replace(ECHO, tokens=1)], Settings(cost=0.5)),
    "no time": ([LATE], Settings(seconds=0)),
    "an answer after the time limit": ([ECHO, LATE], Settings(seconds=2 * TAKES + 1)),
    "an action after the time limit": ([ECHO], Settings(seconds=2 * TAKES + 1)),
    "a name in another case": ([Turn("act", (("ECHO", 1),)), LATE], Settings()),
    "a name in another case that counts": ([Turn("act", (("ECHO", 1),)), LATE], Settings(lookup="case_insensitive")),
    "steps that are not shown": ([ECHO, BATCH, ECHO, LATE], Settings(trim=2)),
}
LAST_WORDS: dict[str, Turn] = {
    "an answer": LATE,
    "nothing": Turn("answer", text=" "),
    "an action": ECHO,
    "garbage": Turn("garbage", text="no idea"),
}


@cases("flavour", FLAVOURS)
@cases("trap", TRAPS)
def test_no_run_falls_into_a_known_trap(trap: str, flavour: Flavour) -> None:
    turns, given = TRAPS[trap]
    check(turns, LATE, given, flavour)


@cases("flavour", FLAVOURS)
@cases("words", LAST_WORDS)
def test_a_stopped_run_has_these_last_words(words: str, flavour: Flavour) -> None:
    for limit in (Settings(iterations=2), Settings(model_calls=1), Settings(tool_calls=1), Settings(seconds=0)):
        check([ECHO], LAST_WORDS[words], dataclasses.replace(limit, early_stopping="generate"), flavour)
