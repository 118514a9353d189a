"""The explorer drives the real engine with every class of reply, and merges equal states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import graph
from graphexec.actions import Run
from graphexec.agents import RuleName
from graphexec.draw import draw
from graphexec.effects import CallAgent, CallModel, CallTool, agent_limits
from graphexec.errors import InputError, ParseError
from graphexec.executor import Acted, LimitReached, Ready, dispatch_tools, limit_reached, parse, stopped_response
from graphexec.kernel import Answered, Asked, Cut, Done, Effect, Event, Limits, Moved, Perform
from graphexec.kernel.effects import CallContext
from graphexec.messages import CompletionRequest, ModelReply
from graphexec.models import ScriptedModel
from graphexec.runtime import IO, Handler, make_run_context, stream
from graphexec.verify.explorer.abstraction import shape, texts
from graphexec.verify.explorer.explore import Exploration, explore
from graphexec.verify.explorer.failure import Failure, as_test, breaks, raised_by
from graphexec.verify.explorer.oracle import Oracle, Reply, replies_of
from graphexec.verify.explorer.stepping import Choice, Over, Stepping
from graphexec.verify.explorer.temporal import (
    Assertion,
    Predicate,
    answered,
    asked,
    calls_tool,
    dominates,
    ended,
    entered,
    eventually,
    followed,
    left,
    never,
    never_without,
)
from tests.kernel.machines import (
    CLOCK,
    ERRAND,
    INSISTENT,
    INTERVIEW,
    PROMPTS,
    SURVEY,
    Asking,
    Home,
    Prompt,
    Tick,
    Topics,
    Underway,
)
from tests.kernel.machines import Errand as Outing
from tests.kernel.machines import Stopped as Left
from tests.parameters import cases
from tests.verify import errands
from tests.verify.errands import (
    CONTENTS,
    GUARDED,
    KINDS,
    PARCEL,
    QUESTIONNAIRE,
    READY,
    REPLIES,
    SHORTCUT,
    TRYING,
    UNROUTED,
    Approved,
    Colour,
    Expected,
    Form,
    Kind,
    Parcel,
    Question,
    Trying,
    Unfinished,
    answer_with,
    delete_file,
    executor_of,
    look_up,
)
from tests.verify.test_temporal import TERMS

TOOLS = (look_up, answer_with, delete_file)


def explored(limits: Limits, kind: Kind = "react", tools: Any = (look_up,), **options: Any) -> Exploration:
    executor = executor_of(kind, tools)
    return explore(executor.graph, limits, READY, replies_of(executor), **options)


@cases("kind", KINDS)
@cases("iterations", [0, 1, 3, 15])
def test_executor_takes_few_transitions_per_iteration(iterations: int, kind: Kind) -> None:
    found = explored(Limits(iterations=iterations), kind)
    # A structured agent's rules are four more nodes, one of which asks for the answer after repeated calls.
    has_rules = kind == "structured"
    assert found.longest == (8 if has_rules else 4) * iterations + 2
    assert found.model_calls == (max(0, 2 * iterations - 1) if has_rules else iterations)
    assert found.holds


def test_fifteen_iterations_take_few_states() -> None:
    found = explored(Limits(iterations=15), tools=(look_up, answer_with))
    assert found.states < 500
    assert found.runs < 2_000
    assert found.paths is not None
    assert found.paths > 10**12


def test_every_untaken_edge_has_a_reason() -> None:
    found = explored(agent_limits(iterations=2, tool_calls=1), tools=(look_up, answer_with))
    assert found.never_taken == ()
    without = explored(Limits(iterations=2))
    assert list(map(str, without.never_taken)) == [
        "dispatch_tools --LimitReached--> stopped_response: no limit is reached at dispatch_tools",
        "check_return_direct --AgentFinish--> END: check_return_direct never returns AgentFinish",
    ]
    nothing = explored(Limits(iterations=0))
    assert list(map(str, nothing.never_taken[:2])) == [
        "plan --Replied--> parse: plan is always stopped before it returns",
        "parse --Acted--> dispatch_tools: parse is never reached",
    ]


@st.composite
def all_limits(draw: st.DrawFn) -> Limits:
    return agent_limits(
        iterations=draw(st.integers(0, 2)),
        model_calls=draw(st.none() | st.integers(0, 2)),
        tool_calls=draw(st.none() | st.integers(0, 2)),
        tokens=draw(st.none() | st.integers(0, 2)),
        seconds=draw(st.sampled_from([None, None, None, 0.0, 1.0])),
        restarts=draw(st.sampled_from([None, None, 0])),
    )


def comparable_results(found: Exploration) -> tuple[object, ...]:
    """Return the results of an exploration that do not depend on pruning."""
    return (
        found.paths,
        found.longest,
        found.model_calls,
        found.tool_calls,
        set(found.endings),
        set(found.exceptions),
        set(found.injected),
        {(raised.node, type(raised.error), len(raised.path)) for raised in found.raised},
        found.taken,
        {failure.assertion: len(failure.path) for failure in found.failures},
    )


# Some runs break two of them.
ASSERTIONS = (
    never_without(answered(CallTool), before=asked(CallTool), each=True),
    eventually(ended()),
    never(calls_tool("look_up")),
    never_without(left("parse"), before=left("plan"), each=True),
    never_without(calls_tool("look_up"), before=calls_tool("look_up") & calls_tool("no_such_tool")),
)


# More examples than elsewhere, because few limits lead to every kind of run.
@pytest.mark.medium
@settings(max_examples=2 * settings().max_examples)
@given(limits=all_limits(), kind=st.sampled_from(KINDS), both=st.booleans())
def test_pruning_does_not_change_results(limits: Limits, kind: Kind, both: bool) -> None:
    if limits.seconds or limits.restarts is not None:
        # Late replies, cuts and crashes make too many runs of two iterations.
        limits = Limits(iterations=min(1, limits.iterations or 0), seconds=limits.seconds, restarts=limits.restarts)
    tools = (look_up, answer_with) if both and limits.iterations == 1 else (look_up,)
    pruned = explored(limits, kind, tools, properties=ASSERTIONS)
    every = explored(limits, kind, tools, properties=ASSERTIONS, prune=False)
    assert comparable_results(pruned) == comparable_results(every)
    assert every.runs == every.paths
    assert pruned.states <= every.states


@cases("rule", ["no_repeats", "no_immediate_repeats"])
def test_pruning_keeps_calls_that_rules_look_at(rule: RuleName) -> None:
    agent = gx.create_tool_calling_agent(ScriptedModel(["never asked"]), (look_up,), rules=(rule,))
    executor = gx.AgentExecutor(agent=agent, tools=[look_up], handle_parsing_errors=True)
    pruned, every = (
        explore(executor.graph, Limits(iterations=2), READY, replies_of(executor), prune=prune)
        for prune in (True, False)
    )
    assert comparable_results(pruned) == comparable_results(every)
    assert pruned.model_calls == 3


@cases("iterations", [0, 1, 2, 3, 15])
def test_number_of_runs_follows_from_reply_classes(iterations: int) -> None:
    # From each plan: the answer, a raised error and a cancellation end it, and what cannot be read leads to the next. A
    # call of look_up has three results that do so, an unknown tool has one; of answer_with one is the answer and two go
    # on. Each of these three calls may raise or be cancelled.
    runs = 1
    for _ in range(iterations):
        runs = (3 + runs) + (2 + 3 * runs) + (2 + runs) + (2 + 1 + 2 * runs)
    assert explored(Limits(iterations=iterations), tools=(look_up, answer_with)).paths == runs


@cases("iterations", [0, 1, 2])
def test_exhaustive_search_follows_every_run(iterations: int) -> None:
    found = explored(Limits(iterations=iterations))
    assert explored(Limits(iterations=iterations), prune=False).runs == found.paths


@given(data=st.data(), kind=st.sampled_from(KINDS), iterations=st.integers(0, 3))
def test_explorer_and_driver_emit_same_events(data: st.DataObject, kind: Kind, iterations: int) -> None:
    executor = executor_of(kind, (look_up, answer_with))
    oracle = replies_of(executor)
    given: list[object] = []

    async def chosen(effect: Effect[Any], call: CallContext[Any], io: IO) -> object:
        reply = data.draw(st.sampled_from(list(oracle(effect)))).value
        given.append(reply)
        return reply

    # One that answers at once is called in the test's own thread.
    handler = Handler(chosen, instant=True)
    answers: Any = {CallModel: handler, CallAgent: handler, CallTool: handler}
    limits = Limits(iterations=iterations)
    driven = list(stream(executor.graph, READY, make_run_context(answers, limits=limits, clock=lambda: 0.0)))
    assert isinstance(driven[-1], Done)
    # The explorer answers a batch as a whole, and the driver each member as it is answered.
    assert asked_first(explored_events(executor.graph, limits, given)) == asked_first(driven)


def asked_first(events: list[Event[Any]]) -> list[Event[Any]]:
    """Return the events with all effects of a visit before their answers."""
    ordered: list[Event[Any]] = []
    for asks, some in groupby(events, lambda event: isinstance(event, (Asked, Answered))):
        ordered += sorted(some, key=lambda event: asks and isinstance(event, Answered))
    return ordered


def explored_events(graph: gx.Graph[Ready, Any], limits: Limits, replies: list[object]) -> list[Event[Any]]:
    """Return the events of the explorer's run with these replies in order."""
    stepping = Stepping(graph, limits)
    answers = iter(replies)
    events, then = stepping.start_run(READY)
    every = list(events)
    while not isinstance(then, Over):
        (choice,) = (
            choice
            for choice in stepping.choices(then, Oracle(lambda _: [Reply("given", next(answers))]))
            if choice.kind == "replies"
        )
        events, then = stepping.advance(then, choice)
        every += events
    return every


def test_parser_determines_reply_classes() -> None:
    def names(kind: Kind) -> list[str]:
        executor = executor_of(kind, (look_up, answer_with))
        (effect,) = (
            effect
            for effect in (CallAgent, CallModel)
            if (effect is CallAgent) == (executor.agent.function is not None)
        )
        replies: Any = replies_of(executor)(object.__new__(effect))
        return sorted(reply.name for reply in replies)

    one = ["calls an unknown tool", "calls answer_with", "calls look_up"]
    several = ["calls several", "calls several, and an unknown tool"]
    assert names("react") == [*one, "finish", "unreadable"]
    assert names("structured") == [*one, "finish", "unreadable"]
    assert names("tool calling") == sorted([*one, *several, "finish", "unreadable"])
    assert names("callable") == sorted([*one, *several, "calls none", "finish", "unreadable"])


def test_unhandled_parse_error_ends_run() -> None:
    executor = executor_of(strict=True)
    found = explore(executor.graph, Limits(iterations=2), READY, replies_of(executor))
    assert found.exceptions["ParseError"] == 2
    assert found.injected["ModelError"] == 2
    assert found.holds


def test_raising_tool_has_no_error_reply() -> None:
    oracle = replies_of(executor_of(tools=TOOLS))
    assert [reply.name for reply in oracle(CallTool("delete_file", {}))] == ["ok", "bad_arguments"]
    assert [reply.name for reply in oracle(CallTool("look_up", {}))] == ["ok", "bad_arguments", "error"]
    assert [reply.name for reply in oracle(CallTool("no_such_tool", {}))] == ["unknown_tool"]


def test_deadline_cuts_every_effect() -> None:
    found = explored(Limits(iterations=2, seconds=10.0), tools=(look_up, answer_with))
    assert found.never_taken == ()
    assert found.longest == 10


@cases("crashes", [0, 1, 3])
def test_each_crash_costs_at_most_one_repeated_call(crashes: int) -> None:
    found = explored(Limits(iterations=2), crashes=crashes)
    assert found.model_calls == 2 + crashes
    assert found.longest == 10
    limited = explored(agent_limits(iterations=2, model_calls=2), crashes=crashes)
    assert limited.model_calls == 2


@cases("restarts", [0, 1, 2])
def test_restarts_stay_within_limit(restarts: int) -> None:
    found = explored(Limits(iterations=2, restarts=restarts))
    assert found.endless is None
    assert found.model_calls == 2 + restarts


def test_a_run_without_a_limit_is_endless() -> None:
    found = explored(Limits(iterations=None))
    assert found.endless is not None
    assert list(map(str, found.endless.loop)) == ["plan --Replied--> parse", "parse --Ready--> plan"]
    assert (found.paths, found.longest, found.model_calls, found.tool_calls) == (None, None, None, None)
    assert not found.holds
    counting = explore(PROMPTS, Limits(iterations=None), Prompt(), replies_of(PROMPTS, {CallModel: [ModelReply("so")]}))
    assert counting.endless is not None
    assert str(counting.endless) == "prompt --Prompt--> prompt can repeat forever; reached by prompt"


def test_earlier_replies_distinguish_states() -> None:
    oracle = replies_of(QUESTIONNAIRE, {Question: [True, False]})
    found = explore(QUESTIONNAIRE, Limits(), Form(), oracle)
    assert set(found.endings) == {"Same", "Different"}
    # Two questions: the first can fail or be cancelled, as can each of the two second ones.
    assert found.paths == 2 + 2 * 2 + 2 * 2
    assert explore(QUESTIONNAIRE, Limits(), Form(), oracle, prune=False).runs == found.paths


def test_long_visits_are_abstracted_by_reply_counts() -> None:
    """In order, there would be two to the number of the replies."""
    oracle = replies_of(INSISTENT, {gx.AskHuman: ["yes", "no", "perhaps"]})
    few, many = (explore(INSISTENT, Limits(fan_out=fan_out), Asking("OK?"), oracle) for fan_out in (20, 40))
    assert set(few.endings) == set(many.endings) == {"Agreed", "GaveUp"}
    # Those that are all alike, and two of which the last one differs.
    assert (many.states - few.states) / 20 == 4
    assert explore(INSISTENT, Limits(fan_out=4), Asking("OK?"), oracle).states == 1 + 2 + 4 + 8


def test_all_effects_without_replies_are_listed() -> None:
    with pytest.raises(InputError) as raised:
        replies_of(INTERVIEW)
    assert str(raised.value) == ("no replies to Question are known; pass replies={Question: [...]}, one of each kind")
    with pytest.raises(InputError, match=r"results of leave are.*Underway.*; .*results of come_back are.*Home"):
        replies_of(ERRAND)
    with pytest.raises(InputError, match="the replies to AskHuman are 'yes'; give a list of replies"):
        replies_of(ERRAND, {gx.AskHuman: "yes"})


def test_an_opaque_node_returns_what_the_user_gives() -> None:
    oracle = replies_of(ERRAND, {Perform: [Underway(()), Home(())]})
    found = explore(ERRAND, Limits(seconds=1.0), Outing(), oracle)
    assert set(found.endings) == {Home.__name__, Left.__name__}
    assert found.never_taken == ()


def test_too_many_states_are_refused() -> None:
    with pytest.raises(InputError, match="found 10 states and is not done"):
        explored(Limits(iterations=15), most_states=10)


as_explore: Any = explore


@cases(
    ("explored_wrongly", "text"),
    [
        (
            lambda: as_explore(executor_of("tool calling", TOOLS), Limits(), Form(), Oracle(lambda _: ())),
            "is not a graph; write explore(executor.graph, ...)",
        ),
        (
            lambda: as_explore(QUESTIONNAIRE, Limits(), Form(), Oracle(lambda _: ()), most_states="many"),
            "explore has most_states='many'; give a whole number, 1 or more",
        ),
    ],
)
def test_unexplorable_arguments_are_refused_with_remedy(explored_wrongly: Callable[[], object], text: str) -> None:
    with pytest.raises(InputError) as raised:
        explored_wrongly()
    assert str(raised.value).endswith(text)


def test_batch_with_many_combinations_varies_one_member() -> None:
    executor = executor_of("tool calling", TOOLS)
    found = explore(executor.graph, Limits(iterations=1), READY, replies_of(executor))
    assert found.tool_calls == 2
    assert found.holds


# ---- nodes that raise


def approving(body: Callable[[Acted], gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]]) -> gx.AgentExecutor:
    """An executor with a node between `parse` and `dispatch_tools` that asks a person as `body` does."""

    def approve(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
        return (yield from body(acted))

    made = gx.charged(when_spent=limit_reached, asks=1)(gx.node(approve))
    routes = gx.on(Acted, dispatch_tools) | gx.on(gx.AgentFinish, gx.END) | gx.on(LimitReached, stopped_response)
    executor = executor_of(strict=True)
    return executor.with_graph(gx.splice(executor.graph, gx.edges(made, routes), after=parse, on=Acted))


def crashing(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
    answer = yield from gx.ask(gx.AskHuman("?"))
    nothing: dict[str, Acted] = {}
    return nothing["bug"] if answer == "no" else acted


def asking_twice(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
    answer = yield from gx.ask(gx.AskHuman("?"))
    if answer == "no":
        yield from gx.ask(gx.AskHuman("sure?"))
    return acted


def undeclared(acted: Acted) -> gx.Asks[gx.AskHuman, Any]:
    answer = yield from gx.ask(gx.AskHuman("?"))
    return Ready(acted.run) if answer == "no" else acted


def obedient(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
    answer = yield from gx.ask(gx.AskHuman("?"))
    return acted if answer == "yes" else gx.AgentFinish({"output": "no"})


CAREFUL = approving(obedient)
CRASHING = approving(crashing)


def approved(executor: gx.AgentExecutor, *properties: Assertion, **options: Any) -> Exploration:
    limits = Limits(iterations=2)
    return explore(executor.graph, limits, READY, replies_of(executor), properties=properties, **options)


@cases(
    ("body", "name"),
    [(crashing, "KeyError"), (asking_twice, "UndeclaredCountError"), (undeclared, "UndeclaredOutcomeError")],
)
def test_exception_of_node_has_shortest_run(
    body: Callable[[Acted], gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]], name: str
) -> None:
    found = approved(approving(body))
    assert not found.holds
    (raised,) = found.raised
    assert (raised.node, type(raised.error).__name__) == ("approve", name)
    assert list(map(str, raised.path)) == ["plan --Replied--> parse", "parse --Acted--> approve"]
    assert [choice.name for choice in raised.choices][-1] == "no"
    assert f"raises: approve raises {name}(" in str(found)
    # Injected exceptions are counted separately, and are not failures.
    assert set(found.exceptions) == {name, "ParseError"}
    assert set(found.injected) == {"ModelError", "an exception"}
    assert f"exceptions of nodes: ParseError in 2 runs, {name} in" in str(found)
    assert "exceptions of the world: ModelError in 2 runs, an exception in" in str(found)


def test_allowed_exception_is_not_reported() -> None:
    found = approved(approving(crashing), raises=(KeyError, ParseError))
    assert found.raised == ()
    assert found.exceptions["KeyError"] > 0
    assert found.holds
    assert [type(one.error) for one in approved(CAREFUL, raises=()).raised] == [ParseError]


def test_exception_test_fails_until_node_is_fixed() -> None:
    (raised,) = approved(CRASHING).raised
    source = as_test(raised)
    assert "def test_approve_raises_no_keyerror() -> None:" in source
    with pytest.raises(AssertionError, match="KeyError"):
        run_pasted(source)
    run_pasted(as_test(raised, machine="from tests.verify.test_explore import CAREFUL; machine = CAREFUL.graph"))


def stubborn_asking() -> gx.Graph[Form, Any]:
    """A machine whose one node raises when it is answered."""

    def insist(form: Form) -> gx.Asks[gx.AskHuman, Expected]:
        yield from gx.ask(gx.AskHuman("first?"))
        raise KeyError(form.name)

    asking: Any = gx.charged(when_spent=Unfinished)(gx.node(insist))
    return graph(gx.edges(asking, gx.on(Expected, gx.END) | gx.on(Unfinished, gx.END)), start=asking)


REPLIED = Choice("replies", "yes", "yes")


@cases(
    ("choices", "raises"),
    [
        ([REPLIED], True),
        ([Choice("crashes"), REPLIED], True),
        ([], False),
        ([Choice("cuts", "", Cut()), REPLIED, REPLIED], False),
        ([Choice("replies late", "yes", "yes")], True),
        ([Choice("cuts", "", Cut()), REPLIED], False),
    ],
)
@cases("name", ["stored", lambda: None])
def test_run_is_repeated_from_its_choices(choices: list[Choice], name: Any, raises: bool) -> None:
    error = raised_by(stubborn_asking(), Limits(seconds=2.0), Form(name), choices)
    assert isinstance(error, KeyError) == raises
    assert raises or error is None


def test_injected_exceptions_are_not_node_exceptions() -> None:
    with pytest.raises(InputError, match="one of the choices cancels, which ends the run; leave it out"):
        raised_by(stubborn_asking(), Limits(), Form(), [Choice("cancels")])


def test_exception_is_found_despite_crashes_and_cuts() -> None:
    machine = stubborn_asking()
    for limits in (Limits(seconds=2.0), Limits(restarts=1), Limits()):
        (raised,) = explore(machine, limits, Form(), replies_of(machine), crashes=1).raised
        assert [choice.kind for choice in raised.choices] == ["replies"]


answers_so_far: list[str] = []


def test_exception_raised_once_suggests_hidden_state() -> None:
    def tire(form: Form) -> Expected:
        answers_so_far.append(form.name)
        if len(answers_so_far) == 1:
            raise KeyError
        return Expected()

    tiring: Any = gx.node(tire)
    machine = graph(gx.edges(tiring, gx.on(Expected, gx.END)), start=tiring)
    (raised,) = explore(machine, Limits(), Form(), replies_of(machine)).raised
    assert "KeyError, but not when it is run again: tire keeps state between runs" in str(raised)


# ---- names


def test_assertion_about_unknown_node_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        approved(CAREFUL, dominates("aprove", calls_tool("look_up")), never(entered("somewhere") | left("parse")))
    assert str(raised.value).splitlines() == [
        "dominates('aprove', calls_tool('look_up')): the graph has no node aprove; its nodes are plan, parse, "
        "dispatch_tools, check_return_direct, stopped_response, approve; did you mean approve?",
        "never((entered('somewhere') | left('parse'))): the graph has no node somewhere; its nodes are plan, parse, "
        "dispatch_tools, check_return_direct, stopped_response, approve",
    ]


def test_assertion_about_unknown_tool_is_refused() -> None:
    with pytest.raises(InputError) as raised:
        approved(CAREFUL, never_without(~calls_tool("lookup"), before=left("parse")))
    assert str(raised.value) == (
        "never_without(~calls_tool('lookup'), before=left('parse')): there is no tool lookup; the tools are look_up; "
        "did you mean look_up? (a call of an unknown tool is one of no_such_tool)"
    )
    # A model may call any unknown tool, under the name that stands for all of them.
    assert not approved(CAREFUL, never(calls_tool("no_such_tool"))).holds
    # Which tools a bare graph's run_context has is not known.
    assert approval(GUARDED, never(calls_tool("anything"))).holds


# ---- seeded failures


APPROVAL = never_without(calls_tool("delete_file"), before=left("approve", Approved), each=True)


def approval(graph: gx.Graph[Any, Any], assertion: Assertion = APPROVAL, iterations: int = 3) -> Exploration:
    oracle = replies_of(graph, REPLIES)
    return explore(graph, Limits(iterations=iterations), errands.Errand(), oracle, properties=[assertion])


def test_machine_that_always_asks_has_no_failure() -> None:
    found = approval(GUARDED)
    assert found.failures == ()
    assert found.holds
    assert approval(GUARDED, dominates("approve", calls_tool("delete_file"))).holds


def test_shortcut_around_approval_has_shortest_path() -> None:
    (failure,) = approval(SHORTCUT).failures
    assert list(map(str, failure.path)) == ["decide --Urgent--> act"]
    assert [choice.kind for choice in failure.choices] == ["replies"]
    assert str(failure) == (
        "never_without(calls_tool('delete_file'), before=left('approve', Approved), each=True) does not hold: "
        "decide --Urgent--> act; the world replies ModelReply 3; the last event is Asked(node='act', "
        "effect=CallTool(name='delete_file', tool_input={}))"
    )


def test_an_approval_of_another_call_is_not_enough() -> None:
    # Only after an approved deletion is an urgent one allowed.
    once = never_without(calls_tool("delete_file"), before=left("approve", Approved))
    assert len(shortest(SHORTCUT, once).path) == 1
    looked = never_without(calls_tool("delete_file"), before=calls_tool("list_files"))
    assert [edge.source for edge in shortest(GUARDED, looked).path] == ["decide", "approve"]


def shortest(graph: gx.Graph[Any, Any], assertion: Assertion) -> Failure:
    (failure,) = approval(graph, assertion).failures
    return failure


def test_failure_test_fails_until_machine_is_fixed() -> None:
    failure = shortest(SHORTCUT, APPROVAL)
    with pytest.raises(AssertionError, match="never_without"):
        run_pasted(as_test(failure))
    run_pasted(as_test(failure, machine="from tests.verify.errands import GUARDED as machine"))


def test_failure_at_end_of_run_becomes_test() -> None:
    failure = shortest(GUARDED, eventually(calls_tool("delete_file")))
    assert isinstance(failure.events[-1], Done)
    with pytest.raises(AssertionError, match="eventually"):
        run_pasted(as_test(failure))


@cases("limits", [Limits(iterations=2), Limits(iterations=2, seconds=1.0, restarts=1)])
@cases("kind", KINDS)
def test_executor_failures_become_tests(kind: Kind, limits: Limits) -> None:
    executor = executor_of(kind, (look_up, answer_with))
    twice = never_without(calls_tool("look_up"), before=~calls_tool("look_up") & left("check_return_direct"))
    found = explore(executor.graph, limits, READY, replies_of(executor), properties=[twice])
    (failure,) = found.failures
    source = f"from tests.verify.errands import *; machine = executor_of({kind!r}, (look_up, answer_with)).graph"
    with pytest.raises(AssertionError):
        run_pasted(as_test(failure, machine=source))


def run_pasted(source: str) -> None:
    """Run the one test in a source, as pytest would."""
    names: dict[str, Any] = {}
    exec(compile(source, "pasted.py", "exec"), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    test()


def test_failure_test_of_unnamed_graph_needs_machine() -> None:
    executor = executor_of()
    oracle = replies_of(executor)
    found = explore(executor.graph, Limits(iterations=1), READY, oracle, properties=[never(left("parse"))])
    with pytest.raises(InputError, match="machine="):
        as_test(found.failures[0])


def test_failure_test_imports_module_level_executor() -> None:
    (failure,) = approved(CAREFUL, never(left("parse"))).failures
    source = as_test(failure)
    assert "from tests.verify.test_explore import CAREFUL\n\nmachine = CAREFUL.graph\n" in source
    with pytest.raises(AssertionError, match="never"):
        run_pasted(source)


def test_failure_path_can_be_marked_in_picture() -> None:
    failure = shortest(SHORTCUT, APPROVAL)
    picture = draw(SHORTCUT, "mermaid", marks=dict.fromkeys(failure.path, "orange"))
    assert "linkStyle 2 stroke" in picture


def test_oracle_knows_replies_of_a_person() -> None:
    assert [reply.value for reply in replies_of(GUARDED, REPLIES)(gx.AskHuman("?"))] == ["yes", "no", ""]


def test_events_begin_at_the_start() -> None:
    failure = shortest(SHORTCUT, APPROVAL)
    assert [type(event).__name__ for event in failure.events] == [
        "Entered",
        "Asked",
        "Answered",
        "Moved",
        "Entered",
        "Asked",
    ]
    assert [event.node for event in failure.events if isinstance(event, (Answered, Moved))] == ["decide", "decide"]


# ---- states that must not be merged


FORMS: list[Callable[[Predicate, Predicate], Assertion]] = [
    lambda what, other: never_without(what, before=other),
    lambda what, other: never_without(what, before=other, each=True),
    lambda what, other: followed(what, by=other),
    lambda what, other: never(what & other),
    lambda what, other: eventually(what | other),
]


@st.composite
def assertions(draw: st.DrawFn) -> Assertion:
    return draw(st.sampled_from(FORMS))(draw(TERMS), draw(TERMS))


@pytest.mark.medium
@given(
    machine=st.sampled_from([GUARDED, SHORTCUT]),
    assertion=assertions(),
    limits=st.sampled_from(
        [Limits(iterations=2), Limits(iterations=1, seconds=1.0), agent_limits(iterations=2, tokens=1)]
    ),
)
def test_pruned_search_finds_shortest_failures(
    machine: gx.Graph[Any, Any], assertion: Assertion, limits: Limits
) -> None:
    oracle = replies_of(machine, REPLIES)
    pruned = explore(machine, limits, errands.Errand(), oracle, properties=[assertion])
    every = explore(machine, limits, errands.Errand(), oracle, properties=[assertion], prune=False)
    assert comparable_results(pruned) == comparable_results(every)
    for failure in pruned.failures:
        assert breaks(assertion, machine, limits, errands.Errand(), failure.choices)


def test_endless_run_may_ask_for_nothing() -> None:
    found = explore(CLOCK, Limits(iterations=None), Tick(), Oracle(lambda _: []))
    assert found.endless is not None
    assert list(map(str, found.endless.loop)) == ["tick --Tock--> tock", "tock --Tick--> tick"]
    assert found.endless.stem == ()
    ended_ = explore(CLOCK, Limits(iterations=5), Tick(), Oracle(lambda _: []))
    assert (ended_.longest, ended_.paths, ended_.states) == (11, 1, 0)


def test_a_reply_may_take_all_the_tokens() -> None:
    found = explored(agent_limits(iterations=3, tokens=1000))
    assert found.longest == 14
    assert ("plan", "LimitReached") in {(edge.source, edge.outcome.__name__) for edge in found.taken}
    assert explored(agent_limits(iterations=15, tokens=0)).longest == 2


def test_small_counters_in_values_are_distinguished() -> None:
    found = explore(TRYING, Limits(iterations=None), Trying(), replies_of(TRYING, {CallModel: [ModelReply("no")]}))
    assert found.endless is None
    assert set(found.endings) == {"GivenUp"}
    assert found.longest == 3


def test_unserializable_value_is_resumed_unchanged() -> None:
    start = Trying(0, lambda: None)
    oracle = replies_of(TRYING, {CallModel: [ModelReply("no")]})
    found = explore(TRYING, Limits(iterations=None), start, oracle, crashes=1)
    assert found.model_calls == 4
    assert "SnapshotError" not in found.exceptions


def test_exploration_text_lists_results() -> None:
    assert str(explored(Limits(iterations=3), tools=(look_up, answer_with))).splitlines()[0] == (
        "49 runs were followed, of 12 states, for 913 in all; at most 14 transitions, 3 model calls and 3 tool calls"
    )
    assert str(approval(SHORTCUT)).splitlines()[1].startswith("fails: never_without(")
    assert "endless: prompt --Prompt--> prompt" in str(
        explore(PROMPTS, Limits(iterations=None), Prompt(), replies_of(PROMPTS, {CallModel: [ModelReply("so")]}))
    )


def test_start_values_round_trip_as_source() -> None:
    nothing = Oracle(lambda _: [])
    unpacked = never(left("unpack", Expected))
    found = explore(PARCEL, Limits(), Parcel(CONTENTS), nothing, properties=[unpacked])
    with pytest.raises(AssertionError):
        run_pasted(as_test(found.failures[0]))


def test_local_definitions_have_bare_names() -> None:
    @dataclass(frozen=True)
    class Local:
        pass

    nothing = Oracle(lambda _: [])
    found = explore(PARCEL, Limits(), Parcel((int, Local())), nothing, properties=[never(left("unpack"))])
    source = as_test(found.failures[0])
    assert "Parcel(contents=(int, Local()))" in source
    assert "builtins" not in source
    assert "Local\n" not in source


def test_extra_choices_after_end_are_ignored() -> None:
    assert breaks(never(left("unpack")), PARCEL, Limits(), Parcel(CONTENTS), [REPLIED])


def test_failure_test_is_readable() -> None:
    failure = shortest(SHORTCUT, dominates("approve", calls_tool("delete_file")))
    assert as_test(failure) == PASTED


PASTED = """\
from graphexec import Limits
from graphexec.messages import ModelReply
from graphexec.verify.explorer.failure import breaks
from graphexec.verify.explorer.stepping import Choice
from graphexec.verify.explorer.temporal import calls_tool, dominates
from tests.verify.errands import Errand
from tests.verify.errands import SHORTCUT as machine


def test_dominates_approve_calls_tool_delete_file() -> None:
    # dominates('approve', calls_tool('delete_file')) does not hold: decide --Urgent--> act; the world replies
    # ModelReply 3; the last event is Asked(node='act', effect=CallTool(name='delete_file', tool_input={}))
    assertion = dominates('approve', calls_tool('delete_file'))
    choices = [
        Choice(kind='replies', name='ModelReply 3', value=ModelReply(content='delete now')),
    ]
    assert not breaks(assertion, machine, Limits(iterations=3), Errand(), choices), str(assertion)
"""


def test_unrouted_outcome_of_draft_raises() -> None:
    found = explore(UNROUTED, Limits(), Parcel(None), Oracle(lambda _: []))
    assert found.exceptions == {"UnhandledOutcomeError": 1}


def test_large_batch_varies_one_member_at_a_time() -> None:
    found = explore(SURVEY, Limits(), Topics(("a", "b", "c")), replies_of(SURVEY))
    assert found.paths == 3**3 + 2
    large = explore(SURVEY, Limits(), Topics(("a", "b", "c", "d")), replies_of(SURVEY))
    assert large.paths == 1 + 4 * 2 + 2


def test_raising_parser_is_its_own_class() -> None:
    def read(reply: ModelReply) -> gx.AgentFinish:
        if not reply.content:
            raise ZeroDivisionError
        return gx.AgentFinish({"output": reply.content})

    agent = gx.chat_agent(lambda run: CallModel(CompletionRequest("?")), read, ScriptedModel(["never asked"]))
    executor = gx.AgentExecutor(agent=agent, tools=[])
    oracle = replies_of(executor)
    assert [reply.name for reply in oracle(CallModel(CompletionRequest("?")))] == [
        "finish",
        "read raises ZeroDivisionError",
    ]
    found = explore(executor.graph, Limits(iterations=1), READY, oracle)
    assert found.exceptions["ZeroDivisionError"] == 1
    # The parser is the user's, and so is its mistake.
    assert [(one.node, repr(one.error)) for one in found.raised] == [("parse", "ZeroDivisionError()")]


def test_callable_agent_has_no_known_model_replies() -> None:
    with pytest.raises(InputError, match="no replies to CallModel are known"):
        replies_of(executor_of("callable"))(CallModel(CompletionRequest("?")))


def test_a_tool_with_a_timeout_may_time_out() -> None:
    @gx.tool(timeout=1.0)
    def wait(text: str) -> str:
        """Wait."""
        return text

    assert [reply.name for reply in replies_of(executor_of(tools=[wait]))(CallTool("wait", {}))] == [
        "ok",
        "bad_arguments",
        "error",
        "timed_out",
    ]


# ---- shapes


class Slotted:
    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text


class Plain:
    def __init__(self, *parts: object) -> None:
        self.parts = parts


NESTED = Plain()
NESTED.parts = (NESTED, "word")

SAME: list[tuple[object, object]] = [
    (Run({"input": "a"}), Run({"input": "b"})),
    (Slotted("a long text"), Slotted("another one")),
    (100, 7),
    (2.5, 3.5),
    (tuple("word" for _ in range(4)), tuple("word" for _ in range(9))),
    ({"word": 10}, {"word": 11}),
    (NESTED, NESTED),
]
DIFFERENT: list[tuple[object, object]] = [
    (Slotted("word"), Slotted("other word")),
    (Plain("word"), Plain("other word")),
    (Plain(True), Plain(False)),
    (Form("word"), Form("other word")),
    (Colour.RED, Colour.BLUE),
    (("word",), ("word", "word")),
    ({"word": 1}, {"word": 2}),
    (None, ()),
    (0, 1),
    (1, Form),
]


@cases("words", [frozenset({"word", "other word"}), None])
def test_distinguishable_values_have_different_shapes(words: frozenset[str] | None) -> None:
    assert all(shape(one, words) != shape(other, words) for one, other in DIFFERENT)
    assert all(hash(shape(one, words)) == hash(shape(one, words)) for one, _ in [*SAME, *DIFFERENT])


def test_histories_do_not_change_shape() -> None:
    words = frozenset({"word", "other word"})
    assert all(shape(one, words) == shape(other, words) for one, other in SAME)
    assert shape("a long text", None) != shape("another one", None)


def test_strings_are_found_anywhere_in_values() -> None:
    value = [Plain({"a": (Slotted("b"), {"c"})}), Form("d"), NESTED, Form, Colour.RED, 3]
    assert texts(value) == {"a", "b", "c", "d", "word"}


def test_value_with_empty_slots_has_a_shape() -> None:
    class Loose:
        __slots__ = ("__dict__", "absent", "there")

        def __init__(self) -> None:
            self.there = 1

    assert shape(Loose(), None) == shape(Loose(), None)
