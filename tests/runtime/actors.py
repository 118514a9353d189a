"""Runs, tools and snapshots that the tests of the runtime share."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import graphexec as gx
from graphexec.runtime.threads import CancelScope, run_in_thread
from tests.executor.actors import AnyTool, run_async, run_sync
from tests.parameters import cases

T = TypeVar("T")

# Seconds that a test waits for an event that should happen at once.
LONG = 20.0

# Ways to run an executor, and sync and async tools in each of them.
HOW = cases("run", [run_sync, run_async])
MIXED = cases(("run", "is_async"), [(run, is_async) for run in (run_sync, run_async) for is_async in (False, True)])


def tool_named(name: str, function: Callable[..., Any], **options: Any) -> AnyTool:
    made: AnyTool = gx.tool(name=name, description="A tool.", **options)(function)
    return made


def snapshot_in(error: BaseException) -> gx.Snapshot:
    """Return the snapshot of the run that raised this error."""
    snapshot = gx.snapshot_of(error)
    assert snapshot is not None
    return snapshot


def start_in_thread(call: Callable[[], T], scope: CancelScope | None = None) -> Future[T]:
    """Start `call` as `run_in_thread` does; return its future."""
    future: Future[T] = Future()

    def receive(result: T, error: BaseException | None) -> None:
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    run_in_thread(call, scope, receive)
    return future
