"""What a run shows: its progress, counted and rarely, and with `verbose=True` its whole output on stderr."""

import asyncio
import functools
import gc
import io
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, effects, errors, messages, models, nodes, runtime
from graphexec.executor import Acted, Ready, Status, parse
from graphexec.executor.console import ConsolePrinter
from graphexec.executor.progress.views import LineView, NotebookView, choose_view, describe_status, progress_html
from graphexec.nodes.tool_calls import WARNING
from tests.executor import actors
from tests.executor.actors import act, answer, call, echo, make_executor, make_react, run_by
from tests.executor.test_surgery import APPROVED
from tests.parameters import cases, examples
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


def shout(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
    if str(inputs["input"]).startswith("bad"):
        raise LookupError(inputs["input"])
    return answer(str(inputs["input"]).upper())


def shouting(view: Shown, agent: Any = shout) -> gx.AgentExecutor:
    return gx.AgentExecutor(agent=agent, tools=[], observers=[gx.Progress(view)])


def asking(*replies: Any, progress: gx.Progress, **options: Any) -> gx.AgentExecutor:
    agent = gx.create_tool_calling_agent(models.ScriptedModel(replies), [echo, actors.fail])
    return gx.AgentExecutor(agent=agent, tools=[echo, actors.fail], observers=[progress], **options)


# Two calls.
ECHOING = messages.ModelReply("", (call("echo", text="a"), call("echo", "c2", text="b")))


def assert_no_ticker() -> None:
    assert [thread for thread in threading.enumerate() if thread.name == "graphexec-progress"] == []


def test_run_shows_its_node_and_what_it_spends() -> None:
    view = Shown()
    asking(ECHOING, "done", progress=gx.Progress(view, clock=Clock(1.0)), max_tool_calls=5).run("?")
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
    asking(*[ECHOING] * 14, "done", progress=gx.Progress(view, clock=clock)).run("?")
    assert len(shown_at) > 5
    # The last status does not wait.
    assert all(later - earlier > 0.0999 for earlier, later in pairwise(shown_at[:-1]))


def test_end_says_why() -> None:
    view = Shown()
    asking(ECHOING, progress=gx.Progress(view, clock=Clock(0.0)), max_iterations=1, max_execution_time=30).run("?")
    assert view.lines[-1].startswith("stopped: the limit of 1 iteration was reached (1 spent)")
    assert view.lines[-1].endswith(" · 0.0 s of 30.0 s")
    assert view.last.stopped == 1
    with pytest.raises(LookupError):
        shouting(view).run("bad\x1b[31m news")
    assert view.lines[-1].startswith("failed: LookupError: bad")
    assert "\x1b" not in view.lines[-1]
    assert view.last.has_ended


# Or the task is cancelled.
@cases("error", KeyboardInterrupt(), SystemExit(), asyncio.CancelledError(), None)
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
    events = asking("done", progress=gx.Progress(view)).stream("?")
    next(events)
    events.close()
    assert view.last.interrupted == 1
    assert view.last.has_ended


def test_paused_run_does_not_keep_a_thread() -> None:
    view = Shown(ticks=True)
    closed = threading.Event()
    view.has_shown = lambda status: closed.set() if status.has_ended else None
    steps = iter(asking(ECHOING, "done", progress=gx.Progress(view)).iter("?"))
    next(steps)
    del steps
    gc.collect()
    assert closed.wait(20)
    assert (view.last.running, view.last.ended) in {(0, 0), (0, 1)}


@pytest.mark.medium
def test_time_passes_while_a_call_takes_long() -> None:
    view = Shown(ticks=True)
    passed = threading.Event()
    view.has_shown = lambda status: passed.set() if len(view.statuses) > 3 else None

    def slow(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
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

    def waiting(steps: Any, inputs: dict[str, Any]) -> gx.AgentFinish:
        together.wait(20)
        return shout(steps, inputs)

    executor = gx.AgentExecutor(agent=waiting, tools=[], observers=[gx.Progress(view, clock=Clock(1.0))])
    found = executor.batch(["a", "bad", "c"], return_exceptions=True)
    assert len(found) == 3
    assert "0 ended · 3 running" in "\n".join(view.lines)
    assert view.lines[-1].startswith("3 ended · 2 finished · 1 failed")


def test_nested_run_is_part_of_its_run() -> None:
    view = Shown()
    progress = gx.Progress(view)
    inner = gx.AgentExecutor(agent=shout, tools=[], observers=[progress]).as_tool("inner", "Shout.")
    agent = gx.create_tool_calling_agent(models.ScriptedModel([call("inner", input="a"), "done"]), [inner])
    gx.AgentExecutor(agent=agent, tools=[inner], observers=[progress]).run("?")
    assert (view.last.ended, view.last.is_single) == (1, True)


def test_each_run_is_shown_for_itself() -> None:
    """Also that of a machine without an executor."""

    @gx.node
    def finish(ready: Ready) -> gx.AgentFinish:
        return answer()

    view = Shown()
    shouting(view).batch(["a"])
    shouting(view).run("b")
    progress = gx.Progress(view)
    machine = gx.graph(gx.edges(finish, gx.on(gx.AgentFinish, gx.END)), start=finish)
    for _ in range(2):
        for event in runtime.stream(machine, Ready({}), runtime.make_run_context({})):  # type: ignore[arg-type]
            progress(event)
    assert [status.finished for status in view.statuses if status.has_ended] == [1] * 4


@cases("wrong", print, "view", gx.Progress, 3)
def test_invalid_view_is_refused(wrong: Any) -> None:
    with pytest.raises(errors.InputError, match=r"Progress was given .*; pass an object with a method show\(status\)"):
        gx.Progress(wrong)


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


both = cases("way", "batch", "abatch")


def act_or_shout(steps: Any, inputs: dict[str, Any]) -> Any:
    return act("echo", text="a") if inputs["input"] == "long" else shout(steps, inputs)


ENDED = "4/4 runs · 1 finished · 2 stopped · 1 failed · iterations 6 · model calls 6 · tool calls 4 · tokens 6 · "


# A run with invalid inputs is counted, too.
@both
@cases(
    ("make", "inputs", "error", "counts"),
    (lambda: act_or_shout, ["long", "bad", "long", "a"], LookupError, ENDED),
    (
        lambda: gx.create_tool_calling_agent(models.ScriptedModel(["x"]), [echo]),
        ["ok", {"question": "?"}],
        errors.InputError,
        "2/2 runs · 1 finished · 1 failed · ",
    ),
)
def test_batch_shows_its_counts(
    way: str, make: Any, inputs: Any, error: type, counts: str, capsys: pytest.CaptureFixture[str]
) -> None:
    executor = gx.AgentExecutor(agent=make(), tools=[echo], max_iterations=2)
    found = run_by(way, executor, inputs, progress=True, return_exceptions=True)
    assert isinstance(found[1], error)
    out, line = capsys.readouterr()
    assert (out, line.startswith(counts), line.count("\n")) == ("", True, 1)
    assert_no_ticker()


@both
def test_exception_shows_how_many_runs_are_missing(way: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(LookupError):
        run_by(way, gx.AgentExecutor(agent=shout, tools=[]), ["bad", "b", "c"], progress=True, max_concurrency=1)
    # A task may have begun the second run.
    counts = "1/3 runs · 1 failed · 2 not finished · ", "2/3 runs · 1 failed · 1 interrupted · 1 not finished · "
    assert capsys.readouterr().err.startswith(counts)


def test_terminal_without_rich_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", err := actors.Terminal())
    monkeypatch.setitem(sys.modules, "rich", None)
    gx.AgentExecutor(agent=shout, tools=[]).batch(["a", "b"], progress=True)
    first, last = err.getvalue().splitlines()
    assert first == "0/2 runs · 0.0 s"
    assert last.startswith("2/2 runs · ")


def test_terminal_with_rich_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", err := actors.Terminal())
    monkeypatch.setenv("TERM", "xterm")
    gx.AgentExecutor(agent=shout, tools=[]).batch(["a", "b"], progress=True)
    assert "2/2 runs" in err.getvalue()
    assert "━" * 30 in err.getvalue()
    # The cursor is visible again.
    assert err.getvalue().rindex("\x1b[?25h") > err.getvalue().rindex("\x1b[?25l")


def test_lines_suit_the_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(raw, encoding="ascii"))
    gx.AgentExecutor(agent=shout, tools=[]).batch(["a"], progress=True)
    assert raw.getvalue().startswith(b"1/1 runs ? ")


def test_elsewhere_the_end_is_logged(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> None:
    caplog.set_level(logging.INFO, "graphexec")
    gx.AgentExecutor(agent=shout, tools=[], observers=[gx.Progress()]).run("a")
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
    gx.AgentExecutor(agent=shout, tools=[]).batch(["a", "b"], progress=True)
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

    agent = gx.create_tool_calling_agent(models.ScriptedModel([call("shout_news", text="a")]), [shout_news])
    executor = gx.AgentExecutor(
        agent=agent, tools=[shout_news], observers=[gx.Progress(view)], handle_tool_errors="raise"
    )
    with pytest.raises(KeyError):
        executor.run("?")
    html = progress_html(view.last)
    assert "&lt;script&gt;" in html
    assert "<script" not in html


# ---- `verbose=True`: the exact output of a run on stderr

ACT = "I should greet.\nAction: echo\nAction Input: hi"
DONE = "I know.\nFinal Answer: hi it is"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


def print_events(events: Iterable[Any], out: io.StringIO | None = None) -> str:
    """Return the output of a printer that observes these events."""
    out = io.StringIO() if out is None else out
    watcher = ConsolePrinter(out)
    for event in events:
        watcher(event)
    return out.getvalue()


def print_run(executor: gx.AgentExecutor, out: io.StringIO | None = None) -> str:
    return print_events(executor.stream("q"), out)


def printed(*lines: str) -> str:
    """Return the output of a run that prints these lines."""
    return "".join(f"{line}\n" for line in ("> the run begins", *lines, "> the run ends"))


@gx.tool
def careful() -> str:
    """Report the work."""
    runtime.report("looking it up")
    runtime.report(messages.ReplyDelta("a piece"))
    return "ok"


CAREFUL = ["-> careful({})", "   looking it up", "<- ok", "done"]
UNREAD = "   not read, since the model invented it: Observation: "
STOPPED = "Agent stopped due to iteration limit or time limit."
HOSTILE = "\x1b[2J\x07gone\rback\tand\non"
STOP = "Stopped after 1 step: the limit of 1 iteration was reached (1 spent)."
SAID = [ACT, "-> echo(hi)", "<- hi"]
YES: dict[Any, Callable[[object], str]] = {gx.AskHuman: lambda _: "yes"}
WHOLE = printed(*SAID, "hi it is")
NOT_READ = printed(ACT, "-> echo(hi)", f"{UNREAD}ho", "<- hi", f"{UNREAD}he", "hi it is")
A, B = act("echo", text="a"), act("fail", text="b")
SHOWN_A, SHOWN_B, FAILED = '-> echo({"text":"a"})', '-> fail({"text":"b"})', "<- fail failed: ValueError: no b"


@cases(
    ("make", "output"),
    (lambda: make_react(ACT, DONE), WHOLE),
    (lambda: make_react(f"{ACT}\nObservation: ho", f"{DONE}\nObservation: he"), NOT_READ),
    (lambda: make_executor([A, B], answer("so")), printed(SHOWN_A, SHOWN_B, "<- a", FAILED, "so")),
    (
        lambda: make_react("garbage\n", DONE, handle_parsing_errors="Say it again."),
        printed("garbage", "<- could not be read: Say it again.", "hi it is"),
    ),
    (lambda: make_executor(A, max_iterations=1), printed(SHOWN_A, "<- a", STOPPED, STOP)),
    # An answer of several values is printed whole.
    (lambda: make_executor(gx.AgentFinish({"answer": 42, "sure": True})), printed('{"answer":42,"sure":true}')),
    # Long text is cut.
    (lambda: make_executor(answer("x" * 3_500)), printed(f"{'x' * 2_000} [... 1,500 more characters]")),
    (lambda: make_executor(answer("y" * 2_000)), printed("y" * 2_000)),
    (
        lambda: make_react("x" * 2_500 + f"\n{ACT}", DONE),
        printed(f"{'x' * 2_000} [... 546 more characters]", "-> echo(hi)", "<- hi", "hi it is"),
    ),
    # Reports are printed, except for pieces of a reply.
    (lambda: make_executor(act("careful"), answer(), tools=[careful]), printed(*CAREFUL)),
    # Actions that a node asks about are printed once, and the text that a node adds is a note.
    (lambda: make_react(ACT, DONE, handlers=YES).splice(APPROVED, after=parse, on=Acted), WHOLE),
    (
        lambda: make_react(ACT, ACT, DONE).plug(nodes.stop_repeats()),
        printed(*SAID, *SAID, "<- hi", WARNING.format(times=2), "hi it is"),
    ),
    # Control characters are replaced.
    (lambda: make_executor(answer(HOSTILE)), printed("\ufffd[2J\ufffdgone\ufffdback\tand\non")),
)
def test_run_is_printed_from_start_to_end(make: Callable[[], gx.AgentExecutor], output: str) -> None:
    assert print_run(make()) == output


@cases("verbose", True, False)
@cases("run", actors.run_sync, actors.run_async, functools.partial(run_by, "stream"))
def test_only_a_verbose_executor_prints_to_stderr(run: Any, verbose: bool, capsys: pytest.CaptureFixture[str]) -> None:
    run(make_react(ACT, DONE, verbose=verbose))
    assert capsys.readouterr() == ("", WHOLE if verbose else "")


BEGUN = gx.Entered("plan", Ready(actions.NO_RUN), gx.Spent())
CALL = effects.CallTool("echo", "a")


# Effects other than tool calls are not printed, and notices of any node are.
@cases(
    ("events", "output"),
    ([BEGUN], "> the run begins\n"),
    ([BEGUN, gx.Asked("plan", CALL), gx.Entered("of my own", object(), gx.Spent())], "> the run begins\n"),
    ([gx.Reported("plan", CALL, "again in 2 s")], "   again in 2 s\n"),
)
def test_other_events_are_printed_or_ignored(events: list[Any], output: str) -> None:
    assert print_events(events) == output


# ---- colours


def test_a_terminal_gets_colours() -> None:
    executor = make_executor(A, B, answer("so"))
    assert print_run(executor, actors.Terminal()) == (
        "\x1b[2m> the run begins\x1b[0m\n"
        f"\x1b[32m{SHOWN_A}\x1b[0m\n"
        "\x1b[33m<- a\x1b[0m\n"
        f"\x1b[32m{SHOWN_B}\x1b[0m\n"
        f"\x1b[31m{FAILED}\x1b[0m\n"
        "\x1b[1mso\x1b[0m\n"
        "\x1b[2m> the run ends\x1b[0m\n"
    )


@cases(("value", "colours"), ("1", False), ("", True))
def test_no_color_turns_colours_off(monkeypatch: pytest.MonkeyPatch, value: str, colours: bool) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    output = print_run(make_react(ACT, DONE), actors.Terminal())
    assert ("\x1b[" in output, output == WHOLE) == (colours, not colours)


# ---- hostile and long text


@settings(max_examples=examples(60), deadline=None)
@given(text=st.text(st.characters(categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp", "L"]), max_size=30))
def test_control_characters_do_not_reach_the_terminal(text: str) -> None:
    executor = gx.AgentExecutor(agent=lambda steps, _: answer(text) if steps else act("echo", text=text), tools=[echo])
    output = re.sub(r"\x1b\[(2|32|33|31|1|0)m", "", print_run(executor, actors.Terminal()))
    assert all(letter.isprintable() or letter in "\n\t" for letter in output)


def test_resumed_run_prints_new_steps_only() -> None:
    events = list(make_react(ACT, DONE).stream("q"))
    plans = [place for place, event in enumerate(events) if isinstance(event, gx.Entered) and event.node == "plan"]
    assert print_events(events[plans[1] :]) == "<- hi\nhi it is\n> the run ends\n"


def test_resumed_or_changed_run_prints_steps_once(capsys: pytest.CaptureFixture[str]) -> None:
    turns = make_react(ACT, ACT.replace("hi", "ho"), DONE, verbose=True).iter("q")
    for _ in turns:
        if not turns.ended:
            turns.run = actions.Run({"input": "r"}, actions.Steps(turns.run.steps))
    output = capsys.readouterr().err
    assert output == WHOLE.replace("hi it is", f"{ACT.replace('hi', 'ho')}\n-> echo(ho)\n<- ho\nhi it is")


def test_failed_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        make_react(ACT, verbose=True).run("q")
    output = capsys.readouterr().err
    assert output.startswith("> the run begins\nI should greet.")
    assert re.search(r"\n<- hi\nAssertionError: .*\n> the run fails\n$", output, re.DOTALL)


def test_interrupted_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    events = make_react(DONE, verbose=True).stream("q")
    next(events)
    events.close()
    assert capsys.readouterr().err == "> the run begins\n> the run is interrupted\n"
