"""A running llama.cpp server: the process that `llama_server` is the program of."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import weakref
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from graphexec.errors import ModelError, WeightsError
from graphexec.models.http.endpoint import one_line
from graphexec.models.local.weights import missing_extra_error

# The servers that are to end with this program.
_RUNNING: set[subprocess.Popen[str]] = set()

# Seconds that a server which cannot start gets to say why.
GRACE = 5.0

# A line of llama.cpp's errors, without its time.
_ERROR_LINE = re.compile(r"^(?:[\d.]+ E )?(.*\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Settings:
    """What a server is started with. `context` is in tokens, and shared by prompt and reply."""

    path: str
    name: str
    context: int
    threads: int
    chat_template: str | None
    key: str


class LlamaProcess:
    """A llama.cpp server on this machine, ready for requests at `url`; ended by `close`, or with this program."""

    def __init__(self, settings: Settings) -> None:
        if importlib.util.find_spec("xllamacpp") is None:
            raise missing_extra_error("xllamacpp")
        # Where llama.cpp's errors go: nothing of them on the user's terminal, all of them into ours.
        with tempfile.TemporaryFile() as log:
            process = _start(log)
            # Ends it when nobody holds this any more; at the program's end, see `_leave`.
            self._stop = weakref.finalize(self, _kill, process)
            self._stop.atexit = False
            _RUNNING.add(process)
            try:
                self.url = _await_address(process, settings, log)
            except BaseException:
                self._stop()
                raise
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it, whatever it is doing."""
        self._stop()


def _start(log: IO[bytes]) -> subprocess.Popen[str]:
    program = Path(__file__).with_name("llama_server.py")
    # Idle threads that spin would take the cores from the one that works: 5 tokens/s instead of 150.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    try:
        # Our own interpreter and our own program. -P: a module beside the program must not stand in for another.
        return subprocess.Popen(  # noqa: S603
            [sys.executable, "-P", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
            encoding="utf-8",
        )
    except OSError as error:
        raise ModelError(f"the local model's process cannot be started ({error}); check {sys.executable!r}") from error


def _await_address(process: subprocess.Popen[str], settings: Settings, log: IO[bytes]) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    # A process that died already has closed the pipe; its answer, none, says so.
    with suppress(OSError):
        process.stdin.write(json.dumps(asdict(settings)) + "\n")
        process.stdin.flush()
    with process.stdout:
        line = process.stdout.readline()
    answer: dict[str, str] = json.loads(line) if line else {}
    if "url" in answer:
        return answer["url"]
    # Its errors are all there once it has ended.
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    log.seek(0)
    first = answer.get("error", "its process was ended, as it is when memory runs out")
    # The first error is the cause, the later ones follow from it.
    fact = "; ".join([first, *_ERROR_LINE.findall(log.read().decode("utf-8", "replace"))[:2]])
    raise WeightsError(
        f"llama.cpp cannot serve {settings.path} ({one_line(fact)[:600]}); check the file, and the context and "
        "the chat template if you set them"
    )


def _kill(process: subprocess.Popen[str]) -> None:
    _RUNNING.discard(process)
    if process.stdin is not None:
        # It may have gone before us.
        with suppress(OSError):
            process.stdin.close()
    # It has nothing to save.
    process.kill()
    process.wait()


@atexit.register
def _close_pipes() -> None:
    """Let the servers end with this program: when the system closes the pipe to them, and not before.

    Threads may still be listening to them, and would complain of a broken connection.
    """
    for process in _RUNNING:
        if process.stdin is not None:
            # Kept open by a descriptor that nobody else knows; Python would warn of an open file, and of a process.
            os.dup(process.stdin.fileno())
            process.stdin.close()
        process.returncode = 0
