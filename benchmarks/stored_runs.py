"""What a store costs: processor time and bytes of a step beside LangGraph's `SqliteSaver`, and the time of a resume.

    pip install langgraph==1.2.24 langgraph-checkpoint-sqlite
    python benchmarks/stored_runs.py /dev/shm

A step is a decision and a call whose result is a text of 2 kB. The folder decides what the disk adds; the
processor time is nearly the same. Without LangGraph the ratios are left out.
"""

# LangGraph is not a dependency of this project.
# pyright: basic, reportMissingImports=false
# mypy: ignore-errors

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, TypedDict, final

from graphexec import (
    END,
    AgentAction,
    AgentExecutor,
    AgentFinish,
    AskHuman,
    Asks,
    Exhausted,
    ask,
    edges,
    graph,
    node,
    on,
    tool,
)
from graphexec.runs import SQLiteRuns, Waiting

RESULT = "x" * 2_000


def processor_time(call: Callable[[], object]) -> float:
    """Return the seconds of the processor that a call takes."""
    began = time.process_time()
    call()
    return time.process_time() - began


def elapsed(call: Callable[[], object]) -> float:
    """Return the milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return 1_000 * (time.perf_counter() - began)


@tool
def fetch(number: int) -> str:
    """Fetch a text."""
    return f"{number:06}{RESULT}"


def make_executor(steps: int) -> AgentExecutor[Any]:
    """Return an executor whose runs take so many steps."""

    def decide(done: Any, _: dict[str, Any]) -> AgentAction | AgentFinish:
        return AgentAction("fetch", {"number": len(done)}) if len(done) < steps else AgentFinish({"output": "done"})

    return AgentExecutor(agent=decide, tools=[fetch], max_iterations=steps + 1)


def ours(steps: int, file: Path) -> float:
    """Return the seconds of the processor that the store adds to a run of so many steps."""
    executor = make_executor(steps)
    bare = min(processor_time(lambda: executor.run("go")) for _ in range(2))
    with SQLiteRuns(file) as store:
        return processor_time(lambda: executor.run("go", runs=store, run_id="trip")) - bare


def langgraph(steps: int, file: Path, *, messages: bool) -> float:
    """Return the seconds of the processor that LangGraph's saver adds to a list of texts, or of an agent's messages."""
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import END as STOP
    from langgraph.graph import START, StateGraph, add_messages

    reducer = add_messages if messages else operator.add
    # LangGraph reads the annotations, in which it does not see a name of this function.
    State = TypedDict("State", {"results": Annotated[list, reducer]})  # noqa: UP013

    def count(state: Any) -> int:
        return len(state["results"]) // (1 + messages)

    def plan(state: Any) -> dict[str, Any]:
        call = {"name": "fetch", "args": {"number": count(state)}, "id": f"c{count(state)}"}
        return {"results": [AIMessage("", tool_calls=[call])]} if messages else {}

    def act(state: Any) -> dict[str, Any]:
        text = f"{count(state):06}{RESULT}"
        return {"results": [ToolMessage(text, tool_call_id=f"c{count(state)}") if messages else text]}

    table: Any = StateGraph(State)
    table.add_node("plan", plan)
    table.add_node("act", act)
    table.add_edge(START, "plan")
    table.add_conditional_edges("plan", lambda state: "act" if count(state) < steps else STOP)
    table.add_edge("act", "plan")
    settings = {"configurable": {"thread_id": "trip"}, "recursion_limit": 2 * steps + 5}
    bare_graph = table.compile()
    bare = processor_time(lambda: bare_graph.invoke({"results": []}, settings))
    with SqliteSaver.from_conn_string(str(file)) as saver:
        kept = table.compile(checkpointer=saver)
        return processor_time(lambda: kept.invoke({"results": []}, settings)) - bare


def bytes_of(file: Path) -> int:
    """Return the size of a database with its journal."""
    return sum(one.stat().st_size for one in file.parent.glob(f"{file.name}*"))


def compare(folder: Path) -> None:
    """Print the figures of 400 steps, and of 10,000 beside 100."""
    own = min((ours(400, folder / f"ours{turn}.db"), turn) for turn in range(3))[0]
    size = (folder / "ours0.db").stat().st_size
    print(f"400 steps: the store adds {own / 400 * 1e6:.0f} us of processor to a step, {size:,} bytes")
    try:
        for messages in (False, True):
            file = folder / f"langgraph{messages}.db"
            theirs, large = langgraph(400, file, messages=messages), bytes_of(file)
            what = "an agent's messages" if messages else "a list of texts"
            print(f"... LangGraph's saver of {what} adds {theirs / 400 * 1e6:.0f} us, {large:,} bytes")
            print(f"... processor 1 : {theirs / own:.1f}, bytes 1 : {large / size:.0f}")
    except ImportError:
        print("LangGraph is not installed, so there is nothing to compare with")
    few = min(ours(100, folder / f"few{turn}.db") for turn in range(5)) / 100
    many = ours(10_000, folder / "many.db") / 10_000
    linear = (folder / "many.db").stat().st_size / 10_000 / (size / 400)
    print(
        f"10,000 steps : 100 steps, processor of a step {many / few:.2f}; bytes of a step, beside 400 steps, "
        f"{linear:.2f}"
    )


@final
@dataclass(frozen=True)
class Order:
    """What a person approves."""

    number: int


@final
@dataclass(frozen=True)
class Left:
    """A limit was reached."""

    order: Order
    limit: Exhausted


@node(when_spent=Left)
def approve(order: Order) -> Asks[AskHuman, Order | Left]:
    """Ask a person."""
    yield from ask(AskHuman("Go on?", choices=("yes", "no")))
    return order


WAITS = graph(edges(approve, on(Order, END) | on(Left, END)), start=approve)


def resume(folder: Path) -> None:
    """Print the times of a resume, and of one run among 10,000 that wait."""
    executor = make_executor(1_000)
    with SQLiteRuns(folder / "long.db") as store:
        executor.run("go", runs=store, run_id="trip")
        store.fork("trip", at=1_999, new_id="copy")
        print(f"resume of 1,000 steps: {elapsed(lambda: executor.run('go', runs=store, run_id='copy')):.0f} ms")
    with SQLiteRuns(folder / "waiting.db") as store:
        for number in range(10_000):
            waiting = WAITS.run(Order(number), runs=store, run_id=f"r{number}")
            assert isinstance(waiting, Waiting)
        times = {
            "list": elapsed(lambda: store.list("waiting")),
            "reply": elapsed(lambda: store.reply("r5000", "r5000/1.0", "yes")),
            "resume": elapsed(lambda: WAITS.run(None, runs=store, run_id="r5000")),
        }
        print("one among 10,000 waiting runs:", ", ".join(f"{name} {ms:.1f} ms" for name, ms in times.items()))


if __name__ == "__main__":
    with TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as name:
        compare(Path(name))
        resume(Path(name))
