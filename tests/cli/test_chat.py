"""The command `chat`: turns with memory, streaming, slash commands, and input from a pipe."""

from __future__ import annotations

import io
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
from graphexec.actions import StoppedResponse
from graphexec.cli.chat.command import answer_lines, hold_chat
from graphexec.cli.chat.display import TurnDisplay
from graphexec.cli.chat.reading import MessageReader
from graphexec.cli.chat.session import Chat
from graphexec.cli.chat.slash import COMMANDS, run_command
from graphexec.cli.chat.turns import EarlierTurns, make_earlier_turns
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.runs.advice import advise_on_limit
from graphexec.cli.runs.building import NamedExecutor
from graphexec.cli.runs.loop import RunProgress
from graphexec.cli.terminal import TextCleaner, clean
from graphexec.kernel.meters import Exhausted
from graphexec.memory import BufferMemory, FileHistory, Turn
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, ToolCall
from graphexec.models import ScriptedModel
from tests.cli.conversations import answer_text, serving, tool_call_text
from tests.cli.terminals import PATIENCE, command
from tests.parameters import cases


class Terminal(io.StringIO):
    """A stream that is a terminal; `writes` are the pieces that it received, and `on_write` is called after each."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.on_write: Callable[[], None] = lambda: None

    def isatty(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        self.writes.append(text)
        length = super().write(text)
        self.on_write()
        return length


class Streaming(ScriptedModel):
    """A scripted model whose replies come in pieces of five characters; it waits before the last for `may_end`."""

    instant: ClassVar[bool] = False

    def __init__(self, replies: Sequence[Any], may_end: threading.Event | None = None) -> None:
        super().__init__(replies)
        self.may_end = may_end

    def stream(self, request: ModelRequest, *, timeout: float | None = None) -> Iterator[ReplyDelta | ModelReply]:
        reply = self.complete(request, timeout=timeout)
        cuts = [*range(0, len(reply.content), 5), len(reply.content)]
        for begin, end in pairwise(cuts):
            if end == len(reply.content) and self.may_end is not None:
                assert self.may_end.wait(PATIENCE)
            yield ReplyDelta(reply.content[begin:end])
        yield reply


@gx.tool
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


class Session:
    """A chat with a scripted model, and what it has printed."""

    def __init__(
        self,
        replies: Sequence[Any],
        *,
        terminal: bool = True,
        file: Path | None = None,
        model: Streaming | None = None,
        executor: gx.AgentExecutor | None = None,
        quiet: bool = False,
    ) -> None:
        self.model = model or Streaming(replies)
        self.executor = executor or gx.AgentExecutor(
            agent=gx.create_structured_agent(self.model, [double], rules=()), tools=[double], handle_parsing_errors=True
        )
        self.out, self.err = (Terminal(), Terminal()) if terminal else (io.StringIO(), io.StringIO())
        named = NamedExecutor(self.executor, "scripted", "structured")
        self.chat = Chat(named, make_earlier_turns(self.executor, file), self.out, self.err, quiet=quiet)

    def say(self, *lines: str) -> int:
        """Answer lines as from a pipe, and return the exit code."""
        return answer_lines(self.chat, MessageReader(reader_of(lines)))

    @property
    def notes(self) -> str:
        """The text beside the answers, without styles and trailing blanks."""
        plain = re.sub(r"\x1b\[[0-?]*[@-~]", "", self.err.getvalue())
        return "\n".join(line.rstrip() for line in plain.splitlines())

    def requested(self, number: int) -> str:
        """Return the request of this number as text."""
        return str(self.model.requests[number])


def reader_of(lines: Sequence[str | BaseException]) -> Callable[[str], str]:
    left = list(lines)

    def read_line(_prompt: str) -> str:
        if not left:
            raise EOFError
        line = left.pop(0)
        if isinstance(line, BaseException):
            raise line
        return line

    return read_line


HELLO, KNOWN = answer_text("Hello, Ada."), answer_text("Your name is Ada.")


def test_next_turn_knows_the_earlier_ones() -> None:
    session = Session([HELLO, KNOWN])
    assert session.say("My name is Ada.", "What is my name?") == 0
    assert session.out.getvalue() == "Hello, Ada.\nYour name is Ada.\n"
    assert "My name is Ada." in session.requested(1)
    assert "Hello, Ada." in session.requested(1)


def test_next_chat_continues_the_file(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    Session([HELLO], file=file).say("My name is Ada.")
    assert FileHistory(file).turns() == (Turn("My name is Ada.", "Hello, Ada."),)
    session = Session([KNOWN], file=file)
    assert session.chat.earlier.length == 1
    session.say("What is my name?")
    assert "My name is Ada." in session.requested(0)
    assert len(FileHistory(file).turns()) == 2


def test_executor_keeps_its_own_memory(tmp_path: Path) -> None:
    model = Streaming([HELLO, KNOWN])
    memory = BufferMemory(as_messages=True)
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, []), tools=[], memory=memory)
    session = Session([], executor=executor)
    session.say("My name is Ada.", "What is my name?")
    assert [turn.input for turn in memory.history.turns()] == ["My name is Ada.", "What is my name?"]
    assert str(model.requests[1]).count("My name is Ada.") == 1
    session.say("/clear")
    assert memory.history.turns() == ()


def test_agent_without_history_has_no_memory(tmp_path: Path) -> None:
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), [double]), tools=[double])
    assert make_earlier_turns(executor, None) == EarlierTurns("input")
    with pytest.raises(UsageError, match="--memory: the react agent takes no earlier messages; leave it out"):
        make_earlier_turns(executor, tmp_path / "talk.jsonl")


def test_function_agent_gets_the_conversation() -> None:
    seen: list[Mapping[str, Any]] = []

    def agent(_steps: object, inputs: dict[str, Any]) -> str:
        seen.append(inputs)
        return "yes"

    executor = gx.AgentExecutor(
        agent=lambda steps, inputs: gx.AgentFinish({"output": agent(steps, inputs)}, ""), tools=[], max_iterations=3
    )
    session = Session([], executor=executor)
    assert session.say("one", "two") == 0
    assert seen[0] == {"input": "one", "chat_history": ()}
    assert [message.content for message in seen[1]["chat_history"]] == ["one", "yes"]


def test_answer_is_printed_while_it_comes() -> None:
    session = Session([answer_text("A somewhat longer answer.")])
    session.say("What is it?")
    assert isinstance(session.out, Terminal)
    pieces = [one for one in session.out.writes if one.strip()]
    assert len(pieces) > 3
    assert session.out.getvalue() == "A somewhat longer answer.\n"


def test_first_piece_comes_before_the_last() -> None:
    seen = threading.Event()
    session = Session([], model=Streaming([answer_text("A somewhat longer answer.")], seen))
    assert isinstance(session.out, Terminal)
    session.out.on_write = seen.set
    assert session.say("What is it?") == 0
    assert session.out.getvalue() == "A somewhat longer answer.\n"


def test_text_before_a_call_has_its_own_line() -> None:
    call = ModelReply("Let me see what this is.", (ToolCall("1", "double", '{"number": 2}'),))
    model = Streaming([call, "It is 4."])
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, [double]), tools=[double])
    session = Session([], executor=executor)
    session.say("What is 2 * 2?")
    assert session.out.getvalue() == "Let me see what this is.\nIt is 4.\n"


def test_pipe_receives_whole_answers_alone() -> None:
    session = Session([tool_call_text("double", number=2), answer_text("It is 4.")], terminal=False)
    assert session.say("What is 2 * 2?") == 0
    assert session.out.getvalue() == "It is 4.\n"
    assert session.notes == "  double(number=2) -> 4"


def test_tool_calls_are_short_lines() -> None:
    long = tool_call_text("double", number=10**80)
    session = Session([long, answer_text("Long.")])
    session.say("Double it.")
    [line] = [one for one in session.notes.splitlines() if "double(" in one]
    assert len(line) <= 80


def test_quiet_prints_answers_alone() -> None:
    session = Session([tool_call_text("double", number=2), answer_text("It is 4.")], terminal=False, quiet=True)
    session.say("What is 2 * 2?")
    assert (session.out.getvalue(), session.notes) == ("It is 4.\n", "")


def test_output_controls_no_terminal() -> None:
    session = Session([answer_text("\x1b]0;title\x07\x1b[31mred\x1b[0m\u202e!")])
    session.say("Hello")
    assert "\x1b" not in session.out.getvalue()
    assert "\u202e" not in session.out.getvalue()
    assert session.out.getvalue() == "red!\n"


@given(st.lists(st.text("\x1b[]\x07\\m0;P(a b\r\n\x9b\x9d\x9c\x90\N{BULLET}", max_size=6), max_size=12))
def test_divided_sequences_are_removed(pieces: list[str]) -> None:
    cleaner = TextCleaner()
    cleaned = "".join(cleaner.clean(piece) for piece in pieces)
    assert clean("".join(pieces)) == cleaned


def test_stopped_run_says_which_limit_and_what_to_do() -> None:
    session = Session([*[tool_call_text("double", number=2)] * 2, answer_text("4 and 4.")], terminal=False)
    assert session.say("/limits iterations=1", "Double 2 twice.") == 3
    stopped = session.notes.splitlines()[-1]
    assert stopped.startswith("Stopped after 1 step: ")
    _, remedy = stopped.split("; allow more with ")
    assert remedy == "/limits iterations=2"
    assert session.say(remedy, "Go on.") == 0
    assert session.out.getvalue().endswith("4 and 4.\n")


@cases("limit", [Exhausted("tokens", 50, 110), Exhausted("iterations", 0, 0), Exhausted("cost", 0, 0)])
def test_chat_and_run_advise_the_same_amount(limit: Exhausted) -> None:
    err = io.StringIO()
    TurnDisplay(io.StringIO(), err).on_end(StoppedResponse("", limit), RunProgress())
    advised = re.split("[ =]", advise_on_limit(limit))[-1]
    assert err.getvalue().endswith(f"; allow more with /limits {limit.limit}={advised}\n")


def test_failed_turn_leaves_no_trace_in_the_memory(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    session = Session([HELLO, ValueError("out of order"), KNOWN], terminal=False, file=file)
    assert session.say("My name is Ada.", "This fails.", "What is my name?") == 1
    assert session.notes.startswith("graphexec: ValueError: out of order (test_chat.py, line ")
    assert "This fails." not in session.requested(2)
    assert [turn.input for turn in FileHistory(file).turns()] == ["My name is Ada.", "What is my name?"]


def test_ctrl_c_interrupts_the_answer_and_not_the_chat(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    session = Session([KeyboardInterrupt(), KNOWN], file=file)
    hold_chat(session.chat, MessageReader(reader_of(["Say it.", "And now?", "/quit", "never read"])))
    assert session.out.getvalue() == "Your name is Ada.\n"
    assert "Interrupted after 0 steps; this turn is not remembered" in session.notes
    assert [turn.input for turn in FileHistory(file).turns()] == ["And now?"]


def test_ctrl_c_in_mid_answer_ends_the_line() -> None:
    session = Session([answer_text("A somewhat longer answer."), KNOWN])
    out = session.out
    assert isinstance(out, Terminal)

    def interrupt() -> None:
        if len(out.getvalue()) > 5:
            out.on_write = lambda: None
            raise KeyboardInterrupt

    out.on_write = interrupt
    hold_chat(session.chat, MessageReader(reader_of(["What is it?", "Again."])))
    first, second = out.getvalue().splitlines()
    assert "A somewhat longer answer.".startswith(first)
    assert second == "Your name is Ada."
    assert "What is it?" not in session.requested(1)


def test_ctrl_c_at_the_prompt_says_how_to_leave(capsys: pytest.CaptureFixture[str]) -> None:
    session = Session([HELLO])
    hold_chat(session.chat, MessageReader(reader_of([KeyboardInterrupt(), "Hello"])))
    assert session.out.getvalue() == "Hello, Ada.\n"
    assert "(Ctrl-D or /quit leaves)" in capsys.readouterr().err


def test_interrupted_pipe_ends_with_130() -> None:
    session = Session([KeyboardInterrupt(), HELLO], terminal=False)
    assert session.say("one", "two") == 130
    assert session.out.getvalue() == ""


def test_unsaved_turn_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session([HELLO, KNOWN], file=tmp_path / "talk.jsonl", terminal=False)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileHistory, "add", refuse)
        assert session.say("one") == 1
    assert session.out.getvalue() == "Hello, Ada.\n"
    assert "this turn is not remembered" in capsys.readouterr().err
    assert session.say("two") == 0


def test_damaged_file_does_not_end_the_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.jsonl"
    session = Session([HELLO, KNOWN], file=file, terminal=False)
    assert session.say("one") == 0
    file.write_text("no turn\n", encoding="utf-8")
    assert session.say("two") == 2
    assert capsys.readouterr().err.startswith(f"graphexec: {file}, line 1, is not a turn: ")
    assert session.say("/clear", "two") == 0


@cases(
    ("lines", "messages"),
    [
        (["one", "", "  two  "], ["one", "", "two"]),
        (["one \\", "two\\", "three", "four"], ["one \ntwo\nthree", "four"]),
        (["one \\"], ["one"]),
        (['"""', "  one", "", "two", '"""', "three"], ["one\n\ntwo", "three"]),
        (['"""one"""', "two"], ["one", "two"]),
        (['"""one', 'two"""'], ["one\ntwo"]),
        (['"""one', "two"], ["one\ntwo"]),
        ([], []),
    ],
)
def test_messages_of_several_lines(lines: list[str], messages: list[str]) -> None:
    reader = MessageReader(reader_of(lines))
    assert list(iter(reader.read, None)) == messages


def test_empty_lines_are_no_turns() -> None:
    session = Session([HELLO], terminal=False)
    assert session.say("", "   ", "Hello", "") == 0
    assert len(session.model.requests) == 1


def test_two_slashes_begin_a_message() -> None:
    session = Session([HELLO], terminal=False)
    assert session.say("//etc/hosts is a file") == 0
    assert "/etc/hosts is a file" in session.requested(0)
    assert "//etc" not in session.requested(0)


# ---- slash commands


def test_help_lists_every_command() -> None:
    session = Session([], terminal=False)
    assert session.say("/help") == 0
    assert [line.split()[0] for line in session.out.getvalue().splitlines()[: len(COMMANDS)]] == list(COMMANDS)
    assert {"/machine", "/page", "/limits", "/tools", "/clear", "/quit"} < set(COMMANDS)


@cases(("encoding", "line"), [("utf-8", "│ plan "), ("ascii", "| plan ")])
def test_machine_is_drawn_with_its_proof(encoding: str, line: str) -> None:
    session = Session([], terminal=False)
    drawn = io.BytesIO()
    session.chat.out = io.TextIOWrapper(drawn, encoding)
    assert session.say("/machine") == 0
    session.chat.out.flush()
    text = drawn.getvalue().decode(encoding)
    assert line in text
    assert "Proved: every run ends" in text


def test_page_of_the_last_run_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session([HELLO], terminal=False)
    assert session.say("/page") == 2
    assert capsys.readouterr().err == "graphexec: /page: there is no run yet; ask something first\n"
    file = tmp_path / "my run.html"
    assert session.say("My name is Ada.", f"/page '{file}'", "/page") == 0
    _, path, other = session.out.getvalue().splitlines()
    assert Path(path) == file
    temporary = Path(other)
    try:
        assert temporary.stat().st_mode & 0o777 == 0o600
        for page in (file, temporary):
            assert "My name is Ada." in page.read_text(encoding="utf-8")
    finally:
        temporary.unlink()


def test_path_of_a_page_is_that_of_the_file_system(tmp_path: Path) -> None:
    session, printed = Session([HELLO], terminal=False), io.BytesIO()
    session.chat.out = io.TextIOWrapper(printed, encoding="ascii", errors="backslashreplace")
    page = tmp_path / "größe.html"
    assert session.say("Hello", f"/page {page}") == 0
    assert os.fsdecode(printed.getvalue()).splitlines()[-1] == str(page)


def test_page_may_open_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[str] = []

    def visit(address: str) -> bool:
        visited.append(address)
        return True

    monkeypatch.setattr("webbrowser.open", visit)
    session = Session([HELLO], terminal=False)
    session.say("Hello", f"/page {tmp_path / 'run.html'} --open")
    assert visited == [(tmp_path / "run.html").as_uri()]


@cases("reply", [ValueError("broken"), KeyboardInterrupt()])
def test_page_shows_a_run_that_failed(tmp_path: Path, reply: BaseException) -> None:
    session = Session([reply], terminal=False)
    session.say("Hello")
    assert session.say(f"/page {tmp_path / 'run.html'}") == 0
    page = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert ("broken" if isinstance(reply, ValueError) else "interrupted") in page


def test_limits_show_proof_and_spending() -> None:
    session = Session([tool_call_text("double", number=2), answer_text("It is 4.")], terminal=False)
    assert session.say("What is 2 * 2?", "/limits") == 0
    rows = {line.split()[0]: line.split() for line in session.out.getvalue().splitlines() if line.strip()}
    assert rows["iterations"] == ["iterations", "15", "2"]
    assert rows["model_calls"][1:] == ["none", "iterations", "=", "15", "(exact)", "2"]
    assert rows["tool_calls"][-1] == "1"
    assert "Every run ends: this is proved." in session.out.getvalue()


@cases(
    ("assignment", "row"),
    [
        ("iterations=5", ["5"]),
        ("model_calls=7", ["7"]),
        ("--max-tool-calls=2", ["2"]),
        ("seconds=1.5", ["1.5"]),
        ("depth=none", ["none"]),
    ],
)
def test_limits_can_be_changed(assignment: str, row: list[str]) -> None:
    session = Session([HELLO], terminal=False)
    assert session.say(f"/limits {assignment}") == 0
    name = assignment.partition("=")[0].removeprefix("--max-").replace("-", "_")
    [line] = [one for one in session.out.getvalue().splitlines() if one.startswith(f"{name} ")]
    assert line.split()[1:2] == row
    assert session.say("Hello") == 0


@cases(
    ("assignment", "error"),
    [
        ("iteration=5", "/limits: there is no limit iteration; did you mean iterations?"),
        ("iterations", "/limits: iterations needs a number; write iterations=10, or iterations=none for no limit"),
        ("iterations=many", "/limits: iterations needs a number; write iterations=10"),
        ("iterations=none", "/limits: with these limits it is not proved that every run ends, so nothing was changed"),
        ("iterations=-1", "iterations"),
        ("seconds=nan", "seconds"),
        ("iterations='5", "/limits: No closing quotation; close the quotes"),
    ],
)
def test_invalid_limits_change_nothing(capsys: pytest.CaptureFixture[str], assignment: str, error: str) -> None:
    session = Session([], terminal=False)
    before = session.chat.executor
    assert session.say(f"/limits {assignment}") == 2
    assert session.chat.executor is before
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert printed.startswith("graphexec: ")
    assert error in printed


def test_tools_have_arguments_and_descriptions() -> None:
    session = Session([], terminal=False)
    assert session.say("/tools") == 0
    assert [line.strip() for line in session.out.getvalue().splitlines()] == [
        "double(number: integer)",
        "Double a number.",
    ]


def test_clear_forgets_and_empties_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.jsonl"
    session = Session([HELLO, KNOWN], file=file, terminal=False)
    assert session.say("My name is Ada.", "/clear", "What is my name?") == 0
    assert "My name is Ada." not in session.requested(1)
    assert capsys.readouterr().err == f"The conversation is forgotten; {file} is empty\n"
    assert len(FileHistory(file).turns()) == 1


@cases(
    ("line", "meant"),
    [
        ("/machin", "/machine"),
        ("/tool", "/tools"),
        ("/exit", "/quit"),
        ("/new", "/clear"),
        ("/?", "/help"),
        ("/graph now", "/machine"),
    ],
)
def test_unknown_command_has_a_suggestion(capsys: pytest.CaptureFixture[str], line: str, meant: str) -> None:
    session = Session([], terminal=False)
    assert session.say(line) == 2
    assert (
        capsys.readouterr().err == f"graphexec: there is no command {line.partition(' ')[0]}; did you mean {meant}?\n"
    )


# Without /page, which writes files, and /quit.
@given(st.sampled_from(["/limits", "/tools", "/machine", "/help", "/clear", "/"]), st.text())
def test_no_command_raises(name: str, rest: str) -> None:
    session = Session([], terminal=False)
    line = f"{name}{rest}"
    with pytest.MonkeyPatch.context() as patch:
        errors = io.StringIO()
        patch.setattr("sys.stderr", errors)
        code = run_command(session.chat, line)
    assert (code == 0) == (not errors.getvalue().startswith("graphexec: "))
    assert errors.getvalue().count("\n") <= 1
    assert code in (0, 2)


@cases("line", ["/etc/passwd is what?", "/", "/quit now", "/machine x"])
def test_wrong_command_asks_no_model(capsys: pytest.CaptureFixture[str], line: str) -> None:
    session = Session([], terminal=False)
    assert session.say(line) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "two slashes" in error
    assert session.model.requests == []


def test_quit_ends_the_chat() -> None:
    session = Session([], terminal=False)
    assert session.say("/quit", "never asked") == 0
    assert session.model.requests == []


def test_names_of_limits_are_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    session = Session([])
    assert session.say("/limits") == 0
    printed = re.sub(r"\x1b\[[0-?]*[@-~]", "", session.out.getvalue())
    assert {"iterations", "model_calls", "tool_calls", "nested_runs", "transitions"} < set(printed.split())


@cases("columns", ["20", "60"])
def test_narrow_terminals_lose_nothing(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    session = Session([tool_call_text("double", number=2), answer_text("It is 4.")])
    assert session.say("What is 2 * 2?", "/tools", "/limits", "/help") == 0
    printed = re.sub(r"\x1b\[[0-?]*[@-~]", "", session.out.getvalue())
    assert "It is 4." in printed
    assert "doublenumber" in re.sub(r"[\s(]", "", printed)


# ---- the command


def chat_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def test_piped_lines_are_turns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chat_lines(monkeypatch, "My name is Ada.", "What is my name?")
    with serving([HELLO, KNOWN]) as server:
        ended = command(capsys, "chat", "--model", "test", "--base-url", server.url)
    assert (ended.code, ended.out, ended.err) == (0, "Hello, Ada.\nYour name is Ada.\n", "")
    assert "My name is Ada." in json.dumps(server.asked[1])


def test_options_of_run_apply(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chat_lines(monkeypatch, "What is 2 * 2?", "/tools", "/machine")
    (tmp_path / "mine.py").write_text(
        'def twice(number: int) -> int:\n    """Double."""\n    return 2 * number\n', encoding="utf-8"
    )
    file = tmp_path / "talk.jsonl"
    with serving([tool_call_text("twice", number=2)] * 3) as server:
        ended = command(
            capsys,
            *("chat", "--model", "test", "--base-url", server.url, "--memory", str(file), "--max-iterations", "1"),
            *("--tools", f"{tmp_path / 'mine.py'}:twice"),
        )
    assert ended.code == 3
    assert "twice(number: integer)" in ended.out
    assert "save_memory" in ended.out
    assert "allow more with /limits iterations=2" in ended.err
    assert len(FileHistory(file).turns()) == 1


MINE = """
from graphexec import AgentExecutor, create_agent, create_tool_calling_agent
from graphexec.cli.terminal import TextCleaner, clean
from graphexec.kernel.meters import Exhausted
from graphexec.memory import BufferMemory
from graphexec.models import ScriptedModel

model = ScriptedModel(["Hello, Ada.", "Your name is Ada."])
memory = BufferMemory(as_messages=True)
bare = create_agent(model, [], kind="tool_calling")
own = create_agent(model, [], kind="tool_calling", memory=memory)
formal = AgentExecutor(agent=create_tool_calling_agent(model, [], prompt="In {tongue}: {input}"), tools=[])
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE, encoding="utf-8")
    return file


def test_own_executor_gets_a_memory(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mine: Path, tmp_path: Path
) -> None:
    chat_lines(monkeypatch, "My name is Ada.", "What is my name?")
    file = tmp_path / "talk.jsonl"
    ended = command(capsys, "chat", f"{mine}:bare", "--memory", str(file), "--max-iterations", "4")
    assert (ended.code, ended.out, ended.err) == (0, "Hello, Ada.\nYour name is Ada.\n", "")
    assert FileHistory(file).turns()[1] == Turn("What is my name?", "Your name is Ada.")


def test_own_memory_stays(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mine: Path, tmp_path: Path
) -> None:
    chat_lines(monkeypatch, "My name is Ada.", "/machine")
    ended = command(capsys, "chat", f"{mine}:own")
    assert (ended.code, ended.err) == (0, "")
    assert "save_memory" in ended.out
    ended = command(capsys, "chat", f"{mine}:own", "--memory", str(tmp_path / "talk.jsonl"))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == f"graphexec: --memory: {mine}:own has its own memory; leave it out, or change {mine}:own\n"


def test_other_inputs_come_with_each_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, mine: Path
) -> None:
    chat_lines(monkeypatch, "My name is Ada.", "What is my name?")
    ended = command(capsys, "chat", f"{mine}:formal", "--input", "tongue=Latin")
    assert (ended.code, ended.out, ended.err) == (0, "Hello, Ada.\nYour name is Ada.\n", "")
    ended = command(capsys, "chat", f"{mine}:formal")
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert "--input " in ended.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["What is 2+2?"],
            "'What is 2+2?' is not an executor such as my_agent.py:executor; write messages at the prompt",
        ),
        (["hello"], "'hello' is not an executor such as my_agent.py:executor; write messages at the prompt"),
        (["mine.py:bare", "hello"], "; write messages at the prompt of the chat"),
        (["nowhere.py"], "there is no file nowhere.py"),
        (["nowhere.py:executor"], "there is no file nowhere.py"),
        (["graphexec.tools:Tool"], "name an executor"),
        (["--model", "local", "mine.py:bare"], "--model does not apply to mine.py:bare, which has its own model"),
    ],
)
def test_wrong_target_is_one_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    mine: Path,
    arguments: list[str],
    expected: str,
) -> None:
    monkeypatch.chdir(mine.parent)
    ended = command(capsys, "chat", *arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert expected in ended.err


def test_error_names_the_option_for_memory(capsys: pytest.CaptureFixture[str]) -> None:
    ended = command(capsys, "chat", "--session", "talk")
    assert (ended.code, ended.err) == (
        2,
        "graphexec: No such option: --session; write --memory FILE; see graphexec chat --help\n",
    )


def test_wrong_usage_exits_2(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chat_lines(monkeypatch)
    ended = command(capsys, "chat", "--agent", "react", "--memory", "talk.jsonl")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("graphexec: --memory is not for the react agent")


def test_missing_key_is_reported_before_the_first_message(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_lines(monkeypatch, "one", "two")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    ended = command(capsys, "chat", "--model", "anthropic:claude-sonnet-4-5")
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "ANTHROPIC_API_KEY" in ended.err


def test_no_input_is_no_turn(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    chat_lines(monkeypatch)
    with serving([]) as server:
        ended = command(capsys, "chat", "--model", "test", "--base-url", server.url)
    assert (ended.code, ended.out, ended.err) == (0, "", "")


def test_failing_model_does_not_end_the_chat(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_lines(monkeypatch, "one", "two")
    ended = command(capsys, "chat", "--model", "test", "--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.count("graphexec: ") == 2
