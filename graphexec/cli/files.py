"""Files that the command line is told to read and to write."""

from __future__ import annotations

import secrets
import shutil
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from graphexec.cli.exits import UsageFault

if TYPE_CHECKING:
    from graphexec.verify.certificate import Certificate


def read(file: str) -> str:
    """The text of a file; `-` is the standard input. Raises `UsageFault`."""
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFault(f"{file} cannot be read: {error}; name a text file") from error


def write(text: str, file: Path | None) -> None:
    """Write text to a file, or print it. Raises `UsageFault`."""
    if file is None:
        print(text, end="")
    else:
        write_bytes(text.encode(), file)


def write_bytes(content: bytes, file: Path) -> None:
    """Write a file: whoever reads it meanwhile sees what was there, or all of this. Raises `UsageFault`."""
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
        raise UsageFault(f"{file} cannot be written: {error}; name another file") from error


def opened(file: Path | None) -> AbstractContextManager[TextIO | None]:
    """Open a file that is written as things happen, if there is one; line after line. Raises `UsageFault`."""
    if file is None:
        return nullcontext()
    try:
        return file.open("w", buffering=1, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageFault(f"{file} cannot be written: {error}; name another file") from error


def write_proof(proof: Certificate | None, file: Path) -> None:
    """Write a certificate; where there is none, say so."""
    if proof is None:
        print(f"graphexec: nothing is proved, so {file} is not written", file=sys.stderr)
    else:
        write(f"{proof.to_json()}\n", file)
