"""Promises about every run: properties that kill the seeded defects (those about time are in another file)."""

import asyncio
import copy
import dataclasses
import re
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, TypeAlias

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import graphexec as gx
from graphexec import errors, runtime
from graphexec.executor.result import Ending
from tests.defects.bounds import bounded, bounded_world
from tests.drivers import LIVE, Driver, Script, drive_astream, drive_from_text, drive_stream, options_of, run_script
from tests.executor.actors import act, echo, script_of, scripted
from tests.kernel.test_properties import CHOICES, COLOURS, LIMITS, OutOf, Plan, Red, answers, machines
from tests.semantics.acting import BATCHING as FLAVOURS
from tests.semantics.acting import Call, Flavour, Turn, adapt_script, interpret, make_executor, make_outcome
from tests.semantics.reference import Settings
from tests.semantics.test_differential import SCRIPTS, check_limits
from tests.semantics.test_differential import limit_settings as all_settings

Machine: TypeAlias = tuple[gx.Graph[Any, Any], list[Plan]]
FLAVOUR = st.sampled_from(FLAVOURS)
NUMBERS: st.SearchStrategy[int | str] = st.sampled_from([0, 1, 7, "x"])


# ---- the whole run


@pytest.mark.medium
@given(turns=SCRIPTS, given=all_settings(), flavour=FLAVOUR)
def test_every_driver_follows_the_semantics(turns: tuple[Turn, ...], given: Settings, flavour: Flavour) -> None:
    turns = adapt_script(turns, flavour)
    expected = interpret(turns, given)

    def script() -> Script[Any, Ending]:
        return bounded(script_of(make_executor(turns, given, flavour)))

    if expected.end == "parse error":
        with pytest.raises(gx.ParseError):
            run_script(script)
        return
    result = run_script(script)
    assert make_outcome(result.outcome, result) == expected
    check_limits(expected, given, result)


DIRECT_OR_NOT = st.builds(Call, st.sampled_from(["direct", "direct", "direct_fail", "echo", "nope", "Direct"]), NUMBERS)


@given(calls=st.lists(DIRECT_OR_NOT, min_size=1, max_size=3).map(tuple), flavour=FLAVOUR)
def test_single_successful_direct_tool_call_is_the_answer(calls: tuple[Call, ...], flavour: Flavour) -> None:
    result = make_executor((Turn("act", calls), Turn("answer")), Settings(), flavour).run("q")
    direct = len(calls) == 1 and calls[0].tool == "direct" and isinstance(calls[0].number, int)
    assert (result.reason, result.output) == (
        ("return_direct", calls[0].number) if direct else ("finished", "answer 2")
    )
    assert isinstance(result.ending, gx.AgentFinish)
    assert (result.ending.return_direct, len(result.steps)) == (direct, len(calls))


CALLS = st.builds(Call, st.sampled_from(["echo", "aecho", "fail", "nope"]), NUMBERS)
BATCHES = st.lists(CALLS, min_size=1, max_size=4).map(lambda calls: Turn("act", tuple(calls)))


@given(
    turns=st.lists(BATCHES, min_size=1, max_size=3).map(tuple),
    limit=st.integers(0, 8),
    at_once=st.integers(1, 4),
    driver=st.sampled_from(LIVE),
)
def test_concurrent_calls_are_all_allowed_or_none(
    turns: tuple[Turn, ...], limit: int, at_once: int, driver: Driver
) -> None:
    given = Settings(iterations=4, tool_calls=limit, at_once=at_once)
    result = driver(bounded(script_of(make_executor(turns, given, "callable"))))
    allowed = list[Call]()
    for turn in (*turns, *[turns[-1]] * 4)[:4]:
        if len(allowed) + len(turn.calls) > limit:
            break
        allowed += turn.calls
    assert [(step.action.tool, step.action.tool_input) for step in result.outcome.steps] == [
        (call.tool, {"number": call.number}) for call in allowed
    ]
    assert result.spent["tool_calls"] == len(allowed)
    assert make_outcome(result.outcome, result) == interpret(turns, given)


# ---- pauses


@given(turns=SCRIPTS, given=all_settings(), flavour=FLAVOUR, driver=st.sampled_from([drive_stream, drive_astream]))
def test_resumed_run_repeats_only_unanswered_effects(
    turns: tuple[Turn, ...], given: Settings, flavour: Flavour, driver: Driver
) -> None:
    turns = adapt_script(turns, flavour)
    assume(interpret(turns, given).end != "parse error")

    def script() -> Script[Any, Ending]:
        return bounded(script_of(make_executor(turns, given, flavour)))

    whole = drive_from_text(script())
    for answered, text in enumerate(whole.texts):
        again = script()
        resumed = driver(dataclasses.replace(again, value=gx.Snapshot.from_json(text, again.graph)))
        assert resumed.asked == whole.asked_after(answered)
        assert make_outcome(resumed.outcome, resumed) == make_outcome(whole.outcome, whole)


# ---- several runs


@given(turns=SCRIPTS, given=all_settings(), flavour=FLAVOUR)
def test_runs_of_one_executor_are_independent(turns: tuple[Turn, ...], given: Settings, flavour: Flavour) -> None:
    turns = adapt_script(turns, flavour)
    expected = interpret(turns, given)
    assume(expected.end != "parse error")
    executor = make_executor(turns, given, flavour)
    executor = executor.with_context(bounded_world(executor.run_context))
    # First one after the other, then two interleaved event by event.
    results = [executor.run("q"), executor.run("q")]
    assert [make_outcome(result.ending, result) for result in results] == [expected, expected]
    # Any: events have several types; the last one is `Done`.
    ends: tuple[Any, ...] = list(zip_longest(executor.stream("q"), executor.stream("q")))[-1]
    assert [make_outcome(done.outcome, done) for done in ends] == [expected, expected]


WAYS: dict[str, Callable[[gx.AgentExecutor], object]] = {
    "run": lambda executor: executor.run("q"),
    "arun": lambda executor: asyncio.run(executor.arun("q")),
    "stream": lambda executor: list(executor.stream("q")),
    "invoke": lambda executor: executor.invoke("q"),
    "ainvoke": lambda executor: asyncio.run(executor.ainvoke("q")),
    "batch": lambda executor: executor.batch(["q", "r"]),
}


@given(
    values=st.dictionaries(st.sampled_from(["output", "input", "intermediate_steps"]), st.integers(), min_size=1),
    before=st.integers(0, 2),
    way=st.sampled_from(sorted(WAYS)),
    with_steps=st.booleans(),
)
def test_finish_is_not_modified(values: dict[str, int], before: int, way: str, with_steps: bool) -> None:
    finish = gx.AgentFinish(values, "I know it.")
    as_made = copy.deepcopy(finish)
    agent = scripted(*[act("echo", text="a")] * before, finish)
    executor = gx.AgentExecutor(agent=agent, tools=[echo], return_intermediate_steps=with_steps)
    for _ in range(2):
        WAYS[way](executor)
        assert finish == as_made


# ---- any machine


# Wrong results of a node: outcomes of other nodes, its own limit outcome, and values that are not outcomes.
LIMIT = gx.Exhausted("seconds", 0, 0)
LIES = st.sampled_from([*(colour(()) for colour in COLOURS), OutOf(Red(()), LIMIT), LIMIT, "so"])


def with_wrong_result(honest: gx.Node[Any, Any], lie: object) -> gx.Node[Any, Any]:
    """Return the node with the same effects and another result."""

    def purely(value: object) -> object:
        return lie

    def asking(value: object) -> Any:
        yield from honest.function(value)
        return lie

    return dataclasses.replace(honest, function=purely if honest.kind == "pure" else asking)


@given(machine=machines(), choices=CHOICES, lie=LIES, liar=st.integers(0, 20), driver=st.sampled_from(LIVE))
def test_undeclared_outcome_is_never_followed(
    machine: Machine, choices: tuple[int, ...], lie: object, liar: int, driver: Driver
) -> None:
    table, plans = machine

    def script(table: gx.Graph[Any, Any]) -> Script[Any, Any]:
        return bounded(Script(table, Red(choices), answers(gx.Limits(iterations=6), [])))

    moves = [event for event in drive_stream(script(table)).events if isinstance(event, gx.Moved)]
    # A node that the run reaches and its limits let it enter.
    names = [move.node for move in moves if type(move.outcome) is not OutOf]
    name = names[liar % len(names)]
    assume(type(lie) not in plans[int(name.removeprefix("node"))].outcomes)
    changed = gx.replace(table, with_wrong_result(table[name], lie))
    with pytest.raises(errors.UndeclaredOutcomeError) as raised:
        driver(script(changed))
    assert (raised.value.node, raised.value.outcome) == (name, lie)


# One letter for each event: E(ntered), asked (Q), C(arried out), A(nswered), M(oved), D(one).
LETTERS: dict[type, str] = {gx.Entered: "E", gx.Asked: "Q", str: "C", gx.Answered: "A", gx.Moved: "M", gx.Done: "D"}
GRAMMAR = re.compile("(E[QCA]*M)+D")

# More than twice the events of any machine here.
MOST_NEWS = 2000


@given(machine=machines(), limits=LIMITS, choices=CHOICES, way=st.sampled_from(["stream", "astream"]))
def test_events_follow_grammar_and_are_immediate(
    machine: Machine, limits: gx.Limits, choices: tuple[int, ...], way: str
) -> None:
    table, _ = machine
    # Handlers add a letter between the events.
    log: list[Any] = []
    script = bounded(Script(table, Red(choices), answers(limits, log)))

    def note(event: object) -> None:
        log.append(event)
        assert len(log) <= MOST_NEWS, "the run goes on and on"

    async def watch() -> None:
        async for event in runtime.astream(script.graph, script.value, **options_of(script.run_context)):
            note(event)

    if way == "astream":
        asyncio.run(watch())
    else:
        for event in runtime.stream(script.graph, script.value, **options_of(script.run_context)):
            note(event)
    assert GRAMMAR.fullmatch("".join(LETTERS[type(one)] for one in log))
    node, asked, carried_out = table.start, dict[object, object](), 0
    for event in log:
        match event:
            case gx.Entered():
                assert event.node == node
            case gx.Asked():
                assert event.node == node
                asked[event.call] = event.effect
            case str():
                carried_out += 1
                assert carried_out <= len(asked), "carried out before its event"
            case gx.Answered():
                assert (event.node, event.effect) == (node, asked.pop(event.call))
                carried_out -= 1
                assert carried_out >= 0, "answered before it is carried out"
            case gx.Moved():
                assert event.node == node
                assert not asked, "left before it is answered"
                node = event.target
            case _:
                pass
    assert node == "END"
    assert log[-1].outcome is log[-2].outcome
