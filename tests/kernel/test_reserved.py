"""What is reserved: a node whose calls no limit stops, counted all the same, with a grace beyond the deadline."""

from __future__ import annotations

import asyncio
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphexec import (
    END,
    AgentAction,
    AgentExecutor,
    AgentFinish,
    Asks,
    Exhausted,
    Graph,
    Limits,
    Snapshot,
    advance,
    ask,
    ask_all,
    begin,
    edges,
    graph,
    metered,
    node,
    on,
    replace,
)
from graphexec.effects import CallModel, CallTool, ToolResult, agent_limits, reported_tokens
from graphexec.errors import NodeError
from graphexec.executor import GENERATING_AGENT_EXECUTOR, STRICT_GENERATING_AGENT_EXECUTOR, Ready
from graphexec.executor.result import Ending
from graphexec.kernel import Budget, Cut, PendingEffect, Spent, charged, reserved
from graphexec.messages import CompletionRequest, ModelReply, Usage
from graphexec.runtime import RunContext, arun, astream, make_run_context, run, stream
from graphexec.testing.random_graphs import DrawnEdge, DrawnGraph, DrawnNode
from graphexec.verify import Certificate, check
from graphexec.verify.audit.audit import audit
from graphexec.verify.explorer.stub_nodes import explore_table
from tests.drivers import FakeClock, Script, run_script
from tests.kernel.machines import Prompt, Stopped
from tests.verify.execution import execute
from tests.verify.traces import proof_of, trace_of

BOTH: tuple[Graph[Ready, Ending], ...] = (GENERATING_AGENT_EXECUTOR, STRICT_GENERATING_AGENT_EXECUTOR)


@final
@dataclass(frozen=True)
class Said:
    """The last words."""

    words: tuple[str, ...]


@final
@dataclass(frozen=True)
class Silent:
    """There were none."""

    at: Stopped
    limit: Exhausted


def question(text: str) -> CallModel:
    return CallModel(CompletionRequest(text))


@charged(when_spent=Stopped, asks=1)
@node
def prompt(given: Prompt) -> Asks[CallModel, Prompt]:
    yield from ask(question(f"call {given.calls}"))
    return Prompt(given.calls + 1)


@reserved(when_spent=Silent, asks=4, grace=2)
@node
def conclude(stopped: Stopped) -> Asks[CallModel | CallTool, Said]:
    first = yield from ask(question("sum up"))
    second = yield from ask(question("in a word"))
    results = yield from ask_all([CallTool("mail", first.content), CallTool("mail", second.content)])
    return Said((first.content, second.content, *(str(result.observation) for result in results)))


# Calls until a limit is spent, then four more.
LAST_WORDS: Graph[Prompt, Said | Silent] = graph(
    edges(prompt, on(Prompt, prompt) | on(Stopped, conclude)) | edges(conclude, on(Said, END) | on(Silent, END)),
    start=prompt,
)


def office(limits: Limits, *, cost: float = 0.0) -> RunContext:
    return make_run_context(
        {
            CallModel: lambda call: ModelReply(f"re: {call.request.prompt}", usage=Usage(3, 4), cost=cost),
            CallTool: lambda call: ToolResult(f"sent {call.tool_input}"),
        },
        limits=limits,
    )


# ---- no limit stops it, and everything is counted


@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        (agent_limits(iterations=0, model_calls=0), 0),
        (agent_limits(iterations=0, model_calls=2), 2),
        (agent_limits(model_calls=1, tool_calls=0), 1),
        (agent_limits(tokens=0), 0),
        (agent_limits(tokens=8), 2),
        (agent_limits(cost=0.5), 1),
        (agent_limits(model_calls=1, fan_out=0), 1),
        (agent_limits(model_calls=1, tokens=1, cost=0.1, tool_calls=1, fan_out=1), 1),
    ],
)
def test_its_calls_pass_every_limit_on_them_and_are_counted(limits: Limits, calls: int) -> None:
    result = run_script(lambda: Script(LAST_WORDS, Prompt(), office(limits, cost=1.0)))
    assert result.outcome == Said(
        ("re: sum up", "re: in a word", "sent re: sum up", "sent re: in a word"),
    )
    assert (result.spent["model_calls"], result.spent["tool_calls"]) == (calls + 2, 2)
    assert reported_tokens(result.spent) == 7 * (calls + 2)
    assert result.spent["cost"] == calls + 2


def test_a_run_that_was_taken_up_too_often_is_left_by_its_spent_limit() -> None:
    crashed = Snapshot("conclude", Stopped(Prompt(), Exhausted("model_calls", 0, 0)), spent=Spent(restarts=2))
    result = run_script(lambda: Script(LAST_WORDS, crashed, office(agent_limits(model_calls=0, restarts=1))))
    assert result.outcome == Silent(Stopped(Prompt(), Exhausted("model_calls", 0, 0)), Exhausted("restarts", 1, 2))
    assert result.spent["model_calls"] == 0
    once = Snapshot("conclude", Stopped(Prompt(), Exhausted("model_calls", 0, 0)), spent=Spent(restarts=1))
    assert isinstance(run(LAST_WORDS, once, office(agent_limits(model_calls=0, restarts=1))).outcome, Said)


# ---- the deadline


TEN = Limits(seconds=10)


def concluding(limits: Limits = TEN, *, at: float = 11.0) -> PendingEffect:
    """The run at its first reserved call, its time being over."""
    first = advance(LAST_WORDS, begin(LAST_WORDS, Prompt()), limits)
    assert isinstance(first, PendingEffect)
    assert first.deadline == limits.seconds
    last = advance(LAST_WORDS, Snapshot.from_json(first.reply(ModelReply(""), at=at).to_json(), LAST_WORDS), limits)
    assert isinstance(last, PendingEffect)
    assert last.snapshot.node == "conclude"
    return last


def test_its_deadline_is_so_much_later_and_none_where_there_is_none() -> None:
    assert concluding().deadline == 12
    other = advance(LAST_WORDS, begin(LAST_WORDS, Prompt()), agent_limits(model_calls=0))
    assert isinstance(other, PendingEffect)
    assert other.deadline is None


def test_cut_there_it_leaves_by_its_spent_limit_with_the_runs_own_limit() -> None:
    settled = concluding().cut(at=11.5)
    done = advance(LAST_WORDS, Snapshot.from_json(settled.to_json(), LAST_WORDS), TEN)
    assert done == advance(LAST_WORDS, settled, TEN)
    assert not isinstance(done, PendingEffect)
    # It has had all the time there was, also where the clock is a little behind.
    assert done.outcome == Silent(Stopped(Prompt(1), Exhausted("seconds", 10, 11.0)), Exhausted("seconds", 10, 12.0))
    assert done.spent.seconds == 12
    assert done.spent["model_calls"] == 2


def test_it_asks_for_nothing_any_more_when_its_grace_is_over() -> None:
    state = advance(LAST_WORDS, concluding().reply(ModelReply("at last"), at=12.0), TEN)
    assert not isinstance(state, PendingEffect)
    assert state.outcome == Silent(Stopped(Prompt(1), Exhausted("seconds", 10, 11.0)), Exhausted("seconds", 10, 12.0))
    assert state.spent["model_calls"] == 2


def test_it_asks_on_as_long_as_its_grace_lasts() -> None:
    state = advance(LAST_WORDS, concluding().reply(ModelReply("at last"), at=11.9), TEN)
    assert isinstance(state, PendingEffect)
    assert state.deadline == 12


def test_of_a_batch_that_is_cut_what_has_finished_is_kept() -> None:
    words = concluding().reply(ModelReply("a"), at=11.0)
    second = advance(LAST_WORDS, words, TEN)
    assert isinstance(second, PendingEffect)
    mails = advance(LAST_WORDS, second.reply(ModelReply("b"), at=11.0), TEN)
    assert isinstance(mails, PendingEffect)
    done = advance(LAST_WORDS, mails.cut(at=12.0, finished=(ToolResult("sent"), Cut())), TEN)
    assert not isinstance(done, PendingEffect)
    cut = "mail was cut off: the limit of 10 seconds was reached (12 spent)."
    assert done.outcome == Said(("a", "b", "sent", cut))


def slow(clock: FakeClock, seconds: float, limits: Limits = TEN) -> RunContext:
    """Each model call takes so many seconds of the fake clock."""

    def answered(call: CallModel) -> ModelReply:
        clock.advance(seconds)
        return ModelReply("so")

    return make_run_context(
        {CallModel: answered, CallTool: lambda call: ToolResult("sent")}, limits=limits, clock=clock
    )


@pytest.mark.parametrize(
    ("seconds", "outcome", "calls"),
    [
        # 4, 8, 12: over; the last words are too late by now.
        (4.0, Silent, 3),
        # 3, 6, 9, 12: the same at the very second.
        (3.0, Silent, 4),
        # 5, 10: over; 15: said, and too late to say more.
        (5.0, Silent, 3),
        # 10 times 1; 11; 12: too late for the mails.
        (1.0, Silent, 12),
        # 20 times half; 10.5 and 11.
        (0.5, Said, 22),
    ],
)
def test_every_driver_gives_it_the_grace_and_no_more(seconds: float, outcome: type, calls: int) -> None:
    def script() -> Script[Prompt, Said | Silent]:
        return Script(LAST_WORDS, Prompt(), slow(FakeClock(), seconds))

    result = run_script(script)
    assert type(result.outcome) is outcome
    assert result.spent["model_calls"] == calls


@pytest.mark.parametrize("driver", ["sync", "async"])
def test_a_call_that_never_answers_is_cut_when_the_grace_is_over(driver: str) -> None:
    clock, released = FakeClock(), threading.Event()

    def answered(call: CallModel) -> ModelReply:
        if call.request == CompletionRequest("sum up"):
            released.wait(30)
        else:
            # Just before the end of the grace: it is real time that the driver waits.
            clock.advance(11.99)
        return ModelReply("so")

    made = make_run_context({CallModel: answered}, limits=TEN, clock=clock)
    try:
        done = run(LAST_WORDS, Prompt(), made) if driver == "sync" else asyncio.run(arun(LAST_WORDS, Prompt(), made))
    finally:
        released.set()
    assert isinstance(done.outcome, Silent)
    assert done.outcome.limit == Exhausted("seconds", 10, 12.0)
    assert done.spent["model_calls"] == 2


SOON = replace(LAST_WORDS, dataclasses.replace(conclude, grace=0.2))


@pytest.mark.parametrize("driver", ["run", "arun", "stream", "astream"])
@pytest.mark.parametrize("hanging", ["sum up", "a mail"])
def test_a_cut_call_is_followed_by_the_grace_of_the_next(driver: str, hanging: str) -> None:
    """The deadline cuts a call that hangs; what is reserved is asked for then, and cut when its grace is over."""
    released = threading.Event()

    def answered(call: CallModel) -> ModelReply:
        if call.request in (CompletionRequest("call 0"), CompletionRequest(hanging)):
            released.wait(30)
        return ModelReply("a mail" if call.request == CompletionRequest("in a word") else "so")

    def sent(call: CallTool) -> ToolResult:
        if call.tool_input == hanging:
            released.wait(30)
        return ToolResult("sent")

    made = make_run_context({CallModel: answered, CallTool: sent}, limits=Limits(seconds=0.05))

    async def last() -> Any:
        return [event async for event in astream(SOON, Prompt(), made)][-1]

    began = time.monotonic()
    try:
        match driver:
            case "run":
                done: Any = run(SOON, Prompt(), made)
            case "arun":
                done = asyncio.run(arun(SOON, Prompt(), made))
            case "stream":
                done = list(stream(SOON, Prompt(), made))[-1]
            case _:
                done = asyncio.run(last())
        took = time.monotonic() - began
    finally:
        released.set()
    assert 0.25 <= took < 3
    assert 0.25 <= done.spent.seconds < 3
    if hanging == "sum up":
        assert isinstance(done.outcome, Silent)
        assert done.outcome.at.limit.limit == "seconds"
        assert done.spent["model_calls"] == 2
    else:
        assert isinstance(done.outcome, Said)
        assert done.outcome.words[:3] == ("so", "a mail", "sent")
        assert done.outcome.words[3].startswith("mail was cut off: the limit of 0.05 seconds was reached")
        assert (done.spent["model_calls"], done.spent["tool_calls"]) == (3, 2)


# ---- how it is written


def words(stopped: Stopped) -> Asks[CallModel, Said]:
    reply = yield from ask(question("sum up"))
    return Said((reply.content,))


@pytest.mark.parametrize(
    "written",
    [
        lambda: metered(when_spent=Silent)(reserved(when_spent=Silent)(node(words))),
        lambda: reserved(when_spent=Silent)(metered(when_spent=Silent)(node(words))),
        lambda: metered(when_spent=Silent, budget=Budget("alpha", 1))(reserved(when_spent=Silent)(node(words))),
    ],
)
def test_what_is_reserved_is_not_metered_in_whatever_order(written: Callable[[], Any]) -> None:
    with pytest.raises(NodeError, match="words is reserved, so its entry costs nothing; leave out @metered"):
        written()


@pytest.mark.parametrize("grace", [-1, -0.001, math.inf, math.nan, True, False])
def test_a_grace_that_is_no_time_is_refused(grace: Any) -> None:
    with pytest.raises(NodeError, match=f"grace is {grace}; give seconds, 0 or more"):
        reserved(when_spent=Silent, grace=grace)


def test_a_node_that_asks_for_nothing_has_nothing_to_reserve() -> None:
    def silent(stopped: Stopped) -> Said:
        return Said(())

    with pytest.raises(NodeError, match="silent"):
        reserved(when_spent=Silent)(node(silent))


def test_a_grace_of_nothing_reserves_the_calls_and_no_time() -> None:
    machine: Any = graph(
        edges(prompt, on(Prompt, prompt) | on(Stopped, without_time))
        | edges(without_time, on(Said, END) | on(Silent, END)),
        start=prompt,
    )
    assert isinstance(run(machine, Prompt(), office(agent_limits(model_calls=1))).outcome, Said)
    result = run_script(lambda: Script(machine, Prompt(), slow(FakeClock(), 6.0)))
    assert result.outcome == Silent(Stopped(Prompt(2), Exhausted("seconds", 10, 12.0)), Exhausted("seconds", 10, 12.0))


@reserved(when_spent=Silent, grace=0)
@node
def without_time(stopped: Stopped) -> Asks[CallModel, Said]:
    reply = yield from ask(question("sum up"))
    return Said((reply.content,))


# ---- the proof


def proof(machine: Graph[Any, Any], limits: Limits) -> Certificate:
    certificate = machine.verify(limits).certificate
    assert certificate is not None
    return certificate


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize("iterations", [0, 1, 3, 15])
def test_generating_costs_one_model_call_and_the_bound_is_reached(machine: Graph[Any, Any], iterations: int) -> None:
    limits = Limits(iterations=iterations)
    certificate = proof(machine, limits)
    bounds = certificate.bounds
    assert (bounds.model_calls.form, bounds.model_calls.number) == ("iterations + 1", iterations + 1)
    assert (bounds.model_calls.exact, bounds.transitions.exact) == (True, True)
    found = explore_table(machine, limits, ranks=certificate.ranks)
    assert found.endless is None
    assert (found.longest, found.model_calls) == (bounds.transitions.number, iterations + 1)
    check(certificate, machine)
    assert Certificate.from_json(certificate.to_json()) == certificate


@pytest.mark.parametrize("machine", BOTH)
@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        (agent_limits(iterations=3, model_calls=0), 1),
        (agent_limits(iterations=3, model_calls=2), 3),
        (agent_limits(iterations=None, model_calls=4), 5),
        (agent_limits(iterations=3, model_calls=7), 4),
        (agent_limits(iterations=3, tokens=2), 3),
        (Limits(iterations=2, seconds=4), 3),
        # The call that a crash cut off is asked for, and counted, again.
        (Limits(iterations=2, restarts=1), 4),
        (agent_limits(iterations=2, tool_calls=1, fan_out=1), 3),
    ],
)
def test_several_limits_leave_one_call_for_the_end(machine: Graph[Any, Any], limits: Limits, calls: int) -> None:
    certificate = proof(machine, limits)
    assert certificate.bounds.model_calls.number == calls
    check(certificate, machine)
    found = explore_table(machine, limits, ranks=certificate.ranks)
    assert found.endless is None
    assert found.longest == certificate.bounds.transitions.number
    assert found.model_calls == calls


@given(iterations=st.integers(0, 30), calls=st.none() | st.integers(0, 30))
def test_the_bound_is_the_smaller_limit_and_one(iterations: int, calls: int | None) -> None:
    bound = proof(GENERATING_AGENT_EXECUTOR, agent_limits(iterations=iterations, model_calls=calls)).bounds.model_calls
    assert bound.number == (iterations if calls is None else min(iterations, calls)) + 1


def test_its_time_is_the_limit_the_grace_and_what_a_cancelled_call_may_take() -> None:
    bound = proof(GENERATING_AGENT_EXECUTOR, Limits(seconds=4)).bounds.seconds
    assert (bound.form, bound.number) == ("seconds + 10.05", 14.05)
    machine = graph(
        edges(perhaps, on(Said, END) | on(Stopped, conclude)) | edges(conclude, on(Said, END) | on(Silent, END)),
        start=perhaps,
    )
    assert proof(machine, Limits(seconds=4)).bounds.seconds.number == 6.05


@final
@dataclass(frozen=True)
class Over:
    """A limit stopped even the reserved calls."""

    at: Prompt
    limit: Exhausted


@reserved(when_spent=Over)
@node
def again(given: Prompt) -> Asks[CallModel, Prompt]:
    yield from ask(question("again"))
    return Prompt(given.calls + 1)


def test_reserved_calls_alone_end_no_loop() -> None:
    machine = graph(edges(again, on(Prompt, again) | on(Over, END)), start=again)
    verdict = machine.verify(agent_limits(iterations=3, model_calls=3, tokens=3))
    assert verdict.status == "refuted"
    assert explore_table(machine, agent_limits(model_calls=3)).endless is not None


@charged(when_spent=Stopped, asks=(0, 1))
@node
def perhaps(given: Prompt) -> Asks[CallModel, Said]:
    reply = yield from ask(question("perhaps"))
    return Said((reply.content,))


def test_reserved_calls_use_up_the_limits_of_others() -> None:
    """Found by a random machine: what is stopped by a spent limit goes back to what spent it."""

    @reserved(when_spent=Silent, asks=(0, 1))
    @node
    def first(stopped: Stopped) -> Asks[CallModel, Prompt]:
        yield from ask(question("sum up"))
        return Prompt()

    machine = graph(
        edges(perhaps, on(Said, END) | on(Stopped, first)) | edges(first, on(Prompt, perhaps) | on(Silent, END)),
        start=first,
    )
    limits = agent_limits(tokens=1)
    (finding,) = machine.verify(limits).findings
    assert (finding.code, finding.witness is not None) == ("GX009", True)
    assert finding.witness is not None
    assert execute(machine, finding.witness, 50) == 50


# ---- audits


def generating(steps: int, **limits: Any) -> AgentExecutor:
    """Calls a tool in each of so many steps; asked to conclude, it does."""

    def decide(done: Sequence[object], inputs: dict[str, Any]) -> AgentAction | AgentFinish:
        finished = len(done) >= steps or "conclude" in inputs
        return AgentFinish({"output": "done"}) if finished else AgentAction("nothing", "", "")

    return AgentExecutor(agent=decide, tools=[], early_stopping_method="generate", **limits)


@given(steps=st.integers(0, 4), iterations=st.integers(0, 4), calls=st.none() | st.integers(0, 4))
def test_a_run_whose_last_words_are_generated_conforms_to_its_proof(
    steps: int, iterations: int, calls: int | None
) -> None:
    executor = generating(steps, max_iterations=iterations, max_model_calls=calls)
    trace = trace_of(executor)
    found = audit(trace, proof_of(executor))
    assert found.violations == ()
    spent = min(iterations, steps + 1) if calls is None else min(iterations, steps + 1, calls)
    stopped = spent <= steps
    assert found.status == ("stopped" if stopped else "answered")
    assert trace[-1]["spent"]["model_calls"] == spent + stopped


def test_of_more_calls_than_are_reserved_an_audit_tells() -> None:
    executor = generating(9, max_iterations=3, max_model_calls=2)
    trace = trace_of(executor)
    assert trace[-1]["spent"]["model_calls"] == 3
    for record in trace:
        if "spent" in record and record["spent"]["model_calls"] == 3:
            record["spent"]["model_calls"] = 4
    facts = [violation.fact for violation in audit(trace, proof_of(executor)).violations]
    assert "the model calls of the run are 4, and at most 3 was proved" in facts


# ---- the explorer


def drawn(*nodes: DrawnNode) -> Graph[Any, Any]:
    return DrawnGraph(nodes).graph


def test_a_reply_within_the_grace_leaves_time_to_ask_again() -> None:
    """The explorer answered late at the very end of the grace only, and saw no run that goes on from there."""
    grace: dict[str, Any] = {"asks": "tools", "least": 1, "most": 1, "grace": 10.0}
    # Behind a gate that only time closes, back to what is reserved.
    machine = drawn(
        DrawnNode((DrawnEdge("Red", 1),), **grace),
        DrawnNode((DrawnEdge("Red", None),), meters=("iterations",), spent=0),
    )
    limits = Limits(iterations=None, seconds=5)
    assert explore_table(machine, limits).endless is not None
    assert {finding.code for finding in machine.verify(limits).findings if finding.severity == "error"} == {"GX012"}


def test_a_run_whose_grace_is_over_is_not_like_one_that_has_some_left() -> None:
    grace: dict[str, Any] = {"asks": "tools", "least": 1, "most": 1, "grace": 10.0}
    machine = drawn(
        # Cut, it is at the gate at once, and too late for any more; answered late, by a detour and in time.
        DrawnNode((DrawnEdge("Red", 1),), **grace, spent=2),
        DrawnNode((DrawnEdge("Red", 2),)),
        DrawnNode((DrawnEdge("Red", None),), meters=("iterations",), spent=3),
        DrawnNode((DrawnEdge("Red", 4),), **grace),
        DrawnNode((DrawnEdge("Red", None),)),
    )
    limits = Limits(iterations=None, seconds=5)
    certificate = proof(machine, limits)
    assert explore_table(machine, limits, ranks=certificate.ranks).longest == certificate.bounds.transitions.number == 5


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_a_reserved_call_that_a_crash_cut_off_is_made_again_beyond_its_limit(restarts: int) -> None:
    """Found by a random machine: the bound had one call for the end, however often that is taken up again."""
    machine = drawn(DrawnNode((DrawnEdge("Red", None),), asks="models", least=0, most=1, grace=0.0))
    limits = agent_limits(tokens=0, restarts=restarts)
    certificate = proof(machine, limits)
    check(certificate, machine)
    assert certificate.bounds.model_calls.number == 1 + restarts
    assert explore_table(machine, limits, ranks=certificate.ranks).model_calls == 1 + restarts
    both = proof(GENERATING_AGENT_EXECUTOR, agent_limits(iterations=3, model_calls=0, restarts=restarts))
    reached = explore_table(GENERATING_AGENT_EXECUTOR, agent_limits(iterations=3, model_calls=0, restarts=restarts))
    assert both.bounds.model_calls.number == reached.model_calls == 1 + restarts


def test_what_is_reserved_and_never_asks_is_stopped_by_no_time() -> None:
    machine = drawn(
        DrawnNode((DrawnEdge("Red", None), DrawnEdge("Green", 0)), asks="models", least=0, most=0, grace=1.0),
    )
    (finding,) = [one for one in machine.verify(Limits(seconds=5)).findings if one.code == "GX010"]
    assert finding.witness is not None
    assert execute(machine, finding.witness, 50) == 50


def test_what_is_reserved_is_said_by_number() -> None:
    everything: Any = None
    with pytest.raises(
        NodeError, match=r"is reserved and needs the number of its effects; write asks=1, or \(least, most\)$"
    ):
        reserved(when_spent=Silent, asks=everything)(node(words))
