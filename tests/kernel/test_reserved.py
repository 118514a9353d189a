"""Reserved nodes: no limit stops their calls, which are still counted, and they have a grace after the deadline."""

from __future__ import annotations

import dataclasses
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens
from graphexec.errors import NodeError
from graphexec.executor import Ready, agent_graph
from graphexec.executor.result import Ending
from graphexec.kernel import Meter, PendingEffect, Spent, node
from graphexec.kernel.events import Cut
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime.handlers import RunContext
from graphexec.testing.explorer.stub_nodes import explore_table
from graphexec.verify import Certificate, check
from tests.checks.random_graphs import DrawnEdge, DrawnGraph, DrawnNode
from tests.drivers import LIVE, Driver, FakeClock, Script, make_run_context, run_script
from tests.kernel import machines as m
from tests.parameters import cases
from tests.stopwatch import Stopwatch
from tests.verify.acting import proof_of
from tests.verify.execution import execute

BOTH: tuple[gx.Graph[Ready, Ending], ...] = (agent_graph(generate=True), agent_graph(strict=True, generate=True))


@m.value
class Summary:
    """The last answer of a stopped run."""

    words: tuple[str, ...]


def question(text: str) -> CallModel:
    return CallModel(CompletionRequest(text))


@gx.node(when_spent=m.Stopped, asks=1)
def prompt(given: m.Prompt) -> gx.Asks[CallModel, m.Prompt]:
    yield from gx.ask(question(f"call {given.calls}"))
    return m.Prompt(given.calls + 1)


@gx.node(when_spent=m.Halted, asks=4, grace=2)
def conclude(stopped: m.Stopped) -> gx.Asks[CallModel | CallTool, Summary]:
    first = yield from gx.ask(question("sum up"))
    second = yield from gx.ask(question("in a word"))
    results = yield from gx.ask_all([CallTool("mail", first.content), CallTool("mail", second.content)])
    return Summary((first.content, second.content, *(str(result.observation) for result in results)))


# It calls the model until a limit stops it, then makes four reserved calls.
LAST_WORDS: gx.Graph[m.Prompt, Summary | m.Halted] = m.machine_of(prompt, conclude)


def office(limits: gx.Limits, *, cost: float = 0.0) -> RunContext:
    return make_run_context(
        {
            CallModel: lambda call: ModelReply(f"re: {call.request.prompt}", usage=Usage(3, 4), cost=cost),
            CallTool: lambda call: ToolResult(f"sent {call.tool_input}"),
        },
        limits=limits,
    )


@cases(
    ("limits", "calls"),
    (agent_limits(iterations=0, model_calls=0), 0),
    (agent_limits(iterations=0, model_calls=2), 2),
    (agent_limits(model_calls=1, tool_calls=0), 1),
    (agent_limits(tokens=0), 0),
    (agent_limits(tokens=8), 2),
    (agent_limits(cost=0.5), 1),
    (agent_limits(model_calls=1, fan_out=0), 1),
    (agent_limits(model_calls=1, tokens=1, cost=0.1, tool_calls=1, fan_out=1), 1),
)
def test_reserved_calls_are_counted_but_never_stopped(limits: gx.Limits, calls: int) -> None:
    result = m.run_machine(LAST_WORDS, m.Prompt(), office(limits, cost=1.0))
    assert result.outcome == Summary(("re: sum up", "re: in a word", "sent re: sum up", "sent re: in a word"))
    assert (result.spent["model_calls"], result.spent["tool_calls"]) == (calls + 2, 2)
    assert reported_tokens(result.spent) == 7 * (calls + 2)
    assert result.spent["cost"] == calls + 2


@cases(("restarts", "outcome"), (1, Summary), (2, m.Halted))
def test_too_many_restarts_stop_reserved_calls(restarts: int, outcome: type) -> None:
    stopped = m.Stopped(m.Prompt(), gx.Exhausted("model_calls", 0, 0))
    crashed = gx.Snapshot("conclude", stopped, spent=Spent(restarts=restarts))
    result = m.run_machine(LAST_WORDS, crashed, office(agent_limits(model_calls=0, restarts=1)))
    assert type(result.outcome) is outcome
    if outcome is m.Halted:
        assert result.outcome == m.Halted(stopped, gx.Exhausted("restarts", 1, 2))
        assert result.spent["model_calls"] == 0


TEN = gx.Limits(seconds=10)
# The reserved calls begin at 11 seconds, and are stopped at 12.
GIVEN_UP = m.Halted(m.Stopped(m.Prompt(1), gx.Exhausted("seconds", 10, 11.0)), gx.Exhausted("seconds", 10, 12.0))


def first_reserved_call() -> PendingEffect:
    """Return the run at its first reserved call, after the deadline."""
    first = m.pending(LAST_WORDS, m.Prompt(), TEN)
    assert first.deadline == TEN.seconds
    last = m.pending(LAST_WORDS, m.reload(first.reply(ModelReply(""), at=11.0), LAST_WORDS), TEN)
    assert last.snapshot.node == "conclude"
    return last


def test_grace_extends_the_deadline() -> None:
    assert first_reserved_call().deadline == 12
    assert m.pending(LAST_WORDS, first_reserved_call().reply(ModelReply("at last"), at=11.9), TEN).deadline == 12
    assert m.pending(LAST_WORDS, m.Prompt(), agent_limits(model_calls=0)).deadline is None
    second = m.pending(LAST_WORDS, first_reserved_call().reply(ModelReply("a"), at=11.0), TEN)
    mails = m.pending(LAST_WORDS, second.reply(ModelReply("b"), at=11.0), TEN)
    done = m.finish(LAST_WORDS, mails.reply((ToolResult("sent"), Cut()), at=12.0), TEN)
    cut = "mail was cut off: the limit of 10 seconds was reached (12 spent)."
    assert done.outcome == Summary(("a", "b", "sent", cut))


@cases("cut", False, True)
@cases("stored", False, True)
def test_reserved_calls_stop_after_the_grace(cut: bool, stored: bool) -> None:
    call = first_reserved_call()
    # A cut call used all remaining time, even if the clock lags slightly.
    settled = call.cut(at=11.5) if cut else call.reply(ModelReply("at last"), at=12.0)
    done = m.finish(LAST_WORDS, m.reload(settled, LAST_WORDS) if stored else settled, TEN)
    assert (done.outcome, done.spent.seconds, done.spent["model_calls"]) == (GIVEN_UP, 12, 2)


def slow(clock: FakeClock, seconds: float, limits: gx.Limits = TEN) -> RunContext:
    """Return a context whose model calls take `seconds` of the fake clock."""

    def answer(call: CallModel) -> ModelReply:
        clock.advance(seconds)
        return ModelReply("so")

    return make_run_context({CallModel: answer, CallTool: lambda call: ToolResult("sent")}, limits=limits, clock=clock)


@cases(
    ("seconds", "outcome", "calls"),
    # Calls end at 4, 8 and 12 seconds, when the grace is over.
    (4.0, m.Halted, 3),
    # Calls end at 3, 6, 9 and 12, exactly at the end of the grace.
    (3.0, m.Halted, 4),
    # Calls end at 5 and 10, the deadline; a reserved call ends at 15, too late for another.
    (5.0, m.Halted, 3),
    # Ten calls of 1 second; reserved calls end at 11 and 12, too late for the mails.
    (1.0, m.Halted, 12),
    # Twenty calls of half a second; reserved calls end at 10.5 and 11.
    (0.5, Summary, 22),
)
def test_every_driver_enforces_the_grace(seconds: float, outcome: type, calls: int) -> None:
    result = run_script(lambda: Script(LAST_WORDS, m.Prompt(), slow(FakeClock(), seconds)))
    assert type(result.outcome) is outcome
    assert result.spent["model_calls"] == calls


SOON = gx.replace(LAST_WORDS, dataclasses.replace(conclude, grace=0.6))


@pytest.mark.medium
@cases("drive", *LIVE)
@cases("hanging", "sum up", "a mail")
def test_grace_follows_a_cut_call(drive: Driver, hanging: str, released: threading.Event) -> None:
    """The deadline cuts a hanging call; a reserved call follows, and is cut after its grace."""

    def answer(call: CallModel) -> ModelReply:
        if call.request in (CompletionRequest("call 0"), CompletionRequest(hanging)):
            released.wait(30)
        return ModelReply("a mail" if call.request == CompletionRequest("in a word") else "so")

    def send(call: CallTool) -> ToolResult:
        if call.tool_input == hanging:
            released.wait(30)
        return ToolResult("sent")

    made = make_run_context({CallModel: answer, CallTool: send}, limits=gx.Limits(seconds=0.05))
    with Stopwatch() as watch:
        done = drive(Script(SOON, m.Prompt(), made))
    assert 0.65 <= watch.elapsed < watch.extend(3)
    assert 0.65 <= done.spent.seconds < watch.extend(3)
    if hanging == "sum up":
        assert isinstance(done.outcome, m.Halted)
        assert isinstance(done.outcome.at, m.Stopped)
        assert done.outcome.at.limit.limit == "seconds"
        assert (done.outcome.limit.limit, done.outcome.limit.value) == ("seconds", 0.05)
        assert done.spent["model_calls"] == 2
    else:
        assert isinstance(done.outcome, Summary)
        assert done.outcome.words[:3] == ("so", "a mail", "sent")
        assert done.outcome.words[3].startswith("mail was cut off: the limit of 0.05 seconds was reached")
        assert (done.spent["model_calls"], done.spent["tool_calls"]) == (3, 2)


def words(stopped: m.Stopped) -> gx.Asks[CallModel, Summary]:
    reply = yield from gx.ask(question("sum up"))
    return Summary((reply.content,))


def silent(stopped: m.Stopped) -> Summary:
    return Summary(())


WORDS = gx.node(words)
METERED = "words is reserved, so its entry costs nothing; leave out meters= or grace="
COUNTLESS = "is reserved and needs the number of its effects; write asks=1, or (least, most)"
RESERVED = gx.node(when_spent=m.Halted, asks=1, grace=10)(words)
TRYING = gx.node(when_spent=m.Halted, meters=[Meter("a", 1)])(words)


@cases(
    ("write", "text"),
    (lambda: gx.node(when_spent=m.Halted, meters=[gx.ITERATIONS])(RESERVED), METERED),
    (lambda: gx.node(when_spent=m.Halted, meters=[gx.ITERATIONS], asks=1, grace=10)(words), METERED),
    (lambda: gx.node(when_spent=m.Halted, asks=1, grace=10)(TRYING), METERED),
    (lambda: gx.node(when_spent=m.Halted, asks=1, grace=10)(silent), "silent"),
    (lambda: gx.node(when_spent=m.Halted, grace=10)(silent), f"silent {COUNTLESS}"),
    (lambda: gx.node(when_spent=m.Halted, grace=10, opaque=True)(silent), f"silent {COUNTLESS}"),
    (lambda: gx.node(when_spent=m.Halted, grace=10)(words), f"words {COUNTLESS}"),
)
def test_reserved_asks_for_a_known_number_of_free_calls(write: Callable[[], object], text: str) -> None:
    assert text in m.error_message(NodeError, write)


@cases("grace", -1, -0.001, math.inf, math.nan, True, False)
def test_invalid_grace_is_refused(grace: Any) -> None:
    m.check_refusal(
        NodeError,
        [f"grace is {grace}; give seconds, 0 or more"],
        lambda: gx.node(when_spent=m.Halted, grace=grace),
    )


def test_zero_grace_reserves_only_the_calls() -> None:
    without_time = node(when_spent=m.Halted, asks=1, grace=0)(WORDS)
    machine = m.machine_of(prompt, without_time)
    assert isinstance(m.run_machine(machine, m.Prompt(), office(agent_limits(model_calls=1))).outcome, Summary)
    result = run_script(lambda: Script(machine, m.Prompt(), slow(FakeClock(), 6.0)))
    late = gx.Exhausted("seconds", 10, 12.0)
    assert result.outcome == m.Halted(m.Stopped(m.Prompt(2), late), late)


def proof(machine: gx.Machine[Any, Any], limits: gx.Limits) -> Certificate:
    certificate = machine.verify(limits).certificate
    assert certificate is not None
    return certificate


@pytest.mark.medium
@cases("machine", *BOTH)
@cases(
    ("limits", "calls", "form"),
    *((gx.Limits(iterations=number), number + 1, "iterations + 1") for number in (0, 1, 3, 15)),
    # One call remains for the end.
    (agent_limits(iterations=3, model_calls=0), 1, None),
    (agent_limits(iterations=3, model_calls=2), 3, None),
    (agent_limits(iterations=None, model_calls=4), 5, None),
    (agent_limits(iterations=3, model_calls=7), 4, None),
    (agent_limits(iterations=3, tokens=2), 3, None),
    (gx.Limits(iterations=2, seconds=4), 3, None),
    # The call that a crash interrupted is made and counted again.
    (gx.Limits(iterations=2, restarts=1), 4, None),
    (agent_limits(iterations=2, tool_calls=1, fan_out=1), 3, None),
)
def test_generate_costs_one_more_model_call(machine: Any, limits: gx.Limits, calls: int, form: str | None) -> None:
    certificate = proof(machine, limits)
    bounds = certificate.bounds
    assert bounds.model_calls.number == calls
    if form:
        assert (bounds.model_calls.form, bounds.model_calls.exact, bounds.transitions.exact) == (form, True, True)
    check(certificate, machine)
    found = explore_table(machine, limits, proof=certificate.proof)
    assert found.endless is None
    assert (found.longest, found.model_calls) == (bounds.transitions.number, calls)
    assert Certificate.from_json(certificate.to_json()) == certificate


@given(iterations=st.integers(0, 30), calls=st.none() | st.integers(0, 30))
def test_bound_is_the_smaller_limit_plus_one(iterations: int, calls: int | None) -> None:
    bound = proof(agent_graph(generate=True), agent_limits(iterations=iterations, model_calls=calls)).bounds.model_calls
    assert bound.number == (iterations if calls is None else min(iterations, calls)) + 1


def test_time_bound_includes_grace_and_cancellation() -> None:
    bound = proof(agent_graph(generate=True), gx.Limits(seconds=4)).bounds.seconds
    assert (bound.form, bound.number) == ("seconds + 10.05", 14.05)
    machine = m.machine_of(perhaps, conclude)
    assert proof(machine, gx.Limits(seconds=4)).bounds.seconds.number == 6.05


@gx.node(when_spent=m.Halted, asks=1, grace=10.0)
def again(given: m.Prompt) -> gx.Asks[CallModel, m.Prompt]:
    yield from gx.ask(question("again"))
    return m.Prompt(given.calls + 1)


def test_reserved_calls_alone_bound_no_loop() -> None:
    machine = m.machine_of(again)
    assert machine.verify(agent_limits(iterations=3, model_calls=3, tokens=3)).status == "refuted"
    assert explore_table(machine, agent_limits(model_calls=3)).endless is not None
    machine = m.machine_of(first, perhaps)
    limits = agent_limits(tokens=1)
    (finding,) = machine.verify(limits).findings
    assert finding.code == "GX009"
    assert finding.witness is not None
    assert execute(machine, finding.witness, 50) == 50
    machine = build_graph(
        DrawnNode((DrawnEdge("Red", None), DrawnEdge("Green", 0)), asks="models", least=0, most=0, grace=1.0)
    )
    (finding,) = [one for one in machine.verify(gx.Limits(seconds=5)).findings if one.code == "GX010"]
    assert finding.witness is not None
    assert execute(machine, finding.witness, 50) == 50


@gx.node(when_spent=m.Stopped, asks=(0, 1))
def perhaps(given: m.Prompt) -> gx.Asks[CallModel, Summary]:
    reply = yield from gx.ask(question("perhaps"))
    return Summary((reply.content,))


@gx.node(when_spent=m.Halted, asks=(0, 1), grace=10.0)
def first(stopped: m.Stopped) -> gx.Asks[CallModel, m.Prompt]:
    yield from gx.ask(question("sum up"))
    return m.Prompt()


def generating(steps: int, **limits: Any) -> gx.AgentExecutor:
    """Call a tool in each of `steps` steps, then conclude."""

    def decide(done: Sequence[object], inputs: dict[str, Any]) -> gx.AgentAction | gx.AgentFinish:
        finished = len(done) >= steps or "conclude" in inputs
        return gx.AgentFinish({"output": "done"}) if finished else gx.AgentAction("nothing", "", "")

    return gx.AgentExecutor(agent=decide, tools=[], early_stopping_method="generate", **limits)


@given(steps=st.integers(0, 4), iterations=st.integers(0, 4), calls=st.none() | st.integers(0, 4))
def test_run_with_a_generated_end_is_within_its_bounds(steps: int, iterations: int, calls: int | None) -> None:
    executor = generating(steps, max_iterations=iterations, max_model_calls=calls)
    result = executor.run("go on")
    spent = min(iterations, steps + 1) if calls is None else min(iterations, steps + 1, calls)
    stopped = spent <= steps
    assert (result.reason != "finished") == stopped
    assert result.spent["model_calls"] == spent + stopped
    assert result.spent["model_calls"] <= (proof_of(executor).bounds.model_calls.number or 0)


GRACE: dict[str, Any] = {"asks": "tools", "least": 1, "most": 1, "grace": 10.0}
FIVE_SECONDS = gx.Limits(iterations=None, seconds=5)


def build_graph(*nodes: DrawnNode) -> gx.Machine[Any, Any]:
    return DrawnGraph(nodes).graph


def test_explorer_knows_the_grace() -> None:
    """Regression: the explorer tried late replies only at the end of the grace, and missed runs that continue."""
    # A node that only the deadline stops leads back to the reserved node.
    machine = build_graph(
        DrawnNode((DrawnEdge("Red", 1),), **GRACE),
        DrawnNode((DrawnEdge("Red", None),), meters=("iterations",), spent=0),
    )
    assert explore_table(machine, FIVE_SECONDS).endless is not None
    assert {one.code for one in machine.verify(FIVE_SECONDS).findings if one.severity == "error"} == {"GX012"}
    machine = build_graph(
        # A cut call returns at once, when the grace is over; a late reply takes a detour, and is in time.
        DrawnNode((DrawnEdge("Red", 1),), **GRACE, spent=2),
        DrawnNode((DrawnEdge("Red", 2),)),
        DrawnNode((DrawnEdge("Red", None),), meters=("iterations",), spent=3),
        DrawnNode((DrawnEdge("Red", 4),), **GRACE),
        DrawnNode((DrawnEdge("Red", None),)),
    )
    certificate = proof(machine, FIVE_SECONDS)
    found = explore_table(machine, FIVE_SECONDS, proof=certificate.proof)
    assert found.longest == certificate.bounds.transitions.number == 5


@cases("restarts", 0, 1, 2)
def test_crashed_reserved_call_is_made_again(restarts: int) -> None:
    """Found by a random machine: the bound counted one final call, even if restarts make it again."""
    machine = build_graph(DrawnNode((DrawnEdge("Red", None),), asks="models", least=0, most=1, grace=0.0))
    limits = agent_limits(tokens=0, restarts=restarts)
    certificate = proof(machine, limits)
    check(certificate, machine)
    assert certificate.bounds.model_calls.number == 1 + restarts
    assert explore_table(machine, limits, proof=certificate.proof).model_calls == 1 + restarts
    limits = agent_limits(iterations=3, model_calls=0, restarts=restarts)
    both, reached = proof(agent_graph(generate=True), limits), explore_table(agent_graph(generate=True), limits)
    assert both.bounds.model_calls.number == reached.model_calls == 1 + restarts
