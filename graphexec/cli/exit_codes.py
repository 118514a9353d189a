"""How the command line ends: its exit codes, and one readable line for what went wrong."""

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

from graphexec.cli.terminal import clean, let_go
from graphexec.errors import InputError, LimitsError, ToolDefinitionError

if TYPE_CHECKING:
    from graphexec.verify.proof.certificate import Certificate


ANSWERED = 0
FAILED = 1
USAGE = 2
STOPPED = 3
# Of `check`: some run may not end, and it is not shown that one does not.
UNPROVED = 3
INTERRUPTED = 130
# What a shell reports of a program that wrote to a closed pipe: 128 + SIGPIPE.
READER_GONE = 141


# Any: as typer has it.
def option(panel: str | None, metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """Describe an option whose default is not shown: where and how the help shows it."""
    return typer.Option(*names, metavar=metavar, help=text, rich_help_panel=panel, show_default=False, **settings)


# The option of every command.
Debug = Annotated[
    bool,
    typer.Option("--debug", envvar="GRAPHEXEC_DEBUG", help="Show the traceback of an error.", rich_help_panel="Output"),
]


class UsageError(Exception):
    """An invalid command line, such as an unknown name. `each` are its problems, on lines of their own."""

    def __init__(self, text: str, *, each: Sequence[str] = ()) -> None:
        self.text = text
        self.each = tuple(each)
        super().__init__(f"{text}: {'; '.join(each)}" if each else text)


def code_of(error: Exception) -> int:
    """The exit code of an error: 2 if the command line caused it, else 1."""
    return USAGE if isinstance(error, (UsageError, InputError, LimitsError, ToolDefinitionError)) else FAILED


def line_of(error: BaseException) -> str:
    """One line that says what went wrong; an error that is not graphexec's own has its class before it."""
    text = _flat(str(error))
    own = isinstance(error, UsageError) or type(error).__module__.partition(".")[0] == "graphexec"
    return text if own and text else f"{type(error).__name__}: {text}" if text else type(error).__name__


def _flat(text: str) -> str:
    return " ".join(clean(text).split())


def print_error(error: BaseException, *, debug: bool) -> None:
    """Print an error as one line, and one for each of its parts; with its traceback before it in `debug`."""
    if debug:
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, UsageError) and error.each:
        lines = (f"graphexec: {_flat(error.text)}:", *(f"  {_flat(one)}" for one in error.each))
        print(*lines, sep="\n", file=sys.stderr)
    else:
        print(f"graphexec: {line_of(error)}", file=sys.stderr)


def print_json_error(error: BaseException, code: int, out: TextIO) -> None:
    """Print an error, of before there was a run, as the only record of `--json`."""
    described = {"type": type(error).__name__, "message": line_of(error)}
    status = {USAGE: "usage", INTERRUPTED: "interrupted"}.get(code, "error")
    print(
        json.dumps({"event": "result", "status": status, "exit_code": code, "error": described}), file=out, flush=True
    )


@contextmanager
def ending_in_one_line(*, debug: bool, json_to: TextIO | None = None) -> Generator[None]:
    """Turn an error into one line (or one record) and its exit code."""
    try:
        yield
    except typer.Exit:
        raise
    except BrokenPipeError as error:
        # Before typer sees it, which would exit with 1.
        let_go()
        raise typer.Exit(READER_GONE) from error
    # Interrupted before there was a run, or while weights were fetched: a run's own interruption is its display's.
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
    """The text of a file; `-` is the standard input. Raises `UsageError`."""
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
    """Write a file: whoever reads it meanwhile sees what was there, or all of this. Raises `UsageError`."""
    try:
        place = file.resolve()
        if place.exists() and not place.is_file():
            # A pipe, or a device; of a folder it raises.
            place.write_bytes(content)
            return
        # A file that may not be written is not to be replaced either.
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


def opened(file: Path) -> TextIO:
    """Open a file that is written as things happen, line after line. Raises `UsageError`."""
    try:
        return file.open("w", buffering=1, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error}; name another file") from error


def write_proof(proof: Certificate | None, file: Path) -> None:
    """Write a certificate; where there is none, say so."""
    if proof is None:
        print(f"graphexec: nothing is proved, so {file} is not written", file=sys.stderr)
    else:
        write(f"{proof.to_json()}\n", file)
