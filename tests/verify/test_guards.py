"""GX027: guards that some exits bypass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import graphexec as gx
from graphexec.effects import SaveMemory
from graphexec.executor import (
    AGENT_EXECUTOR,
    Acted,
    LimitReached,
    NotSaved,
    Ready,
    check_return_direct,
    dispatch_tools,
    parse,
    plan,
    stopped_response,
)
from graphexec.executor.table import GENERATING_AGENT_EXECUTOR, stop_without_answer
from graphexec.kernel import rename, reserved
from graphexec.memory import BufferMemory
from graphexec.nodes import stop_repeats
from tests.executor.actors import answer, scripted
from tests.parameters import cases


@gx.node
def redact(finish: gx.AgentFinish) -> gx.AgentFinish:
    return finish


@gx.node
def judge(finish: gx.AgentFinish) -> gx.AgentFinish | Ready:
    return finish


@gx.node
def proofread(ending: gx.AgentFinish | gx.StoppedResponse) -> gx.AgentFinish | gx.StoppedResponse:
    return ending


def executor(**options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=scripted(answer()), tools=[], **options)


def warnings(machine: gx.Graph[Any, Any]) -> list[str]:
    found = [finding for finding in machine.verify().findings if finding.code == "GX027"]
    assert all(finding.severity == "warning" for finding in found)
    return [str(finding).removeprefix("GX027 at ") for finding in found]


REDACTED = gx.edges(redact, gx.on(gx.AgentFinish, gx.END))
PROOFREAD = gx.edges(proofread, gx.on(gx.AgentFinish, gx.END) | gx.on(gx.StoppedResponse, gx.END))
BOTH: list[gx.Node[Any, Any]] = [parse, check_return_direct]


@cases("handling", [True, False])
@cases("method", ["force", "generate"])
@cases("memory", [None, BufferMemory()])
def test_stock_machines_have_no_guards(method: Any, handling: bool, memory: BufferMemory | None) -> None:
    stock = executor(early_stopping_method=method, handle_parsing_errors=handling, memory=memory)
    assert not warnings(stock.graph)
    assert not warnings(stock.plug(stop_repeats()).graph)


def test_a_guard_of_the_answer_misses_direct_returns() -> None:
    guarded = executor().splice(REDACTED, after=parse, on=gx.AgentFinish)
    assert guarded.verify().proved
    assert warnings(guarded.graph) == [
        "redact: AgentFinish passes through redact to END, but check_return_direct --AgentFinish--> END bypasses it. "
        "Splice it once with after=[parse, check_return_direct], on=AgentFinish."
    ]
    assert not warnings(executor().splice(REDACTED, after=BOTH, on=gx.AgentFinish).graph)


def test_guard_with_back_edge_gets_warning() -> None:
    rows = gx.edges(judge, gx.on(gx.AgentFinish, gx.END) | gx.on(Ready, plan))
    assert len(warnings(gx.splice(AGENT_EXECUTOR, rows, after=parse, on=gx.AgentFinish))) == 1
    assert not warnings(gx.splice(AGENT_EXECUTOR, rows, after=BOTH, on=gx.AgentFinish))


def test_guard_in_front_of_memory_gets_warning() -> None:
    (warning,) = warnings(executor(memory=BufferMemory()).splice(REDACTED, after=parse, on=gx.AgentFinish).graph)
    assert "to save_memory, but check_return_direct --AgentFinish--> save_memory bypasses it" in warning
    assert not warnings(executor(memory=BufferMemory()).splice(REDACTED, after=BOTH, on=gx.AgentFinish).graph)


def test_a_guard_of_the_answer_misses_last_words() -> None:
    assert warnings(gx.splice(GENERATING_AGENT_EXECUTOR, REDACTED, after=BOTH, on=gx.AgentFinish)) == [
        "redact: AgentFinish passes through redact to END, but stopped_response --StoppedResponse--> END bypasses it. "
        "Let it also take StoppedResponse, and splice it once with after=[parse, check_return_direct, "
        "stopped_response], on=[AgentFinish, StoppedResponse]."
    ]
    every = gx.splice(
        GENERATING_AGENT_EXECUTOR, PROOFREAD, after=[*BOTH, stopped_response], on=[gx.AgentFinish, gx.StoppedResponse]
    )
    assert not warnings(every)


def test_several_exits_are_named_together() -> None:
    (warning,) = warnings(gx.splice(GENERATING_AGENT_EXECUTOR, REDACTED, after=parse, on=gx.AgentFinish))
    assert "check_return_direct --AgentFinish--> END, stopped_response --StoppedResponse--> END bypass it. " in warning


def test_a_guard_of_two_outcomes_is_one_finding() -> None:
    machine = gx.splice(
        AGENT_EXECUTOR, PROOFREAD, after=[parse, stopped_response], on=[gx.AgentFinish, gx.StoppedResponse]
    )
    (warning,) = warnings(machine)
    assert "AgentFinish | StoppedResponse passes through proofread to END" in warning


def test_copies_of_one_guard_are_one() -> None:
    copy = rename(redact, "redact_direct")
    once = gx.splice(AGENT_EXECUTOR, REDACTED, after=parse, on=gx.AgentFinish)
    assert not warnings(
        gx.splice(once, gx.edges(copy, gx.on(gx.AgentFinish, gx.END)), after=check_return_direct, on=gx.AgentFinish)
    )


def test_guard_after_another_guard_is_named() -> None:
    second = rename(judge, "second")
    rows = gx.edges(second, gx.on(gx.AgentFinish, gx.END) | gx.on(Ready, plan))
    (warning,) = warnings(
        gx.splice(
            gx.splice(AGENT_EXECUTOR, REDACTED, after=parse, on=gx.AgentFinish), rows, after=redact, on=gx.AgentFinish
        )
    )
    assert warning.startswith("second: ")


def test_a_step_before_the_tools_guards_no_exit() -> None:
    @gx.node
    def approve(acted: Acted) -> Acted | gx.AgentFinish:
        return acted

    rows = gx.edges(approve, gx.on(Acted, dispatch_tools) | gx.on(gx.AgentFinish, gx.END))
    assert not warnings(gx.splice(AGENT_EXECUTOR, rows, after=parse, on=Acted))


def test_a_step_in_the_loop_guards_no_exit() -> None:
    @gx.node
    def forget(ready: Ready) -> Ready:
        return ready

    assert not warnings(
        gx.splice(AGENT_EXECUTOR, gx.edges(forget, gx.on(Ready, plan)), after=check_return_direct, on=Ready)
    )


def test_node_after_reached_limit_guards_nothing() -> None:
    @gx.node
    def explain(reached: LimitReached) -> LimitReached | gx.StoppedResponse:
        return reached

    rows = gx.edges(explain, gx.on(LimitReached, stopped_response) | gx.on(gx.StoppedResponse, gx.END))
    assert not warnings(gx.splice(AGENT_EXECUTOR, rows, after=plan, on=LimitReached))


def test_only_a_model_has_last_words() -> None:
    @reserved(when_spent=stop_without_answer)
    @gx.node
    def note(reached: LimitReached) -> gx.Asks[SaveMemory, gx.StoppedResponse]:
        yield from gx.ask(SaveMemory({}, {}))
        return gx.StoppedResponse("noted", reached.limit)

    noting = gx.splice(AGENT_EXECUTOR, REDACTED, after=BOTH, on=gx.AgentFinish)
    rows = gx.edges(note, gx.on(gx.StoppedResponse, gx.END))
    assert not warnings(gx.splice(noting, rows, after=dispatch_tools, on=LimitReached))


def test_guard_after_memory_misses_unsaved_answers() -> None:
    remembering = executor(memory=BufferMemory())
    machine = gx.splice(remembering.graph, REDACTED, after=remembering.graph["save_memory"], on=gx.AgentFinish)
    (warning,) = warnings(machine)
    assert "return_unsaved --AgentFinish--> END bypasses it" in warning
    assert NotSaved in machine["return_unsaved"].takes


# ---- machines without agents


@final
@dataclass(frozen=True)
class Order:
    number: int


@final
@dataclass(frozen=True)
class Reserved:
    number: int


@final
@dataclass(frozen=True)
class Cancelled:
    number: int


@final
@dataclass(frozen=True)
class Paid:
    number: int


@gx.node
def reserve(order: Order) -> Reserved | Cancelled:
    return Reserved(order.number)


@gx.node
def pay(held: Reserved) -> Paid | Cancelled:
    return Paid(held.number)


@gx.node
def release(cancelled: Cancelled) -> Cancelled:
    return cancelled


def test_an_earlier_exit_is_not_missed() -> None:
    """A run that leaves there has nothing to release yet."""
    machine = gx.graph(
        gx.edges(reserve, gx.on(Reserved, pay) | gx.on(Cancelled, gx.END))
        | gx.edges(pay, gx.on(Paid, gx.END) | gx.on(Cancelled, release))
        | gx.edges(release, gx.on(Cancelled, gx.END)),
        start=reserve,
    )
    assert not warnings(machine)


def test_exit_after_guard_is_not_missed() -> None:
    @gx.node
    def review(cancelled: Cancelled) -> Cancelled | Order:
        return cancelled

    @gx.node
    def offer(order: Order) -> Cancelled | Paid:
        return Paid(order.number)

    machine = gx.graph(
        gx.edges(reserve, gx.on(Reserved, gx.END) | gx.on(Cancelled, review))
        | gx.edges(review, gx.on(Cancelled, gx.END) | gx.on(Order, offer))
        | gx.edges(offer, gx.on(Cancelled, gx.END) | gx.on(Paid, gx.END)),
        start=reserve,
    )
    assert not warnings(machine)


def test_self_looping_node_is_not_a_guard() -> None:
    @gx.node
    def haggle(order: Order) -> Order | Paid:
        return order

    machine = gx.graph(gx.edges(haggle, gx.on(Order, haggle) | gx.on(Paid, gx.END)), start=haggle)
    assert not warnings(machine)
