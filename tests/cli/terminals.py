"""The command line for tests: in this process, or as a subprocess."""

import io
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

from graphexec.cli.commands import enter

# Seconds. Far longer than any operation here, even on a busy machine; a test that reaches it fails.
PATIENCE = 60.0

# Seconds after which a person presses Ctrl-C again.
AGAIN = 5.0

ARGUMENTS = [sys.executable, "-W", "ignore", "-m", "graphexec"]


# Variables that a subprocess must not inherit: colours that a CI forces, the width that pytest-xdist sets, and the
# developer's key and server.
OURS = {"FORCE_COLOR", "NO_COLOR", "COLUMNS", "OPENAI_API_KEY", "OPENAI_BASE_URL", "GRAPHEXEC_DEBUG", "PYTHONWARNINGS"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def environment(**more: str) -> dict[str, str]:
    return {**{name: value for name, value in os.environ.items() if name not in OURS}, **more}


@dataclass(frozen=True)
class Ended:
    """The exit code and the output of a command."""

    code: object
    out: str
    err: str


def command(*arguments: str) -> Ended:
    """Run a command in this process."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as exited:
        enter(arguments)
    out.seek(0)
    err.seek(0)
    return Ended(exited.value.code, out.read(), err.read())


def refused(*arguments: str) -> str:
    """Return the one line of a command that refuses its arguments."""
    ended = command(*arguments)
    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1), ended.err
    return ended.err


def program(*arguments: str, cwd: Path | None = None, **more: str) -> Ended:
    ended = subprocess.run(
        [*ARGUMENTS, *arguments],
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
        env=environment(**more),
        timeout=PATIENCE,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


class Program:
    """A command as a concurrent subprocess, with its stderr."""

    def __init__(self, *arguments: str, cwd: Path | None = None, more: Mapping[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            [*ARGUMENTS, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            encoding="utf-8",
            env=environment(PYTHONUNBUFFERED="1", **(more or {})),
        )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._err: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put(None)

    def read_line(self) -> str:
        """Return the next line on stdout."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def until(self, text: str) -> str:
        """Wait for a line with `text` on stderr, and return it."""
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self._err.append(line)
            if text in line:
                return line
        raise AssertionError(f"{text!r} was not printed, but {''.join(self._err)}")

    def interrupt(self) -> Ended:
        """Press Ctrl-C, a second time if necessary, and wait for the end."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(AGAIN)
        except subprocess.TimeoutExpired:
            # Python misses a signal that arrives between its last check and a blocking system call.
            self.process.send_signal(signal.SIGINT)
        return self.end()

    def end(self) -> Ended:
        assert self.process.stdout is not None
        code = self.process.wait(PATIENCE)
        out = self.process.stdout.read()
        self._reader.join(PATIENCE)
        while (line := self._lines.get(timeout=PATIENCE)) is not None:
            self._err.append(line)
        return Ended(code, out, "".join(self._err))
