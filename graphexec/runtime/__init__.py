"""Runs of a machine: the loop around the engine, its threads and tasks, and the handlers that answer effects."""

from graphexec.runtime.calls import current_call
from graphexec.runtime.handlers import Handler, HandlerLike, Handlers, RunContext, RunOptions
from graphexec.runtime.io import ASYNC, BLOCKING, IO
from graphexec.runtime.observers import ObserverFailed
from graphexec.runtime.progress import report
from graphexec.runtime.runner import arun, astream, make_run_context, run, stream

__all__ = [
    "ASYNC",
    "BLOCKING",
    "IO",
    "Handler",
    "HandlerLike",
    "Handlers",
    "ObserverFailed",
    "RunContext",
    "RunOptions",
    "arun",
    "astream",
    "current_call",
    "make_run_context",
    "report",
    "run",
    "stream",
]
