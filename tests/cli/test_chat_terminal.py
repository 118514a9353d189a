"""The command `chat` on a real terminal: prompts, line editing, Ctrl-C and Ctrl-D."""

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from graphexec.cli.runs.options import CONVERSATION
from graphexec.memory import SQLiteHistory
from tests.cli.conversations import Conversation, Reply, Silence, answer_text, serving, tool_call_text
from tests.cli.terminals import ARGUMENTS, PATIENCE, environment
from tests.parameters import cases

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")]

PROMPT = "> "
# Seconds until a person presses Ctrl-C again.
AGAIN = 3.0
# Makes the standard input the terminal that sends Ctrl-C, and becomes the program.
TAKE = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
# Styles, cursor movements, and the mode of pasting.
SEQUENCES = re.compile(r"\x1b\[[0-?]*[@-~]")


class TerminalSession:
    """A program on a terminal of its own: `type` presses keys, `until` waits for text after what was seen before."""

    def __init__(self, *arguments: str, **more: str) -> None:
        master, slave = os.openpty()
        self._master = master
        self._seen = 0
        self._read = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", TAKE, *ARGUMENTS, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env=environment(**{"TERM": "xterm", "COLUMNS": "200", "PROMPT_TOOLKIT_NO_CPR": "1", **more}),
        )
        os.close(slave)

    @property
    def screen(self) -> str:
        """The text that was printed, without escape sequences."""
        # A blank at the end of a line is a move of the cursor.
        text = SEQUENCES.sub("", self._read.decode("utf-8", "replace").replace("\x08\x1b[2C", " "))
        return text.replace("\r\n", "\n")

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, text: str) -> str:
        """Wait for the text, and return what came before it since the last call."""
        ends = time.monotonic() + PATIENCE
        while (found := self.screen.find(text, self._seen)) < 0:
            assert time.monotonic() < ends, f"{text!r} was not printed, but {self.screen[self._seen :]!r}"
            assert self._pump(), f"the program ended before {text!r}, after {self.screen[self._seen :]!r}"
        before, self._seen = self.screen[self._seen : found], found + len(text)
        return before

    def interrupt_until(self, text: str) -> None:
        """Press Ctrl-C, and once more if need be: Python misses a signal that comes just before it begins to wait."""
        for _ in range(5):
            self.type("\x03")
            ends = time.monotonic() + AGAIN
            while (left := ends - time.monotonic()) > 0 and select.select([self._master], [], [], left)[0]:
                assert self._pump(), f"the program ended before {text!r}"
                if text in self.screen[self._seen :]:
                    self.until(text)
                    return
        raise AssertionError(f"{text!r} was not printed, but {self.screen[self._seen :]!r}")

    def end(self) -> int:
        while self._pump():
            pass
        return self.process.wait(PATIENCE)

    def leave(self, keys: str) -> None:
        self.type(keys)
        assert self.end() == 0

    def close(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self._master)

    def _pump(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], PATIENCE)
        assert ready, f"nothing was printed after {self.screen[-200:]!r}"
        try:
            read = os.read(self._master, 65536)
        except OSError:
            # Linux: the program has closed the terminal.
            return False
        self._read += read
        return bool(read)


@contextmanager
def chatting(replies: list[Reply], *arguments: str, **more: str) -> Generator[tuple[TerminalSession, Conversation]]:
    """A chat with a server that gives these replies."""
    with serving(replies) as server:
        session = TerminalSession("chat", "--model", "test", "--base-url", server.url, *arguments, **more)
        try:
            yield session, server
        finally:
            session.close()


def test_conversation_with_commands(tmp_path: Path) -> None:
    file = tmp_path / "talk.db"
    replies = [tool_call_text("calculator", expression="2 * 2"), answer_text("It is 4."), answer_text("Still 4.")]
    with chatting([*replies], "--memory", str(file)) as (chat, _):
        chat.until("write a message, or /help. Ctrl-D leaves.")
        chat.until(PROMPT)
        chat.type("What is 2 * 2?\r")
        chat.until('calculator(expression="2 * 2") \N{RIGHTWARDS ARROW} 4\n')
        chat.until("It is 4.\n")
        chat.until(PROMPT)
        chat.type("/mach\t")
        chat.until("/machine")
        chat.type("\r")
        assert "plan" in chat.until("Proved: every run ends")
        chat.until(PROMPT)
        # The arrow up brings earlier lines back.
        chat.type("\x1b[A\x1b[A")
        chat.until("What is 2 * 2?")
        chat.type("\r")
        chat.until("Still 4.\n")
        chat.until(PROMPT)
        chat.leave("\x04")
    turns = SQLiteHistory(file, conversation=CONVERSATION).turns()
    assert [turn.input for turn in turns] == ["What is 2 * 2?"] * 2
    with chatting([], "--memory", str(file)) as (chat, _):
        chat.until("remembers turns: 2; write a message")
        chat.until(PROMPT)
        chat.leave("/quit\r")


def test_ctrl_c_interrupts_the_answer_and_not_the_chat() -> None:
    with chatting([Silence(), answer_text("Here.")]) as (chat, server):
        chat.until(PROMPT)
        chat.type("Are you there?\r")
        assert server.waiting.wait(PATIENCE)
        chat.interrupt_until("after 0 steps\n")
        chat.until(PROMPT)
        chat.type("half a line")
        chat.until("half a line")
        chat.type("\x03")
        chat.until("(Ctrl-D or /quit leaves)\n")
        chat.until(PROMPT)
        chat.type("And now?\r")
        chat.until("Here.\n")
        chat.until(PROMPT)
        chat.leave("\x04")
    assert "Are you there?" not in str(server.asked[1])
    assert "half a line" not in str(server.asked[1])


@cases("more", {"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}, {"NO_COLOR": "1"}, {"TERM": "dumb"})
def test_plain_terminals(more: dict[str, str]) -> None:
    with chatting([answer_text("caf\N{LATIN SMALL LETTER E WITH ACUTE}")], **more) as (chat, server):
        chat.until(PROMPT)
        for line, printed in (("na\u00efve", "caf"), ("/limits", "this is proved"), ("/machine", "Proved")):
            chat.type(f"{line}\r")
            chat.until(printed)
            chat.until(PROMPT)
        # A dumb terminal has no Ctrl-D.
        chat.leave("/quit\r")
        assert "Traceback" not in chat.screen
    assert server.asked[0]["messages"][-1]["content"].endswith("na\u00efve")


@cases("waits", True, False)
def test_sigterm_ends_the_chat(waits: bool) -> None:
    with chatting([Silence()]) as (chat, server):
        chat.until(PROMPT)
        if waits:
            chat.type("Are you there?\r")
            assert server.waiting.wait(PATIENCE)
        chat.process.terminate()
        chat.until("Terminated by SIGTERM" if waits else "SIGTERM")
        assert chat.end() == 143


def test_bytes_from_a_pipe_are_utf_8_in_any_locale() -> None:
    with serving([answer_text("One."), answer_text("Two.")]) as server:
        ended = subprocess.run(
            [*ARGUMENTS, "chat", "--model", "test", "--base-url", server.url],
            input="\ufeffna\u00efve\n".encode() + b"\xff\xfe\x00\n",
            capture_output=True,
            check=False,
            env=environment(LC_ALL="C", PYTHONUTF8="0", PYTHONIOENCODING="ascii"),
            timeout=PATIENCE,
        )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"One.\nTwo.\n", b"")
    assert server.asked[0]["messages"][-1]["content"].endswith("na\u00efve")
    assert "\ufffd\ufffd\x00" in server.asked[1]["messages"][-1]["content"]


def test_no_standard_input_is_no_turn() -> None:
    # A server, because the weights of the local model may not have been downloaded yet, of which one is told.
    with serving([]) as server:
        chat = [*ARGUMENTS, "chat", "--model", "test", "--base-url", server.url]
        closed = ["sh", "-c", 'exec "$@" <&-', "sh", *chat]
        ended = subprocess.run(closed, capture_output=True, check=False, env=environment(), timeout=PATIENCE)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")
