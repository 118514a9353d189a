"""Everything that waits: the loop around the engine, its threads and tasks, and the handlers that answer effects."""

from graphexec.runtime.handlers import Handler, HandlerLike, Handlers
from graphexec.runtime.io import ASYNC, BLOCKING, IO
from graphexec.runtime.progress import report
from graphexec.runtime.runner import RunContext, arun, astream, make_run_context, run, stream

__all__ = [
    "ASYNC",
    "BLOCKING",
    "IO",
    "Handler",
    "HandlerLike",
    "Handlers",
    "RunContext",
    "arun",
    "astream",
    "make_run_context",
    "report",
    "run",
    "stream",
]
