"""The exit codes of the command line, its errors on one line, and the files that it reads and writes."""

from __future__ import annotations

import json
import secrets
import shutil
import signal
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from graphexec.cli.terminal import clean, discard_streams, encodable, write_utf8
from graphexec.errors import InputError, LimitsError, Portable, ToolDefinitionError
from graphexec.runtime.files import lock, open_private, read_regular, write_all

if TYPE_CHECKING:
    from graphexec.verify.proof.certificate import Certificate


ANSWERED = 0
FAILED = 1
USAGE = 2
STOPPED = 3
# Only `check`: termination is neither proved nor refuted.
UNPROVED = 3
INTERRUPTED = 130
# The exit code of a program that wrote to a closed pipe: 128 + SIGPIPE.
READER_GONE = 141


# Any: as in typer.
def option(panel: str | None, metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """Describe an option for the help, without its default."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, show_default=False, **settings)


# The option of every command.
Debug = Annotated[
    bool,
    typer.Option("--debug", envvar="GRAPHEXEC_DEBUG", help="Show the traceback of an error.", rich_help_panel="Output"),
]


# typer does not export this class: it is click's, or since typer 0.26 a copy of it.
TyperUsageError: Any = typer.BadParameter.__mro__[1]


class UsageError(Portable, Exception):
    """An invalid command line, such as an unknown name. `each` are its problems, printed on lines of their own."""

    def __init__(self, text: str, *, each: Sequence[str] = ()) -> None:
        self.text = text
        self.each = tuple(each)
        super().__init__(f"{text}: {'; '.join(each)}" if each else text)


class Terminated(KeyboardInterrupt):
    """A signal such as SIGTERM ends the command. `number` is the signal's, `code` the exit code: 128 and the number."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(number)

    def __str__(self) -> str:
        return f"terminated by {self.name}"

    @property
    def name(self) -> str:
        """The name of the signal."""
        return signal.Signals(self.number).name

    @property
    def code(self) -> int:
        """The exit code of a command that this signal ended."""
        return 128 + self.number


def code_of(error: BaseException) -> int:
    """Return the exit code of an error: 2 if the command line caused it, 130 for Ctrl-C, that of a signal, else 1."""
    if isinstance(error, Terminated):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return USAGE if isinstance(error, (UsageError, InputError, LimitsError, ToolDefinitionError)) else FAILED


def error_line(error: BaseException) -> str:
    """Return the message of an error as one line; other libraries' errors have their class before it."""
    text = flatten(str(error))
    own = isinstance(error, UsageError) or type(error).__module__.partition(".")[0] == "graphexec"
    return text if own and text else f"{type(error).__name__}: {text}" if text else type(error).__name__


def flatten(text: str) -> str:
    """Return text on one line, without what could control a terminal."""
    return " ".join(clean(text).split())


def print_error(error: BaseException, *, debug: bool) -> None:
    """Print an error on one line, and each of its problems on another; `debug` prints its traceback first."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, UsageError) and error.each:
        lines = (f"graphexec: {flatten(error.text)}:", *(f"  {flatten(one)}" for one in error.each))
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(f"graphexec: {error_line(error)}", file=sys.stderr)


def print_json_error(error: BaseException, code: int, out: TextIO) -> None:
    """Print an error that prevented the run as the only record of `--json`."""
    described = {"type": type(error).__name__, "message": error_line(error)}
    status = "interrupted" if isinstance(error, KeyboardInterrupt) else "usage" if code == USAGE else "error"
    print(
        json.dumps({"event": "result", "status": status, "exit_code": code, "error": described}), file=out, flush=True
    )


@contextmanager
def exit_on_error(*, debug: bool, json_to: TextIO | None = None) -> Generator[None]:
    """Print an error as one line (or one record) and exit with its code."""
    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError as error:
        # typer itself would exit with 1.
        discard_streams()
        raise typer.Exit(READER_GONE) from error
    # `KeyboardInterrupt` comes from before the run; the displays handle interruptions of a run.
    except (Exception, KeyboardInterrupt) as error:
        code = code_of(error)
        if json_to is not None:
            print_json_error(error, code, json_to)
        elif isinstance(error, KeyboardInterrupt):
            print(f"graphexec: {error if isinstance(error, Terminated) else 'interrupted'}", file=sys.stderr)
        else:
            print_error(error, debug=debug)
        raise typer.Exit(code) from error


def read_input() -> str:
    """Return the text of the standard input, which is UTF-8 in any locale. Raises `OSError` or `UnicodeDecodeError`."""
    buffer = getattr(sys.stdin, "buffer", None)
    # A stream in memory has no bytes.
    return sys.stdin.read() if buffer is None else buffer.read().decode("utf-8-sig")


def read(file: str) -> str:
    """Return the text of a file; `-` is the standard input. Raises `UsageError`, also for a pipe or a device."""
    try:
        return read_input() if file == "-" else read_regular(Path(file)).decode()
    except (OSError, ValueError) as error:
        raise UsageError(f"{file} cannot be read: {error}; name a text file") from error


def write(text: str, file: Path | None, *, private: bool = False, data: bool = False) -> None:
    """Write text to a file in UTF-8, or print it: as the terminal can show it, or in UTF-8 if it is `data`.

    Raises `UsageError`.
    """
    if file is not None:
        write_bytes(text.encode(errors="backslashreplace"), file, private=private)
    elif data:
        write_utf8(text, sys.stdout)
    else:
        print(encodable(text, sys.stdout, drawn=True), end="")


def write_bytes(content: bytes, file: Path, *, private: bool = False) -> None:
    """Replace a file atomically: readers see the old content or all of the new. Raises `UsageError`.

    Only its owner may read a new file if it is `private`; a file that is replaced keeps its mode.
    """
    try:
        place = file.resolve()
        if place.exists() and not place.is_file():
            # A pipe or a device; this raises for a folder.
            place.write_bytes(content)
            return
        # Do not replace a file without permission to write it.
        FileIO(place, "ab", opener=open_private if private else None).close()
        beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            with FileIO(beside, "xb", opener=open_private) as replacement:
                write_all(replacement, content)
            shutil.copymode(place, beside)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error


def open_for_writing(file: Path) -> TextIO:
    """Open a file for the records of a run, flushed after each line: locked until it is closed, with the mode 600.

    Raises `UsageError`, also if another run records to it; then the file is unchanged.
    """
    try:
        out = open(file, "a", buffering=1, encoding="utf-8", newline="\n", opener=open_private)  # noqa: SIM115 - pathlib has no opener, and the caller closes it
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error
    try:
        if file.is_file():
            lock(out.fileno(), wait=False)
            out.truncate(0)
    except BlockingIOError as error:
        out.close()
        raise UsageError(f"{file} is being written by another run; wait for its end, or name another file") from error
    except OSError as error:
        out.close()
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error
    return out


def write_proof(proof: Certificate | None, file: Path) -> None:
    """Write a certificate; without one, print a note to stderr."""
    if proof is None:
        print(f"graphexec: there is no proof, so {file} is not written", file=sys.stderr)
    else:
        write(f"{proof.to_json()}\n", file)
