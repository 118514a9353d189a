"""GX027: guards that some exits bypass."""

from typing import Any

import graphexec as gx
from graphexec import effects, kernel, nodes
from graphexec import executor as table
from graphexec.executor import AGENT_EXECUTOR, Acted, Ready, Stopped, parse
from graphexec.executor.nodes import agent_graph, stop_without_answer
from graphexec.executor.plugging.memory import NotSaved
from graphexec.memory import BufferMemory
from tests.executor.actors import answer, scripted
from tests.kernel.machines import stub
from tests.parameters import cases
from tests.verify.orders import Delivered, Order, Paid, Refused

redact = stub("redact", gx.AgentFinish, gx.AgentFinish)
judge = stub("judge", gx.AgentFinish, gx.AgentFinish | Ready)
proofread = stub("proofread", gx.AgentFinish | gx.StoppedResponse, gx.AgentFinish | gx.StoppedResponse)
approve, forget = stub("approve", Acted, Acted | gx.AgentFinish), stub("forget", Ready, Ready)
explain = stub("explain", Stopped, Stopped | gx.StoppedResponse)
note: Any = kernel.node(when_spent=stop_without_answer, asks=1, grace=10.0)(
    stub("note", Stopped, gx.StoppedResponse, asks=effects.SaveMemory)
)


def executor(**options: Any) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=scripted(answer()), tools=[], **options)


def warnings(machine: gx.Machine[Any, Any]) -> list[str]:
    found = [finding for finding in machine.verify().findings if finding.code == "GX027"]
    assert all(finding.severity == "warning" for finding in found)
    return [str(finding).removeprefix("GX027 at ") for finding in found]


# Any: the tables below splice nodes of every kind.
splice: Any = gx.splice
FINISH: Any = gx.on(gx.AgentFinish, gx.END)
STOP: Any = gx.on(gx.StoppedResponse, gx.END)
REDACTED, PROOFREAD = gx.edges(redact, FINISH), gx.edges(proofread, FINISH | STOP)
JUDGED = gx.edges(judge, FINISH | gx.on(Ready, table.plan))
SECOND = gx.edges(kernel.node(name="second")(judge), FINISH | gx.on(Ready, table.plan))
BOTH: list[Any] = [parse, table.check_return_direct]
FINISHED, ENDED = gx.AgentFinish, [gx.AgentFinish, gx.StoppedResponse]
MEMORY = executor(memory=BufferMemory()).graph


@cases("handling", True, False)
@cases("method", "force", "generate")
@cases("memory", None, BufferMemory())
def test_stock_machines_have_no_guards(method: Any, handling: bool, memory: BufferMemory | None) -> None:
    stock = executor(early_stopping_method=method, handle_parsing_errors=handling, memory=memory)
    assert not warnings(stock.graph)
    assert not warnings(stock.plug(nodes.stop_repeats()).graph)


def redacted(machine: gx.Machine[Any, Any], *after: Any) -> gx.Machine[Any, Any]:
    """Return the machine with a guard of its answers."""
    guarded: gx.Machine[Any, Any] = splice(machine, REDACTED, after=after, on=gx.AgentFinish)
    return guarded


def remembering(*after: Any) -> gx.Machine[Any, Any]:
    return executor(memory=BufferMemory()).splice(REDACTED, after=after, on=gx.AgentFinish).graph


@cases(
    ("machine", "facts"),
    # A guard of the answer misses direct returns,
    (
        executor().splice(REDACTED, after=parse, on=FINISHED).graph,
        "redact: AgentFinish passes through redact to END, but check_return_direct --AgentFinish--> END ~"
        "bypasses it. Splice it once with after=[parse, check_return_direct], on=AgentFinish.",
    ),
    # also where it may go back, or stands in front of the memory.
    (splice(AGENT_EXECUTOR, JUDGED, after=parse, on=FINISHED), "judge: ~check_return_direct --AgentFinish--> END"),
    (remembering(parse), "redact: ~to save_memory, but check_return_direct --AgentFinish--> save_memory bypasses it"),
    # It misses last words,
    (
        redacted(agent_graph(generate=True), *BOTH),
        "redact: ~to END, but stopped_response --StoppedResponse--> END bypasses it. Let it also take ~"
        "StoppedResponse, and splice it once with after=[parse, check_return_direct, stopped_response], ~"
        "on=[AgentFinish, StoppedResponse].",
    ),
    # or several exits.
    (
        redacted(agent_graph(generate=True), parse),
        "redact: ~check_return_direct --AgentFinish--> END, stopped_response --StoppedResponse--> END bypass it. ",
    ),
    # A guard of two outcomes is one finding.
    (
        splice(AGENT_EXECUTOR, PROOFREAD, after=[parse, table.stopped_response], on=ENDED),
        "proofread: AgentFinish | StoppedResponse passes through proofread to END",
    ),
    # A guard after another one,
    (splice(redacted(AGENT_EXECUTOR, parse), SECOND, after=redact, on=FINISHED), "second: "),
    # and one after the memory, which does not see answers that are not saved.
    (redacted(MEMORY, MEMORY["save_memory"]), "redact: ~return_unsaved --AgentFinish--> END bypasses it"),
)
def test_guard_that_some_exit_bypasses_gets_warning(machine: gx.Machine[Any, Any], facts: str) -> None:
    (warning,) = warnings(machine)
    start, *others = facts.split("~")
    assert warning.startswith(start)
    assert all(fact in warning for fact in others)


def test_unsaved_answer_leaves_by_its_own_exit() -> None:
    assert NotSaved in MEMORY["return_unsaved"].takes


APPROVED = gx.edges(approve, gx.on(Acted, table.dispatch_tools) | FINISH)
EXPLAINED = gx.edges(explain, gx.on(Stopped, table.stopped_response) | STOP)
NOTED, COPIED = gx.edges(note, STOP), gx.edges(kernel.node(name="redact_direct")(redact), FINISH)


@cases(
    "machine",
    redacted(AGENT_EXECUTOR, *BOTH),
    splice(AGENT_EXECUTOR, JUDGED, after=BOTH, on=FINISHED),
    remembering(*BOTH),
    splice(agent_graph(generate=True), PROOFREAD, after=[*BOTH, table.stopped_response], on=ENDED),
    # Copies of one guard are one.
    splice(redacted(AGENT_EXECUTOR, parse), COPIED, after=table.check_return_direct, on=FINISHED),
    # Steps before the tools, in the loop and after a limit guard no exit.
    splice(AGENT_EXECUTOR, APPROVED, after=parse, on=Acted),
    splice(AGENT_EXECUTOR, gx.edges(forget, gx.on(Ready, table.plan)), after=table.check_return_direct, on=Ready),
    splice(AGENT_EXECUTOR, EXPLAINED, after=table.plan, on=Stopped),
    # Only a model has last words.
    splice(redacted(AGENT_EXECUTOR, *BOTH), NOTED, after=table.dispatch_tools, on=Stopped),
)
def test_node_that_no_exit_bypasses_gets_no_warning(machine: gx.Machine[Any, Any]) -> None:
    assert not warnings(machine)


# ---- machines without agents


reserve, deliver = stub("reserve", Order, Paid | Refused), stub("deliver", Paid, Delivered | Refused)
release, review = stub("release", Refused, Refused), stub("review", Refused, Refused | Order)
offer, haggle = stub("offer", Order, Refused | Paid), stub("haggle", Order, Order | Paid)
LEAVE: Any = gx.on(Refused, gx.END)


@cases(
    ("rows", "start"),
    # A run that leaves earlier has nothing to release yet.
    (
        gx.edges(reserve, gx.on(Paid, deliver) | LEAVE)
        | gx.edges(deliver, gx.on(Delivered, gx.END) | gx.on(Refused, release))
        | gx.edges(release, LEAVE),
        reserve,
    ),
    # An exit after a guard is not missed.
    (
        gx.edges(reserve, gx.on(Paid, gx.END) | gx.on(Refused, review))
        | gx.edges(review, LEAVE | gx.on(Order, offer))
        | gx.edges(offer, LEAVE | gx.on(Paid, gx.END)),
        reserve,
    ),
    # A node that leads to itself is not a guard.
    (gx.edges(haggle, gx.on(Order, haggle) | gx.on(Paid, gx.END)), haggle),
)
def test_exits_that_need_no_guard_get_no_warning(rows: Any, start: Any) -> None:
    assert not warnings(gx.graph(rows, start=start))
