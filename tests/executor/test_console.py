"""What a run prints to stderr with `verbose=True`: its whole output."""

import contextlib
import functools
import io
import re
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphexec as gx
from graphexec import actions, effects, messages, nodes, runtime
from graphexec.executor import Acted, Ready, parse
from graphexec.executor.console import ConsolePrinter
from graphexec.integrations import langchain
from graphexec.nodes.tool_calls import WARNING
from tests.executor import actors
from tests.executor.actors import act, answer, echo, make_executor, make_react, run_by
from tests.executor.test_surgery import APPROVED
from tests.parameters import cases, examples

ACT = "I should greet.\nAction: echo\nAction Input: hi"
DONE = "I know.\nFinal Answer: hi it is"


def print_events(events: Iterable[Any]) -> str:
    """Return the output of a printer that observes these events."""
    out = io.StringIO()
    watcher = ConsolePrinter()
    with contextlib.redirect_stderr(out):
        for event in events:
            watcher(event)
    return out.getvalue()


def print_run(executor: gx.AgentExecutor) -> str:
    return print_events(executor.stream("q"))


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


# ---- hostile and long text


@settings(max_examples=examples(60), deadline=None)
@given(text=st.text(st.characters(categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp", "L"]), max_size=30))
def test_control_characters_do_not_reach_the_terminal(text: str) -> None:
    executor = gx.AgentExecutor(agent=lambda steps, _: answer(text) if steps else act("echo", text=text), tools=[echo])
    assert all(letter.isprintable() or letter in "\n\t" for letter in print_run(executor))


def test_resumed_run_prints_new_steps_only() -> None:
    events = list(make_react(ACT, DONE).stream("q"))
    plans = [place for place, event in enumerate(events) if isinstance(event, gx.Entered) and event.node == "plan"]
    assert print_events(events[plans[1] :]) == "<- hi\nhi it is\n> the run ends\n"


def test_resumed_or_changed_run_prints_steps_once(capsys: pytest.CaptureFixture[str]) -> None:
    turns = langchain.iterate(make_react(ACT, ACT.replace("hi", "ho"), DONE, verbose=True), "q")
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
