"""`verbose=True`: the exact output of a run on stderr."""

from __future__ import annotations

import asyncio
import io
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphexec import AgentExecutor, AgentFinish, AskHuman, Spent, create_react_agent, splice, tool
from graphexec.actions import NO_RUN, Run, Steps
from graphexec.effects import CallTool
from graphexec.executor import Acted, Ready, parse
from graphexec.executor.console import ConsolePrinter
from graphexec.kernel import Asked, Entered, Reported
from graphexec.messages import ReplyDelta
from graphexec.models import ScriptedModel
from graphexec.nodes import stop_repeats
from graphexec.nodes.tool_calls import WARNING
from graphexec.runtime import report
from tests.executor.actors import act, answer, echo, fail, scripted
from tests.executor.test_with_graph import APPROVED
from tests.parameters import cases

ACT = "I should greet.\nAction: echo\nAction Input: hi"
DONE = "I know.\nFinal Answer: hi it is"


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)


def print_run(executor: AgentExecutor, out: io.StringIO | None = None) -> str:
    """Return the output of a printer that observes a run."""
    out = io.StringIO() if out is None else out
    watcher = ConsolePrinter(out)
    for event in executor.stream("q"):
        watcher(event)
    return out.getvalue()


def react(*replies: str, **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=create_react_agent(ScriptedModel(replies), [echo, fail]), tools=[echo, fail], **settings)


def make_executor(*turns: Any, **settings: Any) -> AgentExecutor:
    return AgentExecutor(agent=scripted(*turns), tools=[echo, fail], **settings)


WHOLE = """\
> the run begins
I should greet.
Action: echo
Action Input: hi
-> echo(hi)
<- hi
hi it is
> the run ends
"""


def test_run_is_printed_from_start_to_end() -> None:
    assert print_run(react(ACT, DONE)) == WHOLE


def test_invented_text_is_printed_as_unread() -> None:
    printed = print_run(react(f"{ACT}\nObservation: ho", f"{DONE}\nObservation: he"))
    unread = "   not read, since the model invented it: Observation: "
    assert printed == WHOLE.replace("-> echo(hi)\n", f"-> echo(hi)\n{unread}ho\n").replace(
        "hi it is\n", f"{unread}he\nhi it is\n"
    )


@cases("how", ["run", "arun", "stream"])
def test_every_way_to_run_prints_to_stderr(how: str, capsys: pytest.CaptureFixture[str]) -> None:
    executor = react(ACT, DONE, verbose=True)
    if how == "run":
        executor.run("q")
    elif how == "arun":
        asyncio.run(executor.arun("q"))
    else:
        list(executor.stream("q"))
    assert capsys.readouterr() == ("", WHOLE)


def test_a_silent_executor_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    react(ACT, DONE).run("q")
    assert capsys.readouterr() == ("", "")


def test_arguments_by_name_and_several_actions() -> None:
    assert print_run(make_executor([act("echo", text="a"), act("fail", text="b")], answer("so"))) == (
        "> the run begins\n"
        '-> echo({"text":"a"})\n'
        '-> fail({"text":"b"})\n'
        "<- a\n"
        "<- fail failed: ValueError: no b\n"
        "so\n"
        "> the run ends\n"
    )


def test_unreadable_reply_is_printed_with_its_feedback() -> None:
    assert print_run(react("garbage\n", DONE, handle_parsing_errors="Say it again.")) == (
        "> the run begins\ngarbage\n<- could not be read: Say it again.\nhi it is\n> the run ends\n"
    )


def test_a_stopped_run_says_why() -> None:
    assert print_run(make_executor(act("echo", text="a"), max_iterations=1)) == (
        "> the run begins\n"
        '-> echo({"text":"a"})\n'
        "<- a\n"
        "Agent stopped due to iteration limit or time limit.\n"
        "Stopped after 1 step: the limit of 1 iteration was reached (1 spent).\n"
        "> the run ends\n"
    )


def test_answer_of_several_values_is_printed_whole() -> None:
    assert print_run(make_executor(AgentFinish({"answer": 42, "sure": True}))) == (
        '> the run begins\n{"answer":42,"sure":true}\n> the run ends\n'
    )


@tool
def careful(text: str) -> str:
    """Report the work."""
    report("looking it up")
    report(ReplyDelta("a piece"))
    return text


def test_reports_are_printed_without_reply_pieces() -> None:
    executor = AgentExecutor(agent=scripted(act("careful", text="a"), answer()), tools=[careful])
    assert "   looking it up\n<- a\n" in print_run(executor)
    assert "a piece" not in print_run(executor)


def test_effects_other_than_tool_calls_are_not_printed() -> None:
    out = io.StringIO()
    watcher = ConsolePrinter(out)
    watcher(Entered("plan", Ready(NO_RUN), Spent()))
    output = out.getvalue()
    watcher(Asked("plan", CallTool("echo", "a")))
    watcher(Entered("of my own", object(), Spent()))
    assert out.getvalue() == output == "> the run begins\n"


# ---- colours


def test_a_terminal_gets_colours() -> None:
    text = print_run(make_executor(act("echo", text="a"), act("fail", text="b"), answer("so")), Terminal())
    assert text == (
        "\x1b[2m> the run begins\x1b[0m\n"
        '\x1b[32m-> echo({"text":"a"})\x1b[0m\n'
        "\x1b[33m<- a\x1b[0m\n"
        '\x1b[32m-> fail({"text":"b"})\x1b[0m\n'
        "\x1b[31m<- fail failed: ValueError: no b\x1b[0m\n"
        "\x1b[1mso\x1b[0m\n"
        "\x1b[2m> the run ends\x1b[0m\n"
    )


def test_no_color_turns_colours_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert print_run(react(ACT, DONE), Terminal()) == WHOLE


def test_empty_no_color_keeps_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    assert "\x1b[" in print_run(react(ACT, DONE), Terminal())


# ---- hostile and long text


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp", "L"]), max_size=30))
def test_control_characters_do_not_reach_the_terminal(text: str) -> None:
    executor = AgentExecutor(agent=lambda steps, _: answer(text) if steps else act("echo", text=text), tools=[echo])
    output = re.sub(r"\x1b\[(2|32|33|31|1|0)m", "", print_run(executor, Terminal()))
    assert all(letter.isprintable() or letter in "\n\t" for letter in output)


def test_control_characters_are_replaced() -> None:
    executor = AgentExecutor(agent=scripted(answer("\x1b[2J\x07gone\rback\tand\non")), tools=[])
    assert "\ufffd[2J\ufffdgone\ufffdback\tand\non\n" in print_run(executor)


def test_long_text_is_cut() -> None:
    long = "x" * 3_500
    output = print_run(make_executor(answer(long)))
    assert f"\n{'x' * 2_000} [... 1,500 more characters]\n" in output
    assert "x" * 2_001 not in output
    assert f"\n{'y' * 2_000}\n" in print_run(make_executor(answer("y" * 2_000)))


def test_action_follows_a_long_thought_on_its_line() -> None:
    output = print_run(react("x" * 2_500 + f"\n{ACT}", DONE))
    assert f"\n{'x' * 2_000} [... 546 more characters]\n-> echo(hi)\n" in output


def test_resumed_run_prints_new_steps_only() -> None:
    executor = react(ACT, DONE)
    events = list(executor.stream("q"))
    entered = [event for event in events if isinstance(event, Entered)]
    out = io.StringIO()
    watcher = ConsolePrinter(out)
    # From the second plan on.
    for event in events[events.index([event for event in entered if event.node == "plan"][1]) :]:
        watcher(event)
    assert out.getvalue() == "<- hi\nhi it is\n> the run ends\n"


def test_resumed_or_changed_run_prints_steps_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    executor = react(ACT, ACT.replace("hi", "ho"), DONE, verbose=True)
    turns = executor.iter("q")
    for _ in turns:
        if not turns.ended:
            turns.run = Run({"input": "r"}, Steps(turns.run.steps))
    output = capsys.readouterr().err
    assert output == WHOLE.replace("hi it is", f"{ACT.replace('hi', 'ho')}\n-> echo(ho)\n<- ho\nhi it is")


def test_text_added_by_a_node_is_a_note() -> None:
    executor = react(ACT, ACT, DONE)
    executor = executor.plug(stop_repeats())
    output = print_run(executor)
    assert output.count("<- hi\n") == 3
    assert f"<- hi\n{WARNING.format(times=2)}\nhi it is\n" in output


def test_actions_asked_about_are_printed_once() -> None:
    executor = react(ACT, DONE)
    executor = AgentExecutor(agent=executor.agent, tools=[echo, fail], handlers={AskHuman: lambda _: "yes"}).with_graph(
        splice(executor.graph, APPROVED, after=parse, on=Acted)
    )
    assert print_run(executor) == WHOLE


def test_notices_of_any_node_are_printed() -> None:
    out = io.StringIO()
    ConsolePrinter(out)(Reported("plan", CallTool("echo", ""), "again in 2 s"))
    assert out.getvalue() == "   again in 2 s\n"


def test_failed_run_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AssertionError):
        react(ACT, verbose=True).run("q")
    output = capsys.readouterr().err
    assert output.startswith("> the run begins\nI should greet.")
    assert re.search(r"\n<- hi\nAssertionError: .*\n> the run fails\n$", output, re.DOTALL)


def test_interrupted_run_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    events = react(DONE, verbose=True).stream("q")
    next(events)
    events.close()
    assert capsys.readouterr().err == "> the run begins\n> the run is interrupted\n"
