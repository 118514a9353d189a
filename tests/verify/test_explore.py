"""The explorer drives the real engine with every class of reply, and merges equal states."""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, agents, errors, messages, models
from graphexec import executor as table
from graphexec.draw import draw
from graphexec.effects import CallAgent, CallModel, CallTool, agent_limits
from graphexec.executor import Acted, Ready, Stopped
from graphexec.kernel import Answered, Asked, Done, Effect, Event, Limits, Moved
from graphexec.kernel.effects import CallContext, Perform
from graphexec.runtime import IO, Handler, stream
from graphexec.testing.explorer.abstraction import shape, texts
from graphexec.testing.explorer.explore import Exploration, Failure, explore
from graphexec.testing.explorer.oracle import Oracle, Reply, replies_of
from graphexec.testing.explorer.stepping import Asking, Over, Stepping
from graphexec.testing.explorer.temporal import (
    BROKEN,
    Assertion,
    Predicate,
    answered,
    asked,
    calls_tool,
    ended,
    entered,
    eventually,
    followed,
    left,
    never,
    never_without,
)
from tests.kernel import machines as kernel
from tests.parameters import cases
from tests.verify import errands
from tests.verify.errands import GUARDED, KINDS, READY, SHORTCUT, Form, Kind, answer_with, executor_of, look_up
from tests.verify.proofs import require
from tests.verify.test_temporal import TERMS

BOTH = (look_up, answer_with)
TOOLS = (*BOTH, errands.delete_file)
UNLIMITED = Limits(iterations=None)
QUESTION, AGENT_CALL = CallModel(messages.CompletionRequest("?")), object.__new__(CallAgent)
NOTHING = Oracle(lambda _: [])


def explored(limits: Limits, kind: Kind = "react", tools: Any = (look_up,), **options: Any) -> Exploration:
    executor = executor_of(kind, tools)
    return explore(executor.graph, limits, READY, replies_of(executor), **options)


def texts_of(values: Any) -> list[str]:
    return list(map(str, values))


@pytest.mark.medium
@cases("kind", *KINDS)
@cases("iterations", 0, 1, 3, 15)
def test_executor_takes_few_transitions_per_iteration(iterations: int, kind: Kind) -> None:
    found = explored(Limits(iterations=iterations), kind)
    # A structured agent's rules are four more nodes, one of which asks for the answer after repeated calls.
    has_rules = kind == "structured"
    assert found.longest == (8 if has_rules else 4) * iterations + 2
    assert found.model_calls == (max(0, 2 * iterations - 1) if has_rules else iterations)
    assert found.holds


def test_fifteen_iterations_take_few_states() -> None:
    found = explored(Limits(iterations=15), tools=BOTH)
    assert found.states < 500
    assert found.runs < 2_000
    assert (found.paths or 0) > 10**12


def test_untaken_edges_are_listed() -> None:
    found = explored(agent_limits(iterations=2, tool_calls=1), tools=BOTH)
    assert (found.never_taken, found.longest) == ((), 8)
    # A deadline cuts every effect.
    timed = explored(Limits(iterations=2, seconds=10.0), tools=BOTH)
    assert (timed.never_taken, timed.longest) == ((), 10)
    # No limit is reached at the tools, and no tool of these answers.
    assert texts_of(explored(Limits(iterations=2)).never_taken) == [
        "dispatch_tools --Stopped--> stopped_response",
        "check_return_direct --AgentFinish--> END",
    ]
    # The plan is always stopped before it returns.
    stopped = texts_of(explored(Limits(iterations=0)).never_taken)
    assert stopped[:2] == ["plan --Replied--> parse", "parse --Acted--> dispatch_tools"]


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
    tools = BOTH if both and limits.iterations == 1 else (look_up,)
    pruned = explored(limits, kind, tools, properties=ASSERTIONS)
    every = explored(limits, kind, tools, properties=ASSERTIONS, prune=False)
    assert comparable_results(pruned) == comparable_results(every)
    assert every.runs == every.paths
    assert pruned.states <= every.states


@pytest.mark.medium
@cases("rule", "no_repeats", "no_immediate_repeats")
def test_pruning_keeps_calls_that_rules_look_at(rule: agents.RuleName) -> None:
    agent = gx.create_tool_calling_agent(models.ScriptedModel(["never asked"]), (look_up,), rules=(rule,))
    executor = gx.AgentExecutor(agent=agent, tools=[look_up], handle_parsing_errors=True)
    pruned, every = (
        explore(executor.graph, Limits(iterations=2), READY, replies_of(executor), prune=prune)
        for prune in (True, False)
    )
    assert comparable_results(pruned) == comparable_results(every)
    assert pruned.model_calls == 3


@cases("iterations", 0, 1, 2, 3, 15)
def test_number_of_runs_follows_from_reply_classes(iterations: int) -> None:
    # From each plan: the answer ends it, and what cannot be read leads to the next. A call of look_up has three results
    # that do so, an unknown tool has one; of answer_with one is the answer and two go on.
    runs = 1
    for _ in range(iterations):
        runs = (1 + runs) + 3 * runs + runs + (1 + 2 * runs)
    assert explored(Limits(iterations=iterations), tools=BOTH).paths == runs


@given(data=st.data(), kind=st.sampled_from(KINDS), iterations=st.integers(0, 3))
def test_explorer_and_driver_emit_same_events(data: st.DataObject, kind: Kind, iterations: int) -> None:
    executor = executor_of(kind, BOTH)
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
    driven = list(stream(executor.graph, READY, handlers=answers, limits=limits, clock=lambda: 0.0))
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


CALLS = ["calls look_up", "calls answer_with", "calls an unknown tool"]
SEVERAL = ["calls several", "calls several, and an unknown tool"]


@gx.tool(timeout=1.0)
def wait(text: str) -> str:
    """Wait."""
    return text


def read(reply: messages.ModelReply) -> gx.AgentFinish:
    if not reply.content:
        raise ZeroDivisionError
    return gx.AgentFinish({"output": reply.content})


READING = gx.AgentExecutor(agent=gx.chat_agent(lambda run: QUESTION, read, models.ScriptedModel(["never"])), tools=[])


@cases(
    ("machine", "effect", "names"),
    # The parser determines the replies of a model.
    (executor_of("react", BOTH), QUESTION, ["finish", "unreadable", *CALLS]),
    (executor_of("structured", BOTH), QUESTION, ["unreadable", "finish", *CALLS]),
    (executor_of("tool calling", BOTH), QUESTION, ["finish", "unreadable", *CALLS, *SEVERAL]),
    (executor_of("callable", BOTH), AGENT_CALL, ["finish", *CALLS, "calls none", "unreadable", *SEVERAL]),
    (READING, QUESTION, ["finish", "read raises ZeroDivisionError"]),
    # A tool that raises its errors replies none, and one with a timeout may time out.
    (executor_of(tools=TOOLS), CallTool("delete_file", {}), ["ok", "bad_arguments"]),
    (executor_of(tools=TOOLS), CallTool("look_up", {}), ["ok", "bad_arguments", "error"]),
    (executor_of(tools=TOOLS), CallTool("no_such_tool", {}), ["unknown_tool"]),
    (executor_of(tools=[wait]), CallTool("wait", {}), ["ok", "bad_arguments", "error", "timed_out"]),
)
def test_oracle_knows_classes_of_replies(machine: gx.AgentExecutor, effect: Any, names: list[str]) -> None:
    assert [reply.name for reply in replies_of(machine)(effect)] == names


def test_oracle_knows_replies_of_a_person() -> None:
    assert [reply.value for reply in replies_of(GUARDED, errands.REPLIES)(gx.AskHuman("?"))] == ["yes", "no", ""]


def test_errors_of_parsers_end_runs() -> None:
    found = explore(READING.graph, Limits(iterations=1), READY, replies_of(READING))
    assert found.exceptions["ZeroDivisionError"] == 1
    assert [(one.node, repr(one.error)) for one in found.raised] == [("parse", "ZeroDivisionError()")]
    executor = executor_of(strict=True)
    found = explore(executor.graph, Limits(iterations=2), READY, replies_of(executor))
    assert (found.exceptions["ParseError"], found.holds) == (2, True)


@pytest.mark.medium
@cases("crashes", 0, 1, 3)
def test_each_crash_costs_at_most_one_repeated_call(crashes: int) -> None:
    found = explored(Limits(iterations=2, restarts=crashes))
    assert (found.endless, found.model_calls, found.longest) == (None, 2 + crashes, 10)
    assert explored(agent_limits(iterations=2, model_calls=2, restarts=crashes)).model_calls == 2


SO = replies_of(kernel.PROMPTS, {CallModel: [messages.ModelReply("so")]})


def test_a_run_without_a_limit_is_endless() -> None:
    found = explored(UNLIMITED)
    assert texts_of(require(found.endless).loop) == ["plan --Replied--> parse", "parse --Ready--> plan"]
    assert (found.paths, found.longest, found.model_calls, found.tool_calls) == (None, None, None, None)
    assert not found.holds
    counting = explore(kernel.PROMPTS, UNLIMITED, kernel.Prompt(), SO)
    assert str(counting.endless) == "prompt --Prompt--> prompt can repeat forever; reached by prompt"
    assert "endless: prompt --Prompt--> prompt" in str(counting)


def test_earlier_replies_distinguish_states() -> None:
    machine, oracle = errands.QUESTIONNAIRE, replies_of(errands.QUESTIONNAIRE, {errands.Question: [True, False]})
    found = explore(machine, Limits(), Form(), oracle)
    assert set(found.endings) == {"Expected", "Unexpected"}
    # Two questions, each with two answers.
    assert found.paths == 2 * 2
    assert explore(machine, Limits(), Form(), oracle, prune=False).runs == found.paths


def test_long_visits_are_abstracted_by_reply_counts() -> None:
    """In order, there would be two to the number of the replies."""
    oracle = replies_of(kernel.INSISTENT, {gx.AskHuman: ["yes", "no", "perhaps"]})
    four, few, many = (explore(kernel.INSISTENT, Limits(fan_out=n), kernel.Asking("OK?"), oracle) for n in (4, 20, 40))
    assert set(few.endings) == set(many.endings) == {"Agreed", "GaveUp"}
    # Those that are all alike, and two of which the last one differs.
    assert (many.states - few.states) / 20 == 4
    assert four.states == 1 + 2 + 4 + 8


def test_an_opaque_node_returns_what_the_user_gives() -> None:
    oracle = replies_of(kernel.ERRAND, {Perform: [kernel.Underway(()), kernel.Home(())]})
    found = explore(kernel.ERRAND, Limits(seconds=1.0), kernel.Errand(), oracle)
    assert (set(found.endings), found.never_taken) == ({"Home", "Stopped"}, ())


def test_batch_with_many_combinations_varies_one_member() -> None:
    found = explored(Limits(iterations=1), "tool calling", TOOLS)
    assert (found.tool_calls, found.holds) == (2, True)


# Any: these are the mistakes of a caller.
as_explore: Any = explore


UNKNOWN = (never_without(ended(), before=left("aprove")), never(entered("somewhere") | left("parse")))
NO_TOOL = never_without(~calls_tool("lookup"), before=left("parse"))


@cases(
    ("refused", "facts"),
    (lambda: replies_of(kernel.INTERVIEW), "no replies to Question~ pass replies={Question: [...]}, one of each kind"),
    (lambda: replies_of(kernel.ERRAND), "results of leave are~Underway~; ~results of come_back are~Home"),
    (lambda: replies_of(kernel.ERRAND, {gx.AskHuman: "yes"}), "replies to AskHuman are 'yes'; give a list of replies"),
    (lambda: explored(Limits(iterations=15), most_states=10), "found 10 states and is not done"),
    (lambda: as_explore(CAREFUL, Limits(), Form(), NOTHING), "is not a graph; write explore(executor.graph, ...)"),
    (
        lambda: as_explore(GUARDED, Limits(), Form(), NOTHING, most_states="many"),
        "explore has most_states='many'; give a whole number, 1 or more",
    ),
    (
        lambda: approved(CAREFUL, *UNKNOWN),
        "never_without(ended(), before=left('aprove')): the graph has no node aprove; its nodes are plan, ~did you "
        "mean approve?~never((entered('somewhere') | left('parse'))): the graph has no node somewhere; its nodes are ~"
        "plan, parse, dispatch_tools, check_return_direct, stopped_response, approve",
    ),
    (
        lambda: approved(CAREFUL, NO_TOOL),
        "never_without(~calls_tool('lookup'), before=left('parse')): there is no tool lookup; the tools are "
        "look_up; did you mean look_up? (a call of an unknown tool is one of no_such_tool)",
    ),
)
def test_wrong_questions_are_refused_with_remedy(refused: Callable[[], object], facts: str) -> None:
    kernel.check_refusal(errors.InputError, facts.split("~"), refused)


def test_assertions_may_name_tools_that_are_not_known() -> None:
    # A model may call any unknown tool, under the name that stands for all of them.
    assert not approved(CAREFUL, never(calls_tool("no_such_tool"))).holds
    # Which tools a bare graph's run_context has is not known.
    assert approval(GUARDED, never(calls_tool("anything"))).holds


# ---- nodes that raise


def approving(refused: Callable[[Acted], Any], *, insists: bool = False) -> gx.AgentExecutor:
    """An executor with a node between `parse` and `dispatch_tools` that asks a person, who may refuse, or twice."""

    def approve(acted: Acted) -> gx.Asks[gx.AskHuman, Acted | gx.AgentFinish]:
        answer = yield from gx.ask(gx.AskHuman("?"))
        if insists and answer == "no":
            yield from gx.ask(gx.AskHuman("sure?"))
        outcome: Acted | gx.AgentFinish = refused(acted) if answer == "no" else acted
        return outcome

    made = gx.node(when_spent=table.limit_reached, asks=1)(approve)
    stop = gx.on(gx.AgentFinish, gx.END) | gx.on(Stopped, table.stopped_response)
    rows = gx.edges(made, gx.on(Acted, table.dispatch_tools) | stop)
    executor = executor_of(strict=True)
    return executor.with_graph(gx.splice(executor.graph, rows, after=table.parse, on=Acted))


CAREFUL: gx.AgentExecutor = approving(lambda acted: gx.AgentFinish({"output": "no"}))
CRASHING = approving(lambda acted: {"": acted}["bug"])
UNDECLARED = approving(lambda acted: Ready(acted.run))
ASKING_TWICE = approving(lambda acted: acted, insists=True)


def approved(executor: gx.AgentExecutor, *properties: Assertion, **options: Any) -> Exploration:
    limits = Limits(iterations=2)
    return explore(executor.graph, limits, READY, replies_of(executor), properties=properties, **options)


@cases(
    ("executor", "name"),
    (CRASHING, "KeyError"),
    (ASKING_TWICE, "UndeclaredCountError"),
    (UNDECLARED, "UndeclaredOutcomeError"),
)
def test_exception_of_node_has_shortest_run(executor: gx.AgentExecutor, name: str) -> None:
    found = approved(executor)
    assert not found.holds
    (raised,) = found.raised
    assert (raised.node, type(raised.error).__name__) == ("approve", name)
    assert texts_of(raised.path) == ["plan --Replied--> parse", "parse --Acted--> approve"]
    assert raised.choices[-1].name == "no"
    assert f"raises: approve raises {name}(" in str(found)
    assert set(found.exceptions) == {name, "ParseError"}
    assert f"exceptions of nodes: ParseError in 2 runs, {name} in" in str(found)


def test_allowed_exception_is_not_reported() -> None:
    found = approved(CRASHING, raises=(KeyError, errors.ParseError))
    assert (found.raised, found.holds) == ((), True)
    assert found.exceptions["KeyError"] > 0
    assert [type(one.error) for one in approved(CAREFUL, raises=()).raised] == [errors.ParseError]


def stubborn_asking() -> gx.Graph[Form, Any]:
    """A machine whose one node raises when it is answered."""

    def insist(form: Form) -> gx.Asks[gx.AskHuman, errands.Expected]:
        yield from gx.ask(gx.AskHuman("first?"))
        raise KeyError(form.name)

    asking: Any = gx.node(when_spent=kernel.Halted)(insist)
    routes: Any = gx.on(errands.Expected, gx.END) | gx.on(kernel.Halted, gx.END)
    return gx.graph(gx.edges(asking, routes), start=asking)


@cases("limits", Limits(seconds=2.0, restarts=1), Limits(restarts=1), Limits())
def test_exception_is_found_despite_crashes_and_cuts(limits: Limits) -> None:
    machine = stubborn_asking()
    (raised,) = explore(machine, limits, Form(), replies_of(machine)).raised
    assert [choice.kind for choice in raised.choices] == ["replies"]


# ---- seeded failures


APPROVAL = never_without(calls_tool("delete_file"), before=left("approve", errands.Approved), each=True)
DOMINATES = never_without(calls_tool("delete_file"), before=left("approve"))


def approval(graph: gx.Graph[Any, Any], assertion: Assertion = APPROVAL, iterations: int = 3) -> Exploration:
    oracle = replies_of(graph, errands.REPLIES)
    return explore(graph, Limits(iterations=iterations), errands.Errand(), oracle, properties=[assertion])


def shortest(graph: gx.Graph[Any, Any], assertion: Assertion = APPROVAL) -> Failure:
    (failure,) = approval(graph, assertion).failures
    return failure


@cases("assertion", APPROVAL, DOMINATES)
def test_machine_that_always_asks_has_no_failure(assertion: Assertion) -> None:
    found = approval(GUARDED, assertion)
    assert (found.failures, found.holds) == ((), True)


def test_shortcut_around_approval_has_shortest_path() -> None:
    failure = shortest(SHORTCUT)
    assert texts_of(failure.path) == ["decide --Urgent--> act"]
    assert [choice.kind for choice in failure.choices] == ["replies"]
    # The events begin at the start.
    names = ["Entered", "Asked", "Answered", "Moved", "Entered", "Asked"]
    assert [type(event).__name__ for event in failure.events] == names
    assert [event.node for event in failure.events if isinstance(event, (Answered, Moved))] == ["decide", "decide"]
    assert str(failure) == (
        "never_without(calls_tool('delete_file'), before=left('approve', Approved), each=True) does not hold: "
        "decide --Urgent--> act; the world replies ModelReply 3; the last event is Asked(node='act', "
        "effect=CallTool(name='delete_file', tool_input={}))"
    )
    # It can be marked in a picture.
    assert "linkStyle 2 stroke" in draw(SHORTCUT, "mermaid", marks=dict.fromkeys(failure.path, "orange"))


@cases(
    ("machine", "before", "sources"),
    # Only after an approved deletion is an urgent one allowed.
    (SHORTCUT, left("approve", errands.Approved), ["decide"]),
    (GUARDED, calls_tool("list_files"), ["decide", "approve"]),
)
def test_an_approval_of_another_call_is_not_enough(machine: Any, before: Predicate, sources: list[str]) -> None:
    failure = shortest(machine, never_without(calls_tool("delete_file"), before=before))
    assert [edge.source for edge in failure.path] == sources


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


def breaks(assertion: Assertion, events: Iterable[Event[Any]]) -> bool:
    state = assertion.start
    for event in events:
        state = assertion.after(state, event)
    return state == BROKEN


@pytest.mark.medium
@given(
    machine=st.sampled_from([GUARDED, SHORTCUT]),
    assertion=assertions(),
    limits=st.sampled_from(
        [Limits(iterations=2), Limits(iterations=1, seconds=1.0), agent_limits(iterations=2, tokens=1)]
    ),
)
def test_pruning_finds_shortest_failures(machine: gx.Graph[Any, Any], assertion: Assertion, limits: Limits) -> None:
    oracle = replies_of(machine, errands.REPLIES)
    pruned, every = (
        explore(machine, limits, errands.Errand(), oracle, properties=[assertion], prune=prune)
        for prune in (True, False)
    )
    assert comparable_results(pruned) == comparable_results(every)
    for failure in pruned.failures:
        stepping = Stepping(machine, limits)
        events, then = stepping.start_run(errands.Errand())
        for choice in failure.choices:
            more, then = stepping.advance(then, choice) if isinstance(then, Asking) else ((), then)
            events += more
        assert breaks(assertion, events)


def test_endless_run_may_ask_for_nothing() -> None:
    endless = require(explore(kernel.CLOCK, UNLIMITED, kernel.Tick(), NOTHING).endless)
    assert (texts_of(endless.loop), endless.stem) == (["tick --Tock--> tock", "tock --Tick--> tick"], ())
    limited = explore(kernel.CLOCK, Limits(iterations=5), kernel.Tick(), NOTHING)
    assert (limited.longest, limited.paths, limited.states) == (11, 1, 0)


def test_a_reply_may_take_all_the_tokens() -> None:
    found = explored(agent_limits(iterations=3, tokens=1000))
    assert found.longest == 14
    assert ("plan", "Stopped") in {(edge.source, edge.outcome.__name__) for edge in found.taken}
    assert explored(agent_limits(iterations=15, tokens=0)).longest == 2


NO = replies_of(errands.TRYING, {CallModel: [messages.ModelReply("no")]})


def test_counters_and_callables_in_values_are_kept() -> None:
    # Small counters are distinguished,
    found = explore(errands.TRYING, UNLIMITED, errands.Trying(), NO)
    assert (found.endless, set(found.endings), found.longest) == (None, {"Expected"}, 3)
    # and what cannot be serialized is resumed unchanged.
    found = explore(errands.TRYING, Limits(iterations=None, restarts=1), errands.Trying(0, lambda: None), NO)
    assert found.model_calls == 4
    assert "SnapshotError" not in found.exceptions


def test_exploration_text_lists_results() -> None:
    assert str(explored(Limits(iterations=3), tools=BOTH)).splitlines()[0] == (
        "25 runs were followed, of 12 states, for 457 in all; at most 14 transitions, 3 model calls, 3 tool calls"
    )
    assert str(approval(SHORTCUT)).splitlines()[1].startswith("fails: never_without(")


@cases(("topics", "paths"), ("abc", 3**3), ("abcd", 1 + 4 * 2))
def test_large_batch_varies_one_member_at_a_time(topics: str, paths: int) -> None:
    found = explore(kernel.SURVEY, Limits(), kernel.Topics(tuple(topics)), replies_of(kernel.SURVEY))
    assert found.paths == paths


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
    (actions.Run({"input": "a"}), actions.Run({"input": "b"})),
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
    (errands.Colour.RED, errands.Colour.BLUE),
    (("word",), ("word", "word")),
    ({"word": 1}, {"word": 2}),
    (None, ()),
    (0, 1),
    (1, Form),
]


WORDS = frozenset({"word", "other word"})


@cases("words", WORDS, None)
def test_distinguishable_values_have_different_shapes(words: frozenset[str] | None) -> None:
    assert all(shape(one, words) != shape(other, words) for one, other in DIFFERENT)
    assert all(hash(shape(one, words)) == hash(shape(one, words)) for one, _ in [*SAME, *DIFFERENT])


def test_shapes_do_not_depend_on_histories() -> None:
    assert all(shape(one, WORDS) == shape(other, WORDS) for one, other in SAME)
    assert shape("a long text", None) != shape("another one", None)
    value = [Plain({"a": (Slotted("b"), {"c"})}), Form("d"), NESTED, Form, errands.Colour.RED, 3]
    assert texts(value) == {"a", "b", "c", "d", "word"}


def test_value_with_empty_slots_has_a_shape() -> None:
    class Loose:
        __slots__ = ("__dict__", "absent", "there")

        def __init__(self) -> None:
            self.there = 1

    assert shape(Loose(), None) == shape(Loose(), None)
