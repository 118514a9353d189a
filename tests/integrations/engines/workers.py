"""Workers of an engine: they are started, killed half way, and stopped and woken again."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

RUNS = 40
# Seconds in which all has to end, which takes 10.
LONGEST = 100.0


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Wait until the condition holds."""
    ends = time.monotonic() + LONGEST
    while not condition():
        assert time.monotonic() < ends, f"{what} has not happened"
        time.sleep(0.02)


class Workers:
    """The processes of an engine that share a folder, with the files of its databases."""

    def __init__(self, folder: Path, module: str, *databases: str) -> None:
        self.folder, self._module = folder, module
        self._databases = [folder / name for name in databases]
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a worker, and wait until it works."""
        command = [sys.executable, "-m", f"tests.integrations.engines.{self._module}", str(self.folder), *arguments]
        pipe = subprocess.PIPE
        worker = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._started.append(worker)
        assert worker.stdout is not None
        assert worker.stdout.readline() == "up\n"
        return worker

    def calls(self, fact: str, worker: subprocess.Popen[str] | None = None) -> list[str]:
        """Return the calls that have begun or ended, or the runs that have failed, in a worker or in all."""
        notes = self.folder / "calls"
        lines = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
        return [item for kind, item, pid in lines if kind == fact and (worker is None or int(pid) == worker.pid)]

    def freeze(self, worker: subprocess.Popen[str]) -> None:
        """Stop a worker at a moment when it holds no lock of a database."""
        while True:
            worker.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, worker.pid, os.WSTOPPED | os.WNOWAIT)
            if self.calls("begin", worker) != self.calls("end", worker) and all(map(_is_free, self._databases)):
                return
            worker.send_signal(signal.SIGCONT)
            time.sleep(0.005)

    def close(self) -> None:
        """Kill all workers."""
        for worker in self._started:
            worker.kill()
            worker.communicate()


def _is_free(path: Path) -> bool:
    with contextlib.closing(sqlite3.connect(path, timeout=0.0, isolation_level=None)) as database:
        try:
            database.execute("BEGIN IMMEDIATE")
            database.execute("ROLLBACK")
        except sqlite3.OperationalError:
            return False
    return True


def disturb(workers: Workers, started: Sequence[tuple[str, subprocess.Popen[str]]]) -> subprocess.Popen[str]:
    """Kill the first of two workers, stop the other one, and start each anew; return the stopped one."""
    (first, killed), (second, stopped) = started
    wait_until(lambda: len(workers.calls("end")) > RUNS, "a fifth of the calls")
    killed.kill()
    workers.start(first)
    wait_until(lambda: len(workers.calls("end")) > 2 * RUNS, "two fifths of the calls")
    workers.freeze(stopped)
    workers.start(second)
    return stopped


def check_calls(workers: Workers, stopped: subprocess.Popen[str]) -> None:
    """Wake the stopped worker, whose runs have ended elsewhere; fail if a call has begun, or ended, twice."""
    interrupted = {*workers.calls("begin", stopped)} - {*workers.calls("end", stopped)}
    runs = {call.partition(".")[0] for call in interrupted}
    stopped.send_signal(signal.SIGCONT)
    wait_until(lambda: interrupted <= {*workers.calls("end", stopped)}, "the end of the calls")
    wait_until(lambda: runs <= {*workers.calls("failed", stopped)}, "the end of the runs")
    for fact in ("begin", "end"):
        assert [call for call, number in Counter(workers.calls(fact)).items() if number > 1] == []
