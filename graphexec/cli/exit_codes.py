"""The exit codes of the command line, its errors on one line, and the files that it reads and writes."""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import traceback
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from graphexec.cli.terminal import clean, discard_streams
from graphexec.errors import InputError, LimitsError, ToolDefinitionError

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


class UsageError(Exception):
    """An invalid command line, such as an unknown name. `each` are its problems, printed on lines of their own."""

    def __init__(self, text: str, *, each: Sequence[str] = ()) -> None:
        self.text = text
        self.each = tuple(each)
        super().__init__(f"{text}: {'; '.join(each)}" if each else text)


def code_of(error: Exception) -> int:
    """Return the exit code of an error: 2 if the command line caused it, else 1."""
    return USAGE if isinstance(error, (UsageError, InputError, LimitsError, ToolDefinitionError)) else FAILED


def error_line(error: BaseException) -> str:
    """Return the message of an error as one line; other libraries' errors have their class before it."""
    text = _flat(str(error))
    own = isinstance(error, UsageError) or type(error).__module__.partition(".")[0] == "graphexec"
    return text if own and text else f"{type(error).__name__}: {text}" if text else type(error).__name__


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def print_error(error: BaseException, *, debug: bool) -> None:
    """Print an error on one line, and each of its problems on another; `debug` prints its traceback first."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, UsageError) and error.each:
        lines = (f"graphexec: {_flat(error.text)}:", *(f"  {_flat(one)}" for one in error.each))
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(f"graphexec: {error_line(error)}", file=sys.stderr)


def print_json_error(error: BaseException, code: int, out: TextIO) -> None:
    """Print an error that prevented the run as the only record of `--json`."""
    described = {"type": type(error).__name__, "message": error_line(error)}
    status = {USAGE: "usage", INTERRUPTED: "interrupted"}.get(code, "error")
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
        code = code_of(error) if isinstance(error, Exception) else INTERRUPTED
        if json_to is not None:
            print_json_error(error, code, json_to)
        elif code == INTERRUPTED:
            print("graphexec: interrupted", file=sys.stderr)
        else:
            print_error(error, debug=debug)
        raise typer.Exit(code) from error


def read(file: str) -> str:
    """Return the text of a file; `-` is the standard input. Raises `UsageError`."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}; name a text file") from error


def write(text: str, file: Path | None) -> None:
    """Write text to a file, or print it. Raises `UsageError`."""
    if file is None:
        print(text, end="")
    else:
        write_bytes(text.encode(), file)


def write_bytes(content: bytes, file: Path) -> None:
    """Replace a file atomically: readers see the old content or all of the new. Raises `UsageError`."""
    try:
        place = file.resolve()
        if place.exists() and not place.is_file():
            # A pipe or a device; this raises for a folder.
            place.write_bytes(content)
            return
        # Do not replace a file without permission to write it.
        place.open("ab").close()
        beside = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
        try:
            beside.write_bytes(content)
            shutil.copymode(place, beside)
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error


def open_for_writing(file: Path) -> TextIO:
    """Open a file for writing, flushed after each line. Raises `UsageError`."""
    try:
        return file.open("w", buffering=1, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error


def write_proof(proof: Certificate | None, file: Path) -> None:
    """Write a certificate; without one, print a note to stderr."""
    if proof is None:
        print(f"graphexec: there is no proof, so {file} is not written", file=sys.stderr)
    else:
        write(f"{proof.to_json()}\n", file)
