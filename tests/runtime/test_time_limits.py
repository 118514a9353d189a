"""A run with a deadline: control returns at the deadline, nothing is lost, and late code stops."""

import ast
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import graphexec as gx
from graphexec.effects import TOOL_CALLS
from graphexec.runtime import run
from graphexec.runtime.handlers import RunContext, handlers_for
from tests.drivers import options_of
from tests.executor.actors import act, make_executor, snapshot_after
from tests.kernel.machines import Interview, Question, Stopped, Topic, machine_of
from tests.runtime.actors import LONG, count_abandoned, tool_named
from tests.stopwatch import eventually

# ---- exceptions and interrupts


def interrupt_caller() -> None:
    """Interrupt the main thread, which waits for the run."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_stops_at_the_next_call(released: threading.Event) -> None:
    calls: list[int] = []
    ended = threading.Event()

    def work() -> None:
        calls.append(1)
        interrupt_caller()
        released.wait(LONG)
        ended.set()

    before = count_abandoned()
    executor = make_executor(*[act("work")] * 3, tools=[tool_named("work", work)], max_execution_time=LONG)
    snapshot = snapshot_after(KeyboardInterrupt, lambda: executor.run("q"))
    assert count_abandoned() == before + 1
    released.set()
    assert ended.wait(LONG)
    eventually(lambda: count_abandoned() <= before)
    assert (calls, snapshot.spent[TOOL_CALLS]) == ([1], 1)


def test_an_interrupt_in_a_node_begins_no_call(released: threading.Event) -> None:
    """The loop is in the engine when the caller is cancelled; its next call does not begin."""
    begun: list[str] = []

    @gx.node(when_spent=Stopped)
    def think(topic: Topic) -> gx.Asks[Question, Interview]:
        yield from gx.ask(Question("first"))
        interrupt_caller()
        released.wait(LONG)
        yield from gx.ask(Question("second"))
        return Interview(())

    machine = machine_of(think)

    def answer(question: Question) -> str:
        begun.append(question.text)
        return "fine"

    before = count_abandoned()
    context = RunContext(handlers_for({Question: answer}), gx.Limits(seconds=LONG))
    snapshot = snapshot_after(KeyboardInterrupt, lambda: run(machine, Topic("tea"), **options_of(context)))
    released.set()
    eventually(lambda: count_abandoned() <= before)
    assert begun == ["first"]
    assert snapshot.replies == ("fine",)


LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp)


def misses_interrupts(one: ast.AST) -> bool:
    """Return whether Python misses a handler at some interrupts.

    Where a `try` begins with a loop, Python up to 3.12 looks for it before the `try` at a `continue`; and since 3.12
    the end of some loops is in no block.
    """
    if isinstance(one, ast.Try):
        loop = one.body[0]
        return isinstance(loop, ast.While) and any(isinstance(inner, ast.Continue) for inner in ast.walk(loop))
    holds = isinstance(one, ast.With) and any(
        ast.unparse(item.context_expr).endswith(("lock", "sharing", "extending", "adding")) for item in one.items
    )
    return holds and any(isinstance(inner, LOOPS) for inner in ast.walk(one))


def test_no_interrupt_misses_a_block() -> None:
    files = Path(gx.__file__).parent.rglob("*.py")
    parsed = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    assert [path for path, module in parsed.items() if any(map(misses_interrupts, ast.walk(module)))] == []


@pytest.mark.medium
def test_interrupted_runs_resume() -> None:
    """At places that are always the same: none hangs, none loses its snapshot."""
    count = 600
    command = [sys.executable, "-m", "tests.runtime.interrupting", "7", str(count)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    came = ast.literal_eval(ended.stdout or "{}")
    assert came.keys() <= {"ended", "not begun", "resumed"}, ended.stderr
    assert came.get("resumed", 0) > count / 2, (came, ended.stderr)
