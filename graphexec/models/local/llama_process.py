"""A running llama.cpp server: a process that executes the program `llama_server`."""

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
from functools import partial
from pathlib import Path
from typing import IO

from graphexec.errors import ModelError, WeightsError
from graphexec.models.http.endpoint import one_line
from graphexec.models.local.weights import missing_extra_error
from graphexec.models.secret import Secret

# The servers that must end when this program ends.
_RUNNING: set[subprocess.Popen[str]] = set()

# Seconds to wait for the error output of a server that failed to start.
GRACE = 5.0

# A line of llama.cpp's errors, without its time.
_ERROR_LINE = re.compile(r"^(?:[\d.]+ E )?(.*\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server. `context` is the number of tokens that prompt and reply share."""

    path: str
    name: str
    context: int
    threads: int
    chat_template: str | None
    key: Secret


class LlamaProcess:
    """A llama.cpp server on this machine, ready for requests at `url`. It ends with `close` or with this program."""

    def __init__(self, settings: Settings) -> None:
        require_llama()
        # llama.cpp writes its errors to this file instead of the terminal, so our error message can include them.
        with tempfile.TemporaryFile() as log:
            process = _start(log)
            # Ends the server when this object is garbage collected. `_leave_servers` handles the end of the program.
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
        """True while the server runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the server at once."""
        self._stop()


def require_llama() -> None:
    """Raise `WeightsError` if llama.cpp is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise missing_extra_error("xllamacpp")


def _start(log: IO[bytes]) -> subprocess.Popen[str]:
    program = Path(__file__).with_name("llama_server.py")
    # Otherwise idle threads spin and take the cores from the working thread: 5 tokens/s instead of 150.
    environment = {**os.environ, "OMP_WAIT_POLICY": "passive"}
    try:
        # Trusted: our own interpreter and program. -P: a file beside the program must not replace a module.
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
    # If the process has died, the pipe is closed and the answer is empty.
    with suppress(OSError):
        process.stdin.write(json.dumps(asdict(settings), default=Secret.get_secret_value) + "\n")
        process.stdin.flush()
    with process.stdout:
        line = process.stdout.readline()
    answer: dict[str, str] = json.loads(line) if line else {}
    if "url" in answer:
        return answer["url"]
    # The log is complete once the process has ended.
    with suppress(subprocess.TimeoutExpired):
        process.wait(GRACE)
    log.seek(0)
    first = answer.get("error", "its process was killed, perhaps because memory ran out")
    # The first error is the cause, the later ones are consequences.
    fact = "; ".join([first, *_ERROR_LINE.findall(log.read().decode("utf-8", "replace"))[:2]])
    raise WeightsError(
        f"llama.cpp cannot serve {settings.path} ({one_line(fact)[:600]}); check the file, and the context and "
        "the chat template if you set them"
    )


def _kill(process: subprocess.Popen[str]) -> None:
    _RUNNING.discard(process)
    if process.stdin is not None:
        # The process may have ended already.
        with suppress(OSError):
            process.stdin.close()
    # The server has no state to save.
    process.kill()
    process.wait()


def _leave_servers(*, at_exit: bool) -> None:
    """Leave the servers to the parent process, in a process that was forked from it, or to the system at the exit.

    There they end when the system closes their pipes after this program, and not earlier: threads may still be using
    them, and would fail with a broken connection.
    """
    for process in _RUNNING:
        if process.stdin is not None:
            with suppress(OSError):
                if at_exit:
                    # A duplicate descriptor keeps the pipe open. Python would warn about an open file.
                    os.dup(process.stdin.fileno())
                # In a forked process the open input would let a server outlive the parent.
                process.stdin.close()
        # To this process it has ended: it neither sends requests to it nor kills it, nor warns that it is running.
        process.returncode = 0
    _RUNNING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=partial(_leave_servers, at_exit=False))
atexit.register(_leave_servers, at_exit=True)
