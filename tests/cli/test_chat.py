"""The command `chat`: turns with memory, streaming, slash commands, and input from a pipe."""

import contextlib
import io
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import graphexec as gx
from graphexec.cli.chat.command import converse, prompt
from graphexec.cli.chat.session import COMMANDS, Chat
from graphexec.cli.exit_codes import UsageError
from graphexec.cli.runs.building import NamedExecutor
from graphexec.cli.runs.options import CONVERSATION
from graphexec.cli.terminal import TextCleaner, clean
from graphexec.memory import BufferMemory, SQLiteHistory, Turn
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
        out: io.StringIO | None = None,
    ) -> None:
        self.model = model or Streaming(replies)
        agent = gx.create_structured_agent(self.model, [double], rules=())
        self.executor = executor or gx.AgentExecutor(agent=agent, tools=[double], handle_parsing_errors=True)
        self.out, self.err = out or io.StringIO(), io.StringIO() if out is None else Terminal()
        self.chat = Chat(NamedExecutor(self.executor, "scripted", "structured"), file, {}, debug=False)

    def say(self, *lines: str | BaseException, interactive: bool = False) -> int:
        """Answer lines as from a pipe, or as a person's, and return the exit code."""
        left = iter(lines)

        def read() -> str:
            line = next(left)
            if isinstance(line, BaseException):
                raise line
            return line

        with contextlib.redirect_stdout(self.out), contextlib.redirect_stderr(self.err):
            return converse(self.chat, read, interactive=interactive)

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


def turns_in(file: Path) -> tuple[Turn, ...]:
    return SQLiteHistory(file, conversation=CONVERSATION).turns()


def inputs_in(file: Path) -> list[str]:
    return [turn.input for turn in turns_in(file)]


HELLO, KNOWN = answer_text("Hello, Ada."), answer_text("Your name is Ada.")
LONG = answer_text("A somewhat longer answer.")
DOUBLED = [tool_call_text("double", number=2), answer_text("It is 4.")]


def test_next_turn_knows_the_earlier_ones(tmp_path: Path) -> None:
    session = Session([HELLO, KNOWN], out=Pieces())
    assert session.say("My name is Ada.", "What is my name?") == 0
    assert session.out.getvalue() == "Hello, Ada.\nYour name is Ada.\n"
    assert "My name is Ada." in session.requested(1)
    assert "Hello, Ada." in session.requested(1)
    file = tmp_path / "talk.db"
    Session([HELLO], file=file).say("My name is Ada.")
    assert turns_in(file) == (Turn("My name is Ada.", "Hello, Ada."),)
    session = Session([KNOWN], file=file)
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
    assert Session(executor=executor).chat.memory is None
    with pytest.raises(UsageError, match="--memory is not for the react agent"):
        Session(executor=executor, file=tmp_path / "talk.db")
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


def test_pipe_receives_whole_answers_alone() -> None:
    session = Session(DOUBLED)
    assert session.say("What is 2 * 2?") == 0
    assert (session.out.getvalue(), session.notes) == ("It is 4.\n", "  double(number=2) → 4")


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


def test_failed_turn_leaves_no_trace_in_the_memory(tmp_path: Path) -> None:
    file = tmp_path / "talk.db"
    session = Session([HELLO, ValueError("out of order"), KNOWN], file=file)
    assert session.say("My name is Ada.", "This fails.", "What is my name?") == 1
    assert session.notes.startswith("graphexec: ValueError: out of order (test_chat.py, line ")
    assert "This fails." not in session.requested(2)
    assert inputs_in(file) == ["My name is Ada.", "What is my name?"]


def test_ctrl_c_interrupts_the_answer_and_not_the_chat(tmp_path: Path) -> None:
    file = tmp_path / "talk.db"
    session = Session([KeyboardInterrupt(), KNOWN], file=file, out=Pieces())
    assert session.say("Say it.", KeyboardInterrupt(), "And now?", "/quit", "never read", interactive=True) == 0
    assert session.out.getvalue() == "Your name is Ada.\n"
    assert "after 0 steps\n(Ctrl-D or /quit leaves)\n" in session.notes
    assert inputs_in(file) == ["And now?"]
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
    session.say("What is it?", "Again.", interactive=True)
    first, second = out.getvalue().splitlines()
    assert "A somewhat longer answer.".startswith(first)
    assert second == "Your name is Ada."
    assert "What is it?" not in session.requested(1)


def test_turns_that_cannot_be_stored_are_reported(tmp_path: Path) -> None:
    session = Session([HELLO, KNOWN], file=tmp_path / "talk.db")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteHistory, "add", refuse)
        assert session.say("one") == 1
    assert session.out.getvalue() == "Hello, Ada.\n"
    assert "this turn is not remembered" in session.notes
    assert session.say("two") == 0
    file = tmp_path / "talk.db"
    session = Session([HELLO, KNOWN], file=file)
    assert session.say("one") == 0
    file.write_text("no turn\n" * 99, encoding="utf-8")
    assert session.say("two") == 2
    assert session.notes.startswith(f"graphexec: {file} is not an SQLite database: ")
    file.unlink()
    assert session.say("two") == 0


def test_lines_are_empty_or_begin_with_two_slashes() -> None:
    session = Session([HELLO, HELLO])
    assert session.say("", "   ", "Hello", "") == 0
    assert len(session.model.requests) == 1
    assert session.say("//etc/hosts is a file") == 0
    assert "/etc/hosts is a file" in session.requested(1)
    assert "//etc" not in session.requested(1)


def test_prompt_takes_pasted_lines_and_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "talk.db"
    Session([HELLO], file=file).say("My name is Ada.")
    chat = Session(file=file).chat
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setattr("sys.stderr", err := io.StringIO())
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        read = prompt(chat, "scripted")
        keys.send_text("\x1b[200~one\ntwo\x1b[201~\r")
        assert read() == "one\ntwo"
        keys.send_text("half a line\x03")
        with pytest.raises(KeyboardInterrupt):
            read()
        keys.send_text("\x04")
        with pytest.raises(EOFError):
            read()
    assert "scripted, remembers turns: 1; write a message" in err.getvalue()


# ---- slash commands


def test_machine_is_drawn_with_its_proof() -> None:
    session = Session()
    session.say("/machine")
    assert "│ plan " in session.out.getvalue()
    assert "Proved: every run ends" in session.out.getvalue()


@pytest.mark.medium
def test_pages_are_written(tmp_path: Path) -> None:
    session = Session([HELLO])
    assert session.say("/page") == 2
    assert session.notes == "graphexec: /page: there is no run yet; ask something first"
    file = tmp_path / "my run.html"
    assert session.say("My name is Ada.", f"/page {file}", "/page") == 0
    _, path, other = session.out.getvalue().splitlines()
    assert Path(path) == file
    temporary = Path(other)
    try:
        assert temporary.stat().st_mode & 0o777 == 0o600
        for page in (file, temporary):
            assert "My name is Ada." in unpack_page(page.read_text(encoding="utf-8"))
    finally:
        temporary.unlink()


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
    ("model_calls=7 tool_calls=2", "tool_calls", "2"),
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
    ("iteration=5", "iteration is not a limit of this machine; did you mean iterations?"),
    ("iterations", "iterations has no value"),
    ("iterations=many", "the limit iterations is 'many'; pass a number, or none for no limit"),
    ("iterations=none", "a run may not end; set a limit"),
    ("iterations=-1", "iterations"),
    ("seconds=nan", "seconds"),
)
def test_invalid_limits_change_nothing(assignment: str, error: str) -> None:
    session = Session()
    before = session.chat.executor
    assert session.say(f"/limits {assignment}") == 2
    assert session.chat.executor is before
    assert (session.err.getvalue().count("\n"), error in session.notes) == (1, True)


def test_help_tools_clear_and_quit(tmp_path: Path) -> None:
    session = Session()
    assert session.say("/help") == 0
    assert [line.split()[0] for line in session.out.getvalue().splitlines()[1:]] == [*COMMANDS]
    session = Session()
    assert session.say("/tools") == 0
    assert session.out.getvalue().splitlines()[1].split("  ")[:2] == ["double(number: integer)", "Double a number."]
    session = Session()
    assert (session.say("/quit", "never asked"), session.model.requests) == (0, [])
    file = tmp_path / "talk.db"
    session = Session([HELLO, KNOWN], file=file)
    assert session.say("My name is Ada.", "/clear", "What is my name?") == 0
    assert "My name is Ada." not in session.requested(1)
    assert session.notes == "The conversation is forgotten"
    assert len(inputs_in(file)) == 1


# Without /page, which writes files, and /quit.
@given(st.sampled_from(["/limits", "/tools", "/machine", "/help", "/clear", "/"]), st.text())
def test_no_command_raises(name: str, rest: str) -> None:
    session = Session()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        code = session.chat.answer(f"{name}{rest}")
    assert (code == 0) == (not errors.getvalue().startswith("graphexec: "))
    assert errors.getvalue().count("\n") <= 1
    assert code in (0, 2) or rest.startswith("/")


@cases(
    ("line", "error"),
    ("/machin", "there is no command /machin; did you mean /machine?"),
    ("/etc/passwd is what?", "two slashes"),
    ("/", "two slashes"),
    ("/quit now", "two slashes"),
    ("/machine x", "two slashes"),
)
def test_wrong_command_asks_no_model(line: str, error: str) -> None:
    session = Session()
    assert session.say(line) == 2
    assert (session.err.getvalue().count("\n"), error in session.notes) == (1, True)
    assert session.model.requests == []


@cases("columns", "20", "40", "60")
def test_narrow_terminals_lose_nothing(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    session = Session(DOUBLED, out=Pieces())
    assert session.say("What is 2 * 2?", "/tools", "/limits", "/help") == 0
    assert "It is 4." in session.printed
    names = {"iterations", "model_calls", "tool_calls", "nested_runs", "transitions"}
    assert columns != "60" or names <= {*session.printed.split()}


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
    mine, file = tmp_path / "mine.py", tmp_path / "talk.db"
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
    file = tmp_path / "talk.db"
    ended = chat(monkeypatch, TALK, f"{mine}:bare", "--memory", str(file), "--max-iterations", "4")
    assert ended == Ended(0, TALKED, "")
    assert turns_in(file)[1] == Turn("What is my name?", "Your name is Ada.")
    ended = chat(monkeypatch, ["My name is Ada.", "/machine"], f"{mine}:own")
    assert (ended.code, ended.err) == (0, "")
    assert "save_memory" in ended.out
    error = f"graphexec: --memory: {mine}:own has its own memory; leave it out, or change {mine}:own\n"
    assert command("chat", f"{mine}:own", "--memory", str(tmp_path / "talk.db")) == Ended(2, "", error)
    assert chat(monkeypatch, TALK, f"{mine}:formal", "--input", "tongue=Latin") == Ended(0, TALKED, "")
    assert "--input " in refused("chat", f"{mine}:formal")


@cases(
    ("arguments", "expected"),
    (["hello"], "there is no module hello here"),
    (["mine.py:bare", "hello"], "(hello); see graphexec chat --help\n"),
    (["nowhere.py"], "there is no file nowhere.py"),
    (["nowhere.py:executor"], "there is no file nowhere.py"),
    (["graphexec.tools:Tool"], "name an AgentExecutor"),
    (["--model", "local", "mine.py:bare"], "mine.py:bare has settings of its own; leave out --model"),
    (["--session", "talk"], "No such option: --session; see graphexec chat --help\n"),
    (["--agent", "react", "--memory", "talk.db"], "--memory is not for the react agent"),
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
