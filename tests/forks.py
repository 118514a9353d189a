"""Processes that are forked from a warm one, which has imported other packages, but nothing of this one."""

import atexit
import functools
import multiprocessing
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from typing import Any

# What the package and its tests import, but for plugins of pytest, whose assertions pytest rewrites.
WARM = ("asyncio", "_pytest.doctest", "hypothesis.stateful", "pydantic", "httpx", "networkx", "typer", "rich.console")


@functools.cache
def warm_context() -> ForkServerContext:
    """Return the context of processes that begin warm; the server of forks starts with the first of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*WARM])
    atexit.register(_stop)
    return context


def _stop() -> None:
    """Wait for the server to end, so that its processor time is counted, as that of its children is."""
    # Any: multiprocessing leaves the server to itself, and hides the function that its own tests stop it with.
    server: Any = vars(forkserver)["_forkserver"]
    server._stop()
