"""The process that carries a run on, so that others on its machine see at once that it is gone."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def _started(process: int) -> str:
    """Return when a process began, which distinguishes it from a later one with its number.

    It is empty where that is unknown, and for a process that has ended while its parent has not asked for its status.
    """
    state, *fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split() or [""] * 20
    return "" if state == "Z" else fields[18]


@cache
def _machine() -> str:
    numbers = ""
    # The numbers of processes mean nothing in another container.
    with suppress(OSError):
        numbers = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    return f"{socket.gethostname()}|{_read('/proc/sys/kernel/random/boot_id')}|{numbers}"


def this_process() -> str:
    """Return the name of this process: of its host, its host's start, its number, and its own start."""
    process = os.getpid()
    return f"{_machine()}|{process}|{_started(process)}"


def format_owner(owner: str) -> str:
    """Return the number of a process and its host, for people."""
    machine, process, _ = owner.rsplit("|", 2)
    return f"process {process} of {machine.partition('|')[0]}"


def is_gone(owner: str) -> bool:
    """Return whether a process of this machine has ended; False for one of another machine."""
    machine, process, started = owner.rsplit("|", 2)
    if machine != _machine() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return started != _started(int(process))
