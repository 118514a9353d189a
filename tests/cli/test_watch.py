"""`graphexec run --watch`: the machine on a terminal, however small it is, and what happens without one."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from rich.console import Console

from graphexec import AgentExecutor, AskHuman, Limits, create_structured_agent
from graphexec.cli.following import Setup, follow
from graphexec.cli.terminal import ASCII, Symbols, clean
from graphexec.cli.watching import Scene, Watch
from graphexec.draw import picture_of
from graphexec.effects import agent_limits
from graphexec.executor.result import Ending
from graphexec.kernel.events import Answered, Asked, Event, Moved, Reported
from graphexec.kernel.meters import Spent
from graphexec.models import ScriptedModel
from tests.cli.conversations import Refusal, answering, calling, serving
from tests.cli.terminals import ARGUMENTS, PATIENCE, command, environment
from tests.cli.test_run import SOLVED, asking
from tests.cli.test_trace import Terminal
from tests.cli.traced import QUESTION, executing

# What empties a whole screen, or everything below the cursor: a screen that is emptied before it is drawn flickers.
EMPTIED = re.compile(r"\x1b\[[0-3]?J|\x1bc")


def scene(limits: Limits | None = None, symbols: Symbols | None = None) -> Scene:
    executor = executing()
    return Scene(picture_of(executor.verify()), limits or executor.limits, symbols or Symbols())


def shown(one: Scene, height: int = 40, width: int = 80) -> list[str]:
    """The lines of the scene on a terminal of that size."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, height=height, force_terminal=True, color_system=None, legacy_windows=False
    )
    console.print(one, end="")
    return out.getvalue().splitlines()


def events(*first: str) -> Iterator[Event[Ending]]:
    return executing(*first).stream(QUESTION)


def test_the_node_and_the_edge_just_taken_are_seen_with_how_often_they_were() -> None:
    one = scene()
    seen = ""
    for event in events("no JSON at all"):
        one.happened(event)
        if isinstance(event, Asked) and event.node == "dispatch_tools":
            seen = "\n".join(shown(one))
    assert " ● dispatch_tools      ×1\n" in seen
    assert " ○ plan                ×2\n" in seen
    assert "     Replied         → parse               ×2\n" in seen
    assert "     Ready           → plan                ×1\n" in seen
    assert "     LimitReached    ⇢ stopped_response   \n" in seen
    assert re.search(r"^ calling double .* ms$", seen, re.MULTILINE)
    assert " iterations     ██░░░░░░░░░░░░░░░░░░ 2 of 15" in seen
    assert "\n 2 model calls · " in seen
    assert " ● END" in "\n".join(shown(one))


@pytest.mark.parametrize("width", [20, 80, 200])
def test_however_small_a_terminal_is_the_scene_fits_into_it(width: int) -> None:
    one = scene(agent_limits(seconds=5.0, tokens=1_000_000, cost=1.0))
    for event in events():
        one.happened(event)
        for height in (1, 2, 3, 5, 8, 13, 21, 34):
            lines = shown(one, height, width)
            assert len(lines) <= max(height - 1, 1)
            assert all(len(line) <= width for line in lines)


def test_in_a_low_terminal_the_nodes_around_the_run_are_seen() -> None:
    one = scene()
    for event in events():
        one.happened(event)
        if isinstance(event, Moved) and event.target != "END":
            for height in (6, 8, 10, 12):
                # As the run enters it next.
                assert any(line.startswith(f" ● {event.target}") for line in shown(one, height)), height


def test_a_terminal_that_is_not_utf_8_gets_ascii() -> None:
    one = scene(symbols=ASCII)
    for event in events():
        one.happened(event)
        assert all(line.isascii() for line in shown(one))


def test_what_is_reported_is_told_until_the_answer_and_cannot_steer_the_terminal() -> None:
    one, asked = scene(), AskHuman("Go on?")
    one.happened(Asked("plan", asked))
    one.happened(Reported("plan", asked, "waited\n\x1b[2J2.0 s \u202efor a turn"))
    assert " waited 2.0 s for a turn" in [line.rstrip() for line in shown(one)]
    one.happened(Answered("plan", asked, "yes", 2.0, Spent()))
    assert "for a turn" not in "\n".join(shown(one))


def test_the_machine_stays_as_it_was_left_before_the_answer_and_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    out, terminal = Terminal(), Terminal()
    executor = executing()
    streams = sys.stdout, sys.stderr
    assert follow(Setup(QUESTION, executor, "scripted", "structured"), Watch(out, terminal)) == 0
    assert (sys.stdout, sys.stderr) == streams
    assert clean(out.getvalue()).strip() == "It is 4."
    left = clean(terminal.getvalue())
    # The stream does not say that it can show more.
    assert "\n > END" in left
    assert left.rstrip().splitlines()[-1].startswith("2 iterations | 2 model calls | 1 tool call | ")
    assert not EMPTIED.search(terminal.getvalue())


class Interrupted(Watch):
    """A watcher whose person presses Ctrl-C as soon as something is asked for."""

    def happened(self, event: Event[Ending]) -> None:
        super().happened(event)
        if isinstance(event, Asked):
            raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "code"), [(Interrupted, 130), (Watch, 1)])
def test_however_a_run_ends_the_streams_and_the_cursor_are_put_back(
    monkeypatch: pytest.MonkeyPatch, kind: type[Watch], code: int
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, streams = Terminal(), (sys.stdout, sys.stderr)
    agent = create_structured_agent(ScriptedModel([ValueError("no")]), [])
    setup = Setup(QUESTION, AgentExecutor(agent=agent, tools=[], handle_parsing_errors=True), "scripted", "structured")
    assert follow(setup, kind(Terminal(), terminal)) == code
    assert (sys.stdout, sys.stderr) == streams
    assert terminal.getvalue().rindex("\x1b[?25h") > terminal.getvalue().rindex("\x1b[?25l")


def test_without_a_terminal_the_trace_is_shown_and_one_line_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(SOLVED) as server:
        ended = command(capsys, *asking(server, "--watch"))
    assert (ended.code, ended.out) == (0, "37 * 48 is 1776.\n")
    first, *trace = ended.err.splitlines()
    assert first == "graphexec: --watch needs a terminal; here is the trace"
    assert any("plan                → Replied" in line for line in trace)


@pytest.mark.parametrize("other", ["--json", "--quiet"])
def test_a_run_is_shown_in_one_way(capsys: pytest.CaptureFixture[str], other: str) -> None:
    ended = command(capsys, "run", QUESTION, "--watch", other)
    assert ended.code == 2
    assert f"--watch and {other} show a run in two ways; leave one out" in ended.out + ended.err
    assert (ended.out + ended.err).count("\n") == 1


def test_on_a_real_terminal_the_machine_is_drawn_again_and_again_without_flicker() -> None:
    ours, theirs = pty.openpty()
    with serving([Refusal(), calling("calculator", expression="37 * 48"), answering("37 * 48 is 1776.")]) as server:
        running = subprocess.Popen(
            [*ARGUMENTS, *asking(server, "--watch")],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=environment(TERM="xterm-256color", COLUMNS="80", LINES="24"),
        )
        os.close(theirs)
        said = b""
        # Linux says with an error that nobody writes any more.
        while chunk := _read(ours):
            said += chunk
        assert running.wait(PATIENCE) == 0
    os.close(ours)
    text = said.decode()
    assert not EMPTIED.search(text)
    assert text.count("dispatch_tools") > 2
    left = clean(text)
    assert left.rindex("● END") < left.rindex("37 * 48 is 1776.") < left.rindex("2 iterations · ")


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:
        return b""
