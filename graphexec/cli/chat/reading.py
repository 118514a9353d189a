"""Messages from the keyboard, a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TextIO

# The prompts of a message, and of its further lines.
_PROMPT, _MORE = "> ", "... "
# A message of several lines stands between two of these.
_QUOTES = '"""'


class MessageReader:
    r"""Reads messages with `read_line(prompt)`, which raises `EOFError` at the end, as `input` does.

    A message is a line. One that ends with a backslash continues on the next line, and one that begins with three
    double quotes ends with the line that ends with them.
    """

    def __init__(self, read_line: Callable[[str], str]) -> None:
        self._read_line = read_line

    def read(self) -> str | None:
        """Return the next message, which may be empty, or `None` at the end."""
        try:
            line = self._read_line(_PROMPT)
        except EOFError:
            return None
        if line.lstrip().startswith(_QUOTES):
            return self._read_quoted(line.lstrip().removeprefix(_QUOTES))
        lines: list[str] = []
        while line.endswith("\\"):
            lines.append(line[:-1])
            try:
                line = self._read_line(_MORE)
            except EOFError:
                line = ""
        return "\n".join([*lines, line]).strip()

    def _read_quoted(self, line: str) -> str:
        lines: list[str] = []
        while not line.rstrip().endswith(_QUOTES):
            lines.append(line)
            try:
                line = self._read_line(_MORE)
            except EOFError:
                return "\n".join(lines).strip()
        return "\n".join([*lines, line.rstrip().removesuffix(_QUOTES)]).strip()


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a person writes to this stream; a program may have no standard input at all."""
    return stream is not None and stream.isatty()


def make_reader(names: Sequence[str]) -> MessageReader:
    """Return a reader of the standard input; on a terminal with a prompt, line editing, and completion of `names`."""
    # What is not text must not end the chat.
    if not is_terminal(sys.stdin):
        _reconfigure(encoding="utf-8-sig", errors="replace")
        return MessageReader(_read_unprompted)
    _reconfigure(errors="replace")
    if sys.stdout.isatty():
        _edit_lines(names)
        return MessageReader(input)
    # `input` would write the prompt into the answers' file.
    return MessageReader(_prompt_on(sys.stderr))


def _reconfigure(**settings: str) -> None:
    # A stream in memory has no encoding.
    reconfigure = getattr(sys.stdin, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(**settings)


def _read_unprompted(_prompt: str) -> str:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] # of a program without a standard input
        raise EOFError
    return input()


def _prompt_on(err: TextIO) -> Callable[[str], str]:
    def read_line(prompt: str) -> str:
        err.write(prompt)
        err.flush()
        return input()

    return read_line


def _edit_lines(names: Sequence[str]) -> None:
    """Edit lines with readline, if this Python has it."""
    try:
        import readline
    except ImportError:
        return

    def complete(text: str, state: int) -> str | None:
        found = [name for name in names if text.startswith("/") and name.startswith(text)]
        return found[state] if state < len(found) else None

    readline.set_completer(complete)
    readline.set_completer_delims(" \t\n")
    # libedit, which macOS has in its place, names the key in another way.
    apple = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if apple else "tab: complete")
