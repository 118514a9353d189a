"""Files that the command line is told to read and to write."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

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
        return
    try:
        file.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageFault(f"{file} cannot be written: {error}; name another file") from error


def write_proof(proof: Certificate | None, file: Path) -> None:
    """Write a certificate; where there is none, say so."""
    if proof is None:
        print(f"graphexec: nothing is proved, so {file} is not written", file=sys.stderr)
    else:
        write(f"{proof.to_json()}\n", file)
