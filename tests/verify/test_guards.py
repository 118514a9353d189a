"""GX027: guards that some exits bypass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from graphexec import (
    END,
    AgentExecutor,
    AgentFinish,
    Asks,
    Graph,
    Node,
    StoppedResponse,
    ask,
    edges,
    graph,
    node,
    on,
    splice,
)
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


@node
def redact(finish: AgentFinish) -> AgentFinish:
    return finish


@node
def judge(finish: AgentFinish) -> AgentFinish | Ready:
    return finish


@node
def proofread(ending: AgentFinish | StoppedResponse) -> AgentFinish | StoppedResponse:
    return ending


def executor(**options: Any) -> AgentExecutor:
    return AgentExecutor(agent=scripted(answer()), tools=[], **options)


def warnings(machine: Graph[Any, Any]) -> list[str]:
    found = [finding for finding in machine.verify().findings if finding.code == "GX027"]
    assert all(finding.severity == "warning" for finding in found)
    return [str(finding).removeprefix("GX027 at ") for finding in found]


REDACTED = edges(redact, on(AgentFinish, END))
PROOFREAD = edges(proofread, on(AgentFinish, END) | on(StoppedResponse, END))
BOTH: list[Node[Any, Any]] = [parse, check_return_direct]


@cases("handling", [True, False])
@cases("method", ["force", "generate"])
@cases("memory", [None, BufferMemory()])
def test_stock_machines_have_no_guards(method: Any, handling: bool, memory: BufferMemory | None) -> None:
    stock = executor(early_stopping_method=method, handle_parsing_errors=handling, memory=memory)
    assert not warnings(stock.graph)
    assert not warnings(stock.plug(stop_repeats()).graph)


def test_a_guard_of_the_answer_misses_direct_returns() -> None:
    guarded = executor().splice(REDACTED, after=parse, on=AgentFinish)
    assert guarded.verify().proved
    assert warnings(guarded.graph) == [
        "redact: AgentFinish passes through redact to END, but check_return_direct --AgentFinish--> END bypasses it. "
        "Splice it once with after=[parse, check_return_direct], on=AgentFinish."
    ]
    assert not warnings(executor().splice(REDACTED, after=BOTH, on=AgentFinish).graph)


def test_guard_with_back_edge_gets_warning() -> None:
    rows = edges(judge, on(AgentFinish, END) | on(Ready, plan))
    assert len(warnings(splice(AGENT_EXECUTOR, rows, after=parse, on=AgentFinish))) == 1
    assert not warnings(splice(AGENT_EXECUTOR, rows, after=BOTH, on=AgentFinish))


def test_guard_in_front_of_memory_gets_warning() -> None:
    (warning,) = warnings(executor(memory=BufferMemory()).splice(REDACTED, after=parse, on=AgentFinish).graph)
    assert "to save_memory, but check_return_direct --AgentFinish--> save_memory bypasses it" in warning
    assert not warnings(executor(memory=BufferMemory()).splice(REDACTED, after=BOTH, on=AgentFinish).graph)


def test_a_guard_of_the_answer_misses_last_words() -> None:
    assert warnings(splice(GENERATING_AGENT_EXECUTOR, REDACTED, after=BOTH, on=AgentFinish)) == [
        "redact: AgentFinish passes through redact to END, but stopped_response --StoppedResponse--> END bypasses it. "
        "Let it also take StoppedResponse, and splice it once with after=[parse, check_return_direct, "
        "stopped_response], on=[AgentFinish, StoppedResponse]."
    ]
    every = splice(
        GENERATING_AGENT_EXECUTOR, PROOFREAD, after=[*BOTH, stopped_response], on=[AgentFinish, StoppedResponse]
    )
    assert not warnings(every)


def test_several_exits_are_named_together() -> None:
    (warning,) = warnings(splice(GENERATING_AGENT_EXECUTOR, REDACTED, after=parse, on=AgentFinish))
    assert "check_return_direct --AgentFinish--> END, stopped_response --StoppedResponse--> END bypass it. " in warning


def test_a_guard_of_two_outcomes_is_one_finding() -> None:
    machine = splice(AGENT_EXECUTOR, PROOFREAD, after=[parse, stopped_response], on=[AgentFinish, StoppedResponse])
    (warning,) = warnings(machine)
    assert "AgentFinish | StoppedResponse passes through proofread to END" in warning


def test_copies_of_one_guard_are_one() -> None:
    copy = rename(redact, "redact_direct")
    once = splice(AGENT_EXECUTOR, REDACTED, after=parse, on=AgentFinish)
    assert not warnings(splice(once, edges(copy, on(AgentFinish, END)), after=check_return_direct, on=AgentFinish))


def test_guard_after_another_guard_is_named() -> None:
    second = rename(judge, "second")
    rows = edges(second, on(AgentFinish, END) | on(Ready, plan))
    (warning,) = warnings(
        splice(splice(AGENT_EXECUTOR, REDACTED, after=parse, on=AgentFinish), rows, after=redact, on=AgentFinish)
    )
    assert warning.startswith("second: ")


def test_a_step_before_the_tools_guards_no_exit() -> None:
    @node
    def approve(acted: Acted) -> Acted | AgentFinish:
        return acted

    rows = edges(approve, on(Acted, dispatch_tools) | on(AgentFinish, END))
    assert not warnings(splice(AGENT_EXECUTOR, rows, after=parse, on=Acted))


def test_a_step_in_the_loop_guards_no_exit() -> None:
    @node
    def forget(ready: Ready) -> Ready:
        return ready

    assert not warnings(splice(AGENT_EXECUTOR, edges(forget, on(Ready, plan)), after=check_return_direct, on=Ready))


def test_node_after_reached_limit_guards_nothing() -> None:
    @node
    def explain(reached: LimitReached) -> LimitReached | StoppedResponse:
        return reached

    rows = edges(explain, on(LimitReached, stopped_response) | on(StoppedResponse, END))
    assert not warnings(splice(AGENT_EXECUTOR, rows, after=plan, on=LimitReached))


def test_only_a_model_has_last_words() -> None:
    @reserved(when_spent=stop_without_answer)
    @node
    def note(reached: LimitReached) -> Asks[SaveMemory, StoppedResponse]:
        yield from ask(SaveMemory({}, {}))
        return StoppedResponse("noted", reached.limit)

    noting = splice(AGENT_EXECUTOR, REDACTED, after=BOTH, on=AgentFinish)
    rows = edges(note, on(StoppedResponse, END))
    assert not warnings(splice(noting, rows, after=dispatch_tools, on=LimitReached))


def test_guard_after_memory_misses_unsaved_answers() -> None:
    remembering = executor(memory=BufferMemory())
    machine = splice(remembering.graph, REDACTED, after=remembering.graph["save_memory"], on=AgentFinish)
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


@node
def reserve(order: Order) -> Reserved | Cancelled:
    return Reserved(order.number)


@node
def pay(held: Reserved) -> Paid | Cancelled:
    return Paid(held.number)


@node
def release(cancelled: Cancelled) -> Cancelled:
    return cancelled


def test_an_earlier_exit_is_not_missed() -> None:
    """A run that leaves there has nothing to release yet."""
    machine = graph(
        edges(reserve, on(Reserved, pay) | on(Cancelled, END))
        | edges(pay, on(Paid, END) | on(Cancelled, release))
        | edges(release, on(Cancelled, END)),
        start=reserve,
    )
    assert not warnings(machine)


def test_exit_after_guard_is_not_missed() -> None:
    @node
    def review(cancelled: Cancelled) -> Cancelled | Order:
        return cancelled

    @node
    def offer(order: Order) -> Cancelled | Paid:
        return Paid(order.number)

    machine = graph(
        edges(reserve, on(Reserved, END) | on(Cancelled, review))
        | edges(review, on(Cancelled, END) | on(Order, offer))
        | edges(offer, on(Cancelled, END) | on(Paid, END)),
        start=reserve,
    )
    assert not warnings(machine)


def test_self_looping_node_is_not_a_guard() -> None:
    @node
    def haggle(order: Order) -> Order | Paid:
        return order

    machine = graph(edges(haggle, on(Order, haggle) | on(Paid, END)), start=haggle)
    assert not warnings(machine)
