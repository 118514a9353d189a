"""The progress of runs: what is counted, how often it is shown, and how it ends."""

from __future__ import annotations

import asyncio
import functools
import gc
import io
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import graphexec as gx
from graphexec import AgentExecutor, AgentFinish, Progress, create_tool_calling_agent, errors, messages, models, runtime
from graphexec.executor import Ready, Status
from graphexec.executor.progress.views import LineView, NotebookView, choose_view, describe_status, progress_html
from tests.executor.actors import Terminal, act, answer, call, echo, fail, run_by
from tests.parameters import cases
from tests.semantics.endings import cancel_run, raising


class Shown:
    """A view that keeps every status."""

    def __init__(self, *, ticks: bool = False) -> None:
        self.statuses: list[Status] = []
        self.ticks = ticks
        self.has_shown: Callable[[Status], object] = lambda status: None

    def show(self, status: Status) -> None:
        self.statuses.append(status)
        self.has_shown(status)

    @property
    def last(self) -> Status:
        return self.statuses[-1]

    @property
    def lines(self) -> list[str]:
        return [" · ".join(describe_status(status)) for status in self.statuses]


class Clock:
    """A clock that moves by `step` seconds at each look."""

    def __init__(self, step: float) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def shout(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
    if str(inputs["input"]).startswith("bad"):
        raise LookupError(inputs["input"])
    return answer(str(inputs["input"]).upper())


def shouting(view: Shown, agent: Any = shout) -> AgentExecutor:
    return AgentExecutor(agent=agent, tools=[], observers=[Progress(view)])


def asking(*replies: Any, progress: Progress, **options: Any) -> AgentExecutor:
    agent = create_tool_calling_agent(models.ScriptedModel(replies), [echo, fail])
    return AgentExecutor(agent=agent, tools=[echo, fail], observers=[progress], **options)


# Two calls.
ECHOING = messages.ModelReply("", (call("echo", text="a"), call("echo", "c2", text="b")))


def assert_no_ticker() -> None:
    assert [thread for thread in threading.enumerate() if thread.name == "graphexec-progress"] == []


def test_run_shows_its_node_and_what_it_spends() -> None:
    view = Shown()
    asking(ECHOING, "done", progress=Progress(view, clock=Clock(1.0)), max_tool_calls=5).run("?")
    amounts = "iterations 1/15 · model calls 1 · tool calls 2/5 · tokens 1"
    assert any(line.startswith(f"dispatch_tools: calls echo and 1 more · {amounts[:-24]}") for line in view.lines)
    assert "plan: asks the model · iterations 0/15 · tool calls 0/5" in view.lines[1]
    assert view.lines[-1].startswith("finished · iterations 2/15 · model calls 2 · tool calls 2/5 · tokens 2 · ")
    assert [status.has_ended for status in view.statuses].count(True) == 1
    assert view.last.has_ended


def test_view_changes_at_most_ten_times_a_second() -> None:
    view, clock = Shown(), Clock(0.01)
    shown_at: list[float] = []
    view.has_shown = lambda status: shown_at.append(clock.now)
    asking(*[ECHOING] * 14, "done", progress=Progress(view, clock=clock)).run("?")
    assert len(shown_at) > 5
    # The last status does not wait.
    assert all(later - earlier > 0.0999 for earlier, later in pairwise(shown_at[:-1]))


def test_end_says_why() -> None:
    view = Shown()
    asking(ECHOING, progress=Progress(view, clock=Clock(0.0)), max_iterations=1, max_execution_time=30).run("?")
    assert view.lines[-1].startswith("stopped: the limit of 1 iteration was reached (1 spent)")
    assert view.lines[-1].endswith(" · 0.0 s of 30.0 s")
    assert view.last.stopped == 1
    with pytest.raises(LookupError):
        shouting(view).run("bad\x1b[31m news")
    assert view.lines[-1].startswith("failed: LookupError: bad")
    assert "\x1b" not in view.lines[-1]
    assert view.last.has_ended


# Or the task is cancelled.
@cases("error", [KeyboardInterrupt(), SystemExit(), asyncio.CancelledError(), None])
def test_interrupt_ends_the_progress(error: BaseException | None) -> None:
    view = Shown(ticks=True)
    if error is None:
        cancel_run(lambda agent: shouting(view, agent))
    else:
        with pytest.raises(type(error)):
            shouting(view, raising(error)).run("?")
    assert view.lines[-1].startswith("interrupted · ")
    assert_no_ticker()


def test_dropped_stream_ends_the_progress() -> None:
    view = Shown()
    events = asking("done", progress=Progress(view)).stream("?")
    next(events)
    events.close()
    assert view.last.interrupted == 1
    assert view.last.has_ended


def test_paused_run_does_not_keep_a_thread() -> None:
    view = Shown(ticks=True)
    closed = threading.Event()
    view.has_shown = lambda status: closed.set() if status.has_ended else None
    steps = iter(asking(ECHOING, "done", progress=Progress(view)).iter("?"))
    next(steps)
    del steps
    gc.collect()
    assert closed.wait(20)
    assert (view.last.running, view.last.ended) in {(0, 0), (0, 1)}


def test_time_passes_while_a_call_takes_long() -> None:
    view = Shown(ticks=True)
    passed = threading.Event()
    view.has_shown = lambda status: passed.set() if len(view.statuses) > 3 else None

    def slow(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        assert passed.wait(20)
        return answer()

    shouting(view, slow).run("?")
    assert view.last.finished == 1
    assert_no_ticker()


def test_failing_view_ends_no_run(caplog: pytest.LogCaptureFixture) -> None:
    view = Shown()
    view.has_shown = raising(OSError("the display is gone"))
    executor = shouting(view)
    assert executor.run("a").output == "A"
    assert [record.message for record in caplog.records] == ["the progress view failed and is not shown"]
    assert len(view.statuses) == 1
    view.has_shown = lambda status: None
    assert executor.run("a").output == "A"
    assert view.last.has_ended


def test_concurrent_runs_are_counted_together() -> None:
    view = Shown()
    together = threading.Barrier(3)

    def waiting(steps: Any, inputs: dict[str, Any]) -> AgentFinish:
        together.wait(20)
        return shout(steps, inputs)

    executor = AgentExecutor(agent=waiting, tools=[], observers=[Progress(view, clock=Clock(1.0))])
    found = executor.batch(["a", "bad", "c"], return_exceptions=True)
    assert len(found) == 3
    assert "0 ended · 3 running" in "\n".join(view.lines)
    assert view.lines[-1].startswith("3 ended · 2 finished · 1 failed")


def test_nested_run_is_part_of_its_run() -> None:
    view = Shown()
    progress = Progress(view)
    inner = AgentExecutor(agent=shout, tools=[], observers=[progress]).as_tool("inner", "Shout.")
    agent = create_tool_calling_agent(models.ScriptedModel([call("inner", input="a"), "done"]), [inner])
    AgentExecutor(agent=agent, tools=[inner], observers=[progress]).run("?")
    assert (view.last.ended, view.last.is_single) == (1, True)


def test_each_run_is_shown_for_itself() -> None:
    """Also that of a machine without an executor."""

    @gx.node
    def finish(ready: Ready) -> AgentFinish:
        return answer()

    view = Shown()
    shouting(view).batch(["a"])
    shouting(view).run("b")
    progress = Progress(view)
    machine = gx.graph(gx.edges(finish, gx.on(AgentFinish, gx.END)), start=finish)
    for _ in range(2):
        for event in runtime.stream(machine, Ready({}), runtime.make_run_context({})):  # type: ignore[arg-type]
            progress(event)
    assert [status.finished for status in view.statuses if status.has_ended] == [1] * 4


@cases("wrong", [print, "view", Progress, 3])
def test_invalid_view_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.InputError, match=r"Progress was given .*; pass an object with a method show\(status\)"):
        Progress(wrong)


@pytest.mark.medium
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_process_shows_nothing() -> None:
    view = Shown()
    executor = shouting(view)
    child = os.fork()
    if not child:
        with suppress(BaseException):
            os._exit(0 if executor.run("a").output == "A" and not view.statuses else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0


both = cases("way", ["batch", "abatch"])


@both
def test_batch_shows_its_counts(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    def acting(steps: Any, inputs: dict[str, Any]) -> Any:
        return act("echo", text="a") if inputs["input"] == "long" else shout(steps, inputs)

    executor = AgentExecutor(agent=acting, tools=[echo], max_iterations=2)
    run_by(way, executor, ["a", "bad", "long", "long"], progress=True, return_exceptions=True)
    line = capsys.readouterr().err
    amounts = "iterations 6 · model calls 6 · tool calls 4 · tokens 6"
    assert line.startswith(f"4/4 runs · 1 finished · 2 stopped · 1 failed · {amounts} · ")
    assert line.count("\n") == 1
    assert_no_ticker()


@both
def test_exception_shows_how_many_runs_are_missing(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError):
        run_by(way, AgentExecutor(agent=shout, tools=[]), ["bad", "b", "c"], progress=True, max_concurrency=1)
    # A task may have begun the second run.
    counts = "1/3 runs · 1 failed · 2 not finished · ", "2/3 runs · 1 failed · 1 interrupted · 1 not finished · "
    assert capsys.readouterr().err.startswith(counts)


@both
def test_run_with_invalid_inputs_is_counted(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    executor = AgentExecutor(agent=create_tool_calling_agent(models.ScriptedModel(["x"]), []), tools=[])
    wrong: Any = [{"question": "?"}, "ok"]
    found = run_by(way, executor, wrong, progress=True, return_exceptions=True)
    assert isinstance(found[0], errors.InputError)
    assert capsys.readouterr().err.startswith("2/2 runs · 1 finished · 1 failed · ")


def test_terminal_without_rich_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    monkeypatch.setitem(sys.modules, "rich", None)
    AgentExecutor(agent=shout, tools=[]).batch(["a", "b"], progress=True)
    first, last = err.getvalue().splitlines()
    assert first == "0/2 runs · 0.0 s"
    assert last.startswith("2/2 runs · ")


def test_terminal_with_rich_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", err := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    AgentExecutor(agent=shout, tools=[]).batch(["a", "b"], progress=True)
    assert "2/2 runs" in err.getvalue()
    assert "━" * 30 in err.getvalue()
    # The cursor is visible again.
    assert err.getvalue().rindex("\x1b[?25h") > err.getvalue().rindex("\x1b[?25l")


def test_lines_suit_the_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    AgentExecutor(agent=shout, tools=[]).batch(["a"], progress=True)
    assert raw.getvalue().startswith(b"1/1 runs ? ")


def test_elsewhere_the_end_is_logged(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.INFO, "graphexec")
    AgentExecutor(agent=shout, tools=[], observers=[Progress()]).run("a")
    (record,) = caplog.records
    assert record.message.startswith("finished · iterations 1/15 · ")
    assert capsys.readouterr() == ("", "")


class Handle:
    """A display of a notebook, which keeps what it shows."""

    shown: list[tuple[str, dict[str, str]]]

    def display(self, bundle: dict[str, str], *, raw: bool, kind: str = "display") -> None:
        assert raw
        self.shown.append((kind, bundle))

    update = functools.partialmethod(display, kind="update")


Shows = list[tuple[str, dict[str, str]]]


def ipython(monkeypatch: pytest.MonkeyPatch, **attributes: Any) -> None:
    module = ModuleType("IPython")
    vars(module).update(attributes)
    monkeypatch.setitem(sys.modules, "IPython", module)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shows]:
    Handle.shown = []
    display = SimpleNamespace(DisplayHandle=Handle)
    ipython(monkeypatch, get_ipython=lambda: SimpleNamespace(kernel=object()), display=display)
    yield Handle.shown
    assert_no_ticker()


def test_notebook_has_one_display_that_changes(notebook: Shows) -> None:
    assert isinstance(choose_view(is_batch=False), NotebookView)
    AgentExecutor(agent=shout, tools=[]).batch(["a", "b"], progress=True)
    assert [kind for kind, _ in notebook] == ["display", *["update"] * (len(notebook) - 1)]
    last = notebook[-1][1]
    assert set(last) == {"text/html", "text/plain"}
    assert last["text/plain"].startswith("2/2 runs · ")
    assert "2/2 runs · " in last["text/html"]


def test_terminal_ipython_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython(monkeypatch, get_ipython=SimpleNamespace)
    assert isinstance(choose_view(is_batch=True), LineView)


def test_html_is_escaped() -> None:
    view = Shown()

    @gx.tool
    def shout_news(text: str) -> str:
        """Fail."""
        raise KeyError("</div><script>alert(1)</script>")

    agent = create_tool_calling_agent(models.ScriptedModel([call("shout_news", text="a")]), [shout_news])
    executor = AgentExecutor(agent=agent, tools=[shout_news], observers=[Progress(view)], handle_tool_errors="raise")
    with pytest.raises(KeyError):
        executor.run("?")
    html = progress_html(view.last)
    assert "&lt;script&gt;" in html
    assert "<script" not in html
