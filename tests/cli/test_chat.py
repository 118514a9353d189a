"""The command `chat`: turns with memory, streaming, slash commands, and input from a pipe."""

import contextlib
import io
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import graphexec as gx
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
from graphexec.memory import BufferMemory, FileHistory, Turn
from graphexec.messages import ModelReply, ModelRequest, ReplyDelta, ToolCall
from graphexec.models import ScriptedModel
from tests.cli.conversations import answer_text, serving, tool_call_text
from tests.cli.terminals import PATIENCE, Ended, Terminal, command, refused
from tests.cli.traced import double
from tests.parameters import cases, read_tables
from tests.traces import unpack_page

PROGRAMS = read_tables(__file__)


class Pieces(Terminal):
    """A terminal; `writes` are the pieces that it received, and `on_write` is called after each."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.on_write: Callable[[], None] = lambda: None

    def write(self, text: str, /) -> int:
        self.writes.append(text)
        length = super().write(text)
        self.on_write()
        return length


class Streaming(ScriptedModel):
    """A scripted model whose replies come in pieces of five characters; it waits before the last for `may_end`."""

    @property
    def instant(self) -> bool:
        return False

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


class Session:
    """A chat with a scripted model, and what it has printed: `out` on a terminal, or in a file."""

    def __init__(
        self,
        replies: Sequence[Any] = (),
        *,
        file: Path | None = None,
        model: Streaming | None = None,
        executor: gx.AgentExecutor | None = None,
        quiet: bool = False,
        out: io.StringIO | None = None,
    ) -> None:
        self.model = model or Streaming(replies)
        agent = gx.create_structured_agent(self.model, [double], rules=())
        self.executor = executor or gx.AgentExecutor(agent=agent, tools=[double], handle_parsing_errors=True)
        self.out, self.err = out or io.StringIO(), io.StringIO() if out is None else Terminal()
        named = NamedExecutor(self.executor, "scripted", "structured")
        self.chat = Chat(named, make_earlier_turns(self.executor, file), self.out, self.err, quiet=quiet)

    def say(self, *lines: str) -> int:
        """Answer lines as from a pipe, and return the exit code."""
        return answer_lines(self.chat, reader_of(lines))

    @property
    def printed(self) -> str:
        return re.sub(r"\x1b\[[0-?]*[@-~]", "", self.out.getvalue())

    @property
    def notes(self) -> str:
        """The text beside the answers, without styles and trailing blanks."""
        plain = re.sub(r"\x1b\[[0-?]*[@-~]", "", self.err.getvalue())
        return "\n".join(line.rstrip() for line in plain.splitlines())

    def requested(self, number: int) -> str:
        return str(self.model.requests[number])


def reader_of(lines: Sequence[str | BaseException]) -> MessageReader:
    left = iter(lines)

    def read_line(_prompt: str) -> str:
        line = next(left, EOFError())
        if isinstance(line, BaseException):
            raise line
        return line

    return MessageReader(read_line)


def inputs_in(file: Path) -> list[str]:
    return [turn.input for turn in FileHistory(file).turns()]


HELLO, KNOWN = answer_text("Hello, Ada."), answer_text("Your name is Ada.")
LONG = answer_text("A somewhat longer answer.")
DOUBLED = [tool_call_text("double", number=2), answer_text("It is 4.")]


def test_next_turn_knows_the_earlier_ones(tmp_path: Path) -> None:
    session = Session([HELLO, KNOWN], out=Pieces())
    assert session.say("My name is Ada.", "What is my name?") == 0
    assert session.out.getvalue() == "Hello, Ada.\nYour name is Ada.\n"
    assert "My name is Ada." in session.requested(1)
    assert "Hello, Ada." in session.requested(1)
    file = tmp_path / "talk.jsonl"
    Session([HELLO], file=file).say("My name is Ada.")
    assert FileHistory(file).turns() == (Turn("My name is Ada.", "Hello, Ada."),)
    session = Session([KNOWN], file=file)
    assert session.chat.earlier.length == 1
    session.say("What is my name?")
    assert "My name is Ada." in session.requested(0)
    assert len(inputs_in(file)) == 2


def test_agents_remember_in_their_own_way(tmp_path: Path) -> None:
    model, memory = Streaming([HELLO, KNOWN]), BufferMemory(as_messages=True)
    executor = gx.AgentExecutor(agent=gx.create_tool_calling_agent(model, []), tools=[], memory=memory)
    session = Session(executor=executor)
    session.say("My name is Ada.", "What is my name?")
    assert [turn.input for turn in memory.history.turns()] == ["My name is Ada.", "What is my name?"]
    assert str(model.requests[1]).count("My name is Ada.") == 1
    session.say("/clear")
    assert memory.history.turns() == ()
    executor = gx.AgentExecutor(agent=gx.create_react_agent(ScriptedModel([]), [double]), tools=[double])
    assert make_earlier_turns(executor, None) == EarlierTurns("input")
    with pytest.raises(UsageError, match="--memory: the react agent takes no earlier messages; leave it out"):
        make_earlier_turns(executor, tmp_path / "talk.jsonl")
    seen: list[Mapping[str, Any]] = []

    def agent(_steps: object, inputs: dict[str, Any]) -> gx.AgentFinish:
        seen.append(inputs)
        return gx.AgentFinish({"output": "yes"}, "")

    session = Session(executor=gx.AgentExecutor(agent=agent, tools=[], max_iterations=3))
    assert session.say("one", "two") == 0
    assert seen[0] == {"input": "one", "chat_history": ()}
    assert [message.content for message in seen[1]["chat_history"]] == ["one", "yes"]


def test_answer_is_printed_while_it_comes() -> None:
    out = Pieces()
    Session([LONG], out=out).say("What is it?")
    assert len([one for one in out.writes if one.strip()]) > 3
    assert out.getvalue() == "A somewhat longer answer.\n"
    # The first piece comes before the last.
    seen, out = threading.Event(), Pieces()
    out.on_write = seen.set
    assert Session(model=Streaming([LONG], seen), out=out).say("What is it?") == 0
    assert out.getvalue() == "A somewhat longer answer.\n"
    call = ModelReply("Let me see what this is.", (ToolCall("1", "double", '{"number": 2}'),))
    agent = gx.create_tool_calling_agent(Streaming([call, "It is 4."]), [double])
    session = Session(executor=gx.AgentExecutor(agent=agent, tools=[double]), out=Pieces())
    session.say("What is 2 * 2?")
    assert session.out.getvalue() == "Let me see what this is.\nIt is 4.\n"
    session = Session([tool_call_text("double", number=10**80), answer_text("Long.")], out=Pieces())
    session.say("Double it.")
    [line] = [one for one in session.notes.splitlines() if "double(" in one]
    assert len(line) <= 80
    session = Session([answer_text("\x1b]0;title\x07\x1b[31mred\x1b[0m\u202e!")], out=Pieces())
    session.say("Hello")
    assert session.out.getvalue() == "red!\n"


@cases(("quiet", "notes"), (False, "  double(number=2) -> 4"), (True, ""))
def test_pipe_receives_whole_answers_alone(quiet: bool, notes: str) -> None:
    session = Session(DOUBLED, quiet=quiet)
    assert session.say("What is 2 * 2?") == 0
    assert (session.out.getvalue(), session.notes) == ("It is 4.\n", notes)


@given(st.lists(st.text("\x1b[]\x07\\m0;P(a b\r\n\x9b\x9d\x9c\x90\N{BULLET}", max_size=6), max_size=12))
def test_divided_sequences_are_removed(pieces: list[str]) -> None:
    cleaner = TextCleaner()
    cleaned = "".join(cleaner.clean(piece) for piece in pieces)
    assert clean("".join(pieces)) == cleaned


def test_stopped_run_says_which_limit_and_what_to_do() -> None:
    session = Session([*[tool_call_text("double", number=2)] * 2, answer_text("4 and 4.")])
    assert session.say("/limits iterations=1", "Double 2 twice.") == 3
    stopped = session.notes.splitlines()[-1]
    assert stopped.startswith("Stopped after 1 step: ")
    remedy = stopped.partition("; allow more with ")[2]
    assert remedy == "/limits iterations=2"
    assert session.say(remedy, "Go on.") == 0
    assert session.out.getvalue().endswith("4 and 4.\n")


@cases("limit", gx.Exhausted("tokens", 50, 110), gx.Exhausted("iterations", 0, 0), gx.Exhausted("cost", 0, 0))
def test_chat_and_run_advise_the_same_amount(limit: gx.Exhausted) -> None:
    err = io.StringIO()
    TurnDisplay(io.StringIO(), err).on_end(gx.StoppedResponse("", limit), RunProgress())
    advised = re.split("[ =]", advise_on_limit(limit))[-1]
    assert err.getvalue().endswith(f"; allow more with /limits {limit.limit}={advised}\n")


def test_failed_turn_leaves_no_trace_in_the_memory(tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    session = Session([HELLO, ValueError("out of order"), KNOWN], file=file)
    assert session.say("My name is Ada.", "This fails.", "What is my name?") == 1
    assert session.notes.startswith("graphexec: ValueError: out of order (test_chat.py, line ")
    assert "This fails." not in session.requested(2)
    assert inputs_in(file) == ["My name is Ada.", "What is my name?"]


def test_ctrl_c_interrupts_the_answer_and_not_the_chat(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "talk.jsonl"
    session = Session([KeyboardInterrupt(), KNOWN], file=file, out=Pieces())
    hold_chat(session.chat, reader_of(["Say it.", "And now?", "/quit", "never read"]))
    assert session.out.getvalue() == "Your name is Ada.\n"
    assert "Interrupted after 0 steps; this turn is not remembered" in session.notes
    assert inputs_in(file) == ["And now?"]
    session = Session([HELLO], out=Pieces())
    hold_chat(session.chat, reader_of([KeyboardInterrupt(), "Hello"]))
    assert session.out.getvalue() == "Hello, Ada.\n"
    assert "(Ctrl-D or /quit leaves)" in capsys.readouterr().err
    session = Session([KeyboardInterrupt(), HELLO])
    assert (session.say("one", "two"), session.out.getvalue()) == (130, "")


def test_ctrl_c_in_mid_answer_ends_the_line() -> None:
    out = Pieces()
    session = Session([LONG, KNOWN], out=out)

    def interrupt() -> None:
        if len(out.getvalue()) > 5:
            out.on_write = lambda: None
            raise KeyboardInterrupt

    out.on_write = interrupt
    hold_chat(session.chat, reader_of(["What is it?", "Again."]))
    first, second = out.getvalue().splitlines()
    assert "A somewhat longer answer.".startswith(first)
    assert second == "Your name is Ada."
    assert "What is it?" not in session.requested(1)


def test_turns_that_cannot_be_stored_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session([HELLO, KNOWN], file=tmp_path / "talk.jsonl")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileHistory, "add", refuse)
        assert session.say("one") == 1
    assert session.out.getvalue() == "Hello, Ada.\n"
    assert "this turn is not remembered" in capsys.readouterr().err
    assert session.say("two") == 0
    file = tmp_path / "talk.jsonl"
    session = Session([HELLO, KNOWN], file=file)
    assert session.say("one") == 0
    file.write_text("no turn\n", encoding="utf-8")
    assert session.say("two") == 2
    assert capsys.readouterr().err.startswith(f"graphexec: {file}, line 1, is not a turn: ")
    assert session.say("/clear", "two") == 0


@cases(
    ("lines", "messages"),
    (["one", "", "  two  "], ["one", "", "two"]),
    (["one \\", "two\\", "three", "four"], ["one \ntwo\nthree", "four"]),
    (["one \\"], ["one"]),
    (['"""', "  one", "", "two", '"""', "three"], ["one\n\ntwo", "three"]),
    (['"""one"""', "two"], ["one", "two"]),
    (['"""one', 'two"""'], ["one\ntwo"]),
    (['"""one', "two"], ["one\ntwo"]),
    ([], []),
)
def test_messages_of_several_lines(lines: list[str], messages: list[str]) -> None:
    assert list(iter(reader_of(lines).read, None)) == messages


def test_lines_are_empty_or_begin_with_two_slashes() -> None:
    session = Session([HELLO, HELLO])
    assert session.say("", "   ", "Hello", "") == 0
    assert len(session.model.requests) == 1
    assert session.say("//etc/hosts is a file") == 0
    assert "/etc/hosts is a file" in session.requested(1)
    assert "//etc" not in session.requested(1)


# ---- slash commands


@cases(("encoding", "line"), ("utf-8", "│ plan "), ("ascii", "| plan "))
def test_machine_is_drawn_with_its_proof(encoding: str, line: str) -> None:
    session, drawn = Session(), io.BytesIO()
    session.chat.out = io.TextIOWrapper(drawn, encoding, write_through=True)
    assert session.say("/machine") == 0
    text = drawn.getvalue().decode(encoding)
    assert line in text
    assert "Proved: every run ends" in text


@pytest.mark.medium
def test_pages_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session([HELLO])
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
            assert "My name is Ada." in unpack_page(page.read_text(encoding="utf-8"))
    finally:
        temporary.unlink()
    visited: list[str] = []
    monkeypatch.setattr("webbrowser.open", visited.append)
    Session([HELLO]).say("Hello", f"/page {tmp_path / 'run.html'} --open")
    assert visited == [(tmp_path / "run.html").as_uri()]
    session, printed = Session([HELLO]), io.BytesIO()
    session.chat.out = io.TextIOWrapper(printed, encoding="ascii", errors="backslashreplace")
    page = tmp_path / "größe.html"
    assert session.say("Hello", f"/page {page}") == 0
    assert os.fsdecode(printed.getvalue()).splitlines()[-1] == str(page)


@pytest.mark.medium
@cases(("reply", "reason"), (ValueError("broken"), "broken"), (KeyboardInterrupt(), "interrupted"))
def test_page_shows_a_run_that_failed(tmp_path: Path, reply: BaseException, reason: str) -> None:
    session, page = Session([reply]), tmp_path / "run.html"
    session.say("Hello")
    assert session.say(f"/page {page}") == 0
    assert reason in unpack_page(page.read_text(encoding="utf-8"))


def test_limits_show_proof_and_spending() -> None:
    session = Session(DOUBLED)
    assert session.say("What is 2 * 2?", "/limits") == 0
    rows = {" ".join(line.split()) for line in session.out.getvalue().splitlines()}
    assert rows >= {
        *("iterations 15 2", "model_calls none iterations = 15 (exact) 2"),
        "tool_calls none iterations = 15 (exact) 1",
    }
    assert "Every run ends: this is proved." in session.out.getvalue()


@cases(
    ("assignment", "name", "value"),
    ("iterations=5", "iterations", "5"),
    ("model_calls=7", "model_calls", "7"),
    ("--max-tool-calls=2", "tool_calls", "2"),
    ("seconds=1.5", "seconds", "1.5"),
    ("depth=none", "depth", "none"),
)
def test_limits_can_be_changed(assignment: str, name: str, value: str) -> None:
    session = Session([HELLO])
    assert session.say(f"/limits {assignment}") == 0
    [line] = [one for one in session.out.getvalue().splitlines() if one.startswith(f"{name} ")]
    assert line.split()[1] == value
    assert session.say("Hello") == 0


@cases(
    ("assignment", "error"),
    ("iteration=5", "/limits: there is no limit iteration; did you mean iterations?"),
    ("iterations", "/limits: iterations needs a number; write iterations=10, or iterations=none for no limit"),
    ("iterations=many", "/limits: iterations needs a number; write iterations=10"),
    ("iterations=none", "/limits: with these limits it is not proved that every run ends, so nothing was changed"),
    ("iterations=-1", "iterations"),
    ("seconds=nan", "seconds"),
    ("iterations='5", "/limits: No closing quotation; close the quotes"),
)
def test_invalid_limits_change_nothing(capsys: pytest.CaptureFixture[str], assignment: str, error: str) -> None:
    session = Session()
    before = session.chat.executor
    assert session.say(f"/limits {assignment}") == 2
    assert session.chat.executor is before
    printed = capsys.readouterr().err
    assert (printed.count("\n"), printed.startswith("graphexec: "), error in printed) == (1, True, True)


def test_help_tools_clear_and_quit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = Session()
    assert session.say("/help") == 0
    assert [line.split()[0] for line in session.out.getvalue().splitlines()[: len(COMMANDS)]] == list(COMMANDS)
    assert {*COMMANDS} >= {"/machine", "/page", "/limits", "/tools", "/clear", "/quit"}
    session = Session()
    assert session.say("/tools") == 0
    lines = [line.strip() for line in session.out.getvalue().splitlines()]
    assert lines == ["double(number: integer)", "Double a number."]
    session = Session()
    assert (session.say("/quit", "never asked"), session.model.requests) == (0, [])
    file = tmp_path / "talk.jsonl"
    session = Session([HELLO, KNOWN], file=file)
    assert session.say("My name is Ada.", "/clear", "What is my name?") == 0
    assert "My name is Ada." not in session.requested(1)
    assert capsys.readouterr().err == f"The conversation is forgotten; {file} is empty\n"
    assert len(inputs_in(file)) == 1


@cases(
    ("line", "meant"),
    ("/machin", "/machine"),
    ("/tool", "/tools"),
    ("/exit", "/quit"),
    ("/new", "/clear"),
    ("/?", "/help"),
    ("/graph now", "/machine"),
)
def test_unknown_command_has_a_suggestion(capsys: pytest.CaptureFixture[str], line: str, meant: str) -> None:
    assert Session().say(line) == 2
    error = f"graphexec: there is no command {line.partition(' ')[0]}; did you mean {meant}?\n"
    assert capsys.readouterr().err == error


# Without /page, which writes files, and /quit.
@given(st.sampled_from(["/limits", "/tools", "/machine", "/help", "/clear", "/"]), st.text())
def test_no_command_raises(name: str, rest: str) -> None:
    session = Session()
    line = f"{name}{rest}"
    with contextlib.redirect_stderr(io.StringIO()) as errors:
        code = run_command(session.chat, line)
    assert (code == 0) == (not errors.getvalue().startswith("graphexec: "))
    assert errors.getvalue().count("\n") <= 1
    assert code in (0, 2)


@cases("line", "/etc/passwd is what?", "/", "/quit now", "/machine x")
def test_wrong_command_asks_no_model(capsys: pytest.CaptureFixture[str], line: str) -> None:
    session = Session()
    assert session.say(line) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "two slashes" in error
    assert session.model.requests == []


@cases("columns", "20", "40", "60")
def test_narrow_terminals_lose_nothing(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    session = Session(DOUBLED, out=Pieces())
    assert session.say("What is 2 * 2?", "/tools", "/limits", "/help") == 0
    assert "It is 4." in session.printed
    assert "doublenumber" in re.sub(r"[\s(]", "", session.printed)
    names = {"iterations", "model_calls", "tool_calls", "nested_runs", "transitions"}
    assert columns == "20" or names <= {*session.printed.split()}


# ---- the command


def chat(monkeypatch: pytest.MonkeyPatch, lines: Sequence[str], *arguments: str) -> Ended:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    return command("chat", *arguments)


TALK, TALKED = ["My name is Ada.", "What is my name?"], "Hello, Ada.\nYour name is Ada.\n"


def test_piped_lines_are_turns_with_the_options_of_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with serving([HELLO, KNOWN]) as server:
        ended = chat(monkeypatch, TALK, "--model", "test", "--base-url", server.url)
        assert chat(monkeypatch, [], "--model", "test", "--base-url", server.url) == Ended(0, "", "")
    assert ended == Ended(0, TALKED, "")
    assert "My name is Ada." in json.dumps(server.asked[1])
    assert len(server.asked) == 2
    mine, file = tmp_path / "mine.py", tmp_path / "talk.jsonl"
    mine.write_text('def twice(number: int) -> int:\n    """Double."""\n    return 2 * number\n', encoding="utf-8")
    options = ("--memory", str(file), "--max-iterations", "1", "--tools", f"{mine}:twice")
    with serving([tool_call_text("twice", number=2)] * 3) as server:
        address = ("--model", "test", "--base-url", server.url)
        ended = chat(monkeypatch, ["What is 2 * 2?", "/tools", "/machine"], *address, *options)
    assert ended.code == 3
    assert "twice(number: integer)" in ended.out
    assert "save_memory" in ended.out
    assert "allow more with /limits iterations=2" in ended.err
    assert len(inputs_in(file)) == 1


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(PROGRAMS["mine"], encoding="utf-8")
    return file


def test_own_executors_keep_or_get_a_memory(monkeypatch: pytest.MonkeyPatch, mine: Path, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    ended = chat(monkeypatch, TALK, f"{mine}:bare", "--memory", str(file), "--max-iterations", "4")
    assert ended == Ended(0, TALKED, "")
    assert FileHistory(file).turns()[1] == Turn("What is my name?", "Your name is Ada.")
    ended = chat(monkeypatch, ["My name is Ada.", "/machine"], f"{mine}:own")
    assert (ended.code, ended.err) == (0, "")
    assert "save_memory" in ended.out
    error = f"graphexec: --memory: {mine}:own has its own memory; leave it out, or change {mine}:own\n"
    assert command("chat", f"{mine}:own", "--memory", str(tmp_path / "talk.jsonl")) == Ended(2, "", error)
    assert chat(monkeypatch, TALK, f"{mine}:formal", "--input", "tongue=Latin") == Ended(0, TALKED, "")
    assert "--input " in refused("chat", f"{mine}:formal")


NOT_TARGET = "is not an executor such as my_agent.py:executor; write messages at the prompt"


@cases(
    ("arguments", "expected"),
    (["What is 2+2?"], f"'What is 2+2?' {NOT_TARGET}"),
    (["hello"], f"'hello' {NOT_TARGET}"),
    (["mine.py:bare", "hello"], "; write messages at the prompt of the chat"),
    (["nowhere.py"], "there is no file nowhere.py"),
    (["nowhere.py:executor"], "there is no file nowhere.py"),
    (["graphexec.tools:Tool"], "name an executor"),
    (["--model", "local", "mine.py:bare"], "--model does not apply to mine.py:bare, which has its own model"),
    (["--session", "talk"], "No such option: --session; write --memory FILE; see graphexec chat --help\n"),
    (["--agent", "react", "--memory", "talk.jsonl"], "--memory is not for the react agent"),
)
def test_wrong_usage_is_one_line(mine: Path, arguments: list[str], expected: str) -> None:
    with contextlib.chdir(mine.parent):
        error = refused("chat", *arguments)
    assert error.startswith("graphexec: ")
    assert expected in error


def test_errors_of_models_end_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    ended = chat(monkeypatch, ["one", "two"], "--model", "anthropic:claude-sonnet-4-5")
    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "ANTHROPIC_API_KEY" in ended.err
    nowhere = ("--base-url", "http://127.0.0.1:9/v1", "--retries", "0")
    ended = chat(monkeypatch, ["one", "two"], "--model", "test", *nowhere)
    assert (ended.code, ended.out, ended.err.count("graphexec: ")) == (1, "", 2)
