"""Runs of a machine: the loop around the engine, its threads and tasks, and the handlers that answer effects."""

from typing import TYPE_CHECKING

from graphexec._mistakes import explain_names
from graphexec.runtime.calls import current_call, report
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import ASYNC, BLOCKING, IO
from graphexec.runtime.observers import ObserverFailed, RunStart, instrument
from graphexec.runtime.runner import arun, astream, run, stream
from graphexec.runtime.threads import on_cancel

__all__ = [
    "ASYNC",
    "BLOCKING",
    "IO",
    "Handler",
    "ObserverFailed",
    "RunStart",
    "arun",
    "astream",
    "current_call",
    "instrument",
    "on_cancel",
    "report",
    "run",
    "stream",
]

# Type checkers report a name that is not there.
if not TYPE_CHECKING:
    __getattr__ = explain_names(__name__)
