"""The current call, and nested runs within a call, which share the limits and the clock of the runs around them.

Also what handlers report during a call, and what a forked process does with the locks and connections that it inherits.
"""

from __future__ import annotations

import dataclasses
import math
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Protocol, final
from weakref import WeakSet

from graphexec.errors import AbandonedError, InputError, NestedRunError
from graphexec.kernel.effects import Batch, CallContext
from graphexec.kernel.execution import Execution
from graphexec.kernel.meters import Exhausted, add_counts
from graphexec.kernel.stepping import EngineCode, current


@final
@dataclass(slots=True, eq=False, repr=False)
class Scope:
    """The values that a run's calls share: its id, its context, its clock, and the engine that counts charges.

    `levels` is the run's own limit on the depth of the runs within it, then the one that is reached first.
    """

    run_id: str
    context: Any
    clock: Callable[[], float]
    host: CallContext[Any] | None
    levels: int | None
    # The engine of the run, which `begin` sets.
    execution: Execution = field(init=False)
    # The depth of the run, and the greatest depth that is allowed.
    depth: int = 0
    deepest: float = math.inf
    # What the run was started by: while it is in no call, it is the `current` engine code.
    caller: CallContext[Any] | EngineCode | None = None
    began: float = 0.0
    # When the run began, for records, since its own clock may be another one.
    date: float = field(default_factory=time.time)
    # Any: an `OwnLoop`, of a sync run that has called an async function; its class is above this module.
    loop: Any = None
    # Any: the `RunLog` of a stored run; its class is above this module.
    log: Any = None

    def __post_init__(self) -> None:
        outer = None if self.host is None else scope_of(self.host)
        if outer is not None:
            self.depth = outer.depth + 1
        if self.levels is not None:
            self.deepest = self.depth + self.levels
        if outer is not None and outer.deepest < self.deepest:
            self.deepest, self.levels = outer.deepest, outer.levels

    def begin(self, execution: Execution) -> None:
        """Set the run's engine; its clock continues from its snapshot."""
        self.execution = execution
        self.began = self.clock() - execution.seconds

    def now(self) -> float:
        """Return the second of the run's clock."""
        return self.clock() - self.began

    def seconds_left(self) -> float | None:
        """Return the seconds until the deadline of the current node's effects, 0 or more; `None` without a deadline."""
        deadline = self.execution.deadline
        return None if deadline is None else max(0.0, deadline - self.now())


def scope_of(call: CallContext[Any]) -> Scope:
    """Return the scope of a call's run. Raises `InputError` if that run is driven by `advance`."""
    if not isinstance(call.scope, Scope):
        raise InputError(f"{call!r} belongs to a run that is driven by advance(); no run can be nested in it")
    return call.scope


def hold_over_fork(lock: threading.RLock) -> None:
    """Acquire the lock while the process forks: the new process could not release a lock held by another thread."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class Forked(Protocol):
    """An object with state that a forked process must not share."""

    def reset_after_fork(self) -> None:
        """Discard the state, in the new process, in which only one thread runs. Must not wait for a lock."""


_owners: WeakSet[Forked] = WeakSet()


def reset_after_fork(owner: Forked) -> None:
    """Call the object's `reset_after_fork` in every process that is forked from this one, while the object lives.

    It is for locks, which a thread of the old process may hold, and for connections, whose replies the old process
    would read.
    """
    _owners.add(owner)


@final
class ForkSafeLock:
    """A lock that is free in a forked process, although a thread of the old process may hold it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        reset_after_fork(self)

    # `with` calls the two methods of the lock itself: an interrupt in a method in Python would leave it locked. The
    # thread that forks in the block releases the lock that it has acquired, not the new one.
    @property
    def __enter__(self) -> Callable[[], bool]:
        return self._lock.__enter__

    @property
    def __exit__(self) -> Callable[..., None]:  # noqa: PLE0302, PYI036 - it returns the method
        return self._lock.__exit__

    def acquire(self, timeout: float) -> bool:
        """Return whether the lock is acquired within so many seconds."""
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def reset_after_fork(self) -> None:
        """Free the lock."""
        self._lock = threading.RLock()


def _reset_all() -> None:
    for owner in list(_owners):
        owner.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)


enter_call, reset_call = current.set, current.reset

# Held while runs are charged for a nested run. Their own loops count what they spend themselves. Reentrant, as are all
# locks here: Python may collect an abandoned run while its thread holds one, and closing the run takes it again.
sharing = threading.RLock()
hold_over_fork(sharing)


# No value of a context variable.
_UNSET: Any = object()


def adopt(context: Context) -> None:
    """Set the context variables that a call has set in its copy, so that the next call of its run sees them.

    The library's own stay.
    """
    for variable, value in context.items():
        if variable.get(_UNSET) is not value and not variable.name.startswith("graphexec"):
            variable.set(value)


def run_of_call() -> Scope | None:
    """Return the run whose call this code is, or `None` outside of runs."""
    call = _call_here()
    return call.scope if call is not None and isinstance(call.scope, Scope) else None


def leave_run(scope: Scope, to: CallContext[Any] | EngineCode | None) -> None:
    """Leave a run, or a call of it, that an exception or an interrupt has ended; not if closed in another context."""
    here = current.get()
    if here is scope or (isinstance(here, CallContext) and here.scope is scope):
        current.set(to)


def close_calls(calls: Iterable[CallContext[Any]]) -> None:
    """Mark calls as over: nothing more is charged within them."""
    for call in calls:
        call.closed = True
    # Wait for a charge that started while they were open.
    with sharing:
        pass


def _call_here() -> CallContext[Any] | None:
    here = current.get()
    while not (here is None or isinstance(here, CallContext)):
        here = here.caller
    return here


def host_call() -> CallContext[Any] | None:
    """Return the call that a run belongs to that this code starts. Raises `AbandonedError`, and `NestedRunError`."""
    here = current.get()
    if not (here is None or isinstance(here, CallContext)):
        raise NestedRunError(
            "a pure node, policy, guard, measure or observer cannot start a run: no limit of its own run would count "
            "that; start it in a tool, a handler or an opaque node, or after the run has ended"
        )
    return current_call()


def current_call() -> CallContext[Any] | None:
    """Return the call that this code runs in: in a tool, a handler or an opaque node, and in functions that they call.

    In a thread that graphexec did not start (`threading.Thread`, `run_in_executor`) it returns `None`: pass the call to
    the thread, and write `run(..., host=call)`. Raises `AbandonedError` if the call is over.
    """
    call = _call_here()
    if call is not None and call.closed:
        raise AbandonedError(f"{call!r} is over, so no run can start within it")
    return call


def _outwards(call: CallContext[Any] | None) -> list[CallContext[Any]]:
    calls: list[CallContext[Any]] = []
    while call is not None:
        calls.append(call)
        call = scope_of(call).host
    return calls


# No loop stands in a block that holds a lock: since Python 3.12 an interrupt in it may miss the end of the block.
def _add(calls: Iterable[CallContext[Any]], amounts: Mapping[str, float]) -> None:
    for call in calls:
        scope_of(call).execution.charge(amounts)
        charged = call.charged or {}
        added = {name: add_counts(charged.get(name, 0), amount) for name, amount in amounts.items()}
        call.charged = {**charged, **added}


def _find_exhausted(
    calls: Iterable[CallContext[Any]], amounts: Mapping[str, float], stops: Collection[str]
) -> Exhausted | None:
    for call in calls:
        if call.closed:
            raise AbandonedError(f"{call!r} is over, so the run within it stops")
        exhausted = scope_of(call).execution.find_exhausted(amounts, stops)
        if exhausted is not None:
            return dataclasses.replace(exhausted, outer=True)
    return None


@final
class Nesting:
    """The runs around a nested run, from the call `host` outwards: `OuterRuns` for the engine."""

    __slots__ = ("_host", "refusal", "seconds")

    def __init__(self, scope: Scope, host: CallContext[Any], started: float) -> None:
        self._host = host
        # From now on, closing the host waits for charges within it; see `close_calls`.
        with sharing:
            host.charged = host.charged or {}
        left = host.seconds_left
        # The deadline on the inner run's clock.
        self.seconds = None if left is None else started + left
        if scope.levels is not None and scope.depth > scope.deepest:
            self.refusal: Exhausted | None = Exhausted("depth", scope.levels, scope.levels, outer=True)
        else:
            self.refusal = self.charge({"nested_runs": 1}, ())

    @property
    def limits(self) -> Collection[str]:
        """The names of the limits that the runs around this one have."""
        names = ["seconds"] if self.seconds is not None else []
        for call in _outwards(self._host):
            program = scope_of(call).execution.program
            names += [name for name in program.meters if name in program.caps]
        return dict.fromkeys(names)

    def charge(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        """Charge every run around this one, by meter, or none of them; return the limit that forbids it."""
        calls = _outwards(self._host)
        with sharing:
            exhausted = _find_exhausted(calls, amounts, stops)
            if exhausted is None:
                _add(calls, amounts)
        return exhausted

    def charged_before(self, run_id: str, store: object) -> Mapping[str, float]:
        """Return what this nested run had charged, by meter, when the run around it was opened in the same store."""
        log = scope_of(self._host).log
        return {} if log is None or log.store is not store else log.charged.get(run_id, {})

    def settle(self, amounts: Mapping[str, float]) -> None:
        """Charge every run around this one for amounts that a reply reported beyond those charged before."""
        calls = _outwards(self._host)
        with sharing:
            _add((call for call in calls if not call.closed), amounts)


# Any: a request or an event of a path.
def calls_of(item: Any) -> Sequence[CallContext[Any]]:
    """Return the calls of a request; none of an event."""
    kind: type[Any] = type(item)  # pyright: ignore[reportUnknownVariableType]
    return item.calls if kind is Batch else (item,) if kind is CallContext else ()


def describe_request(item: object) -> str:
    """Return who is responsible for a request, in words."""
    effects = ", ".join(dict.fromkeys(type(call.effect).__name__ for call in calls_of(item)))
    return f"the handler of {effects}" if effects else "a function of the run"


class Listener:
    """A receiver of the reports of a call, and with `tokens` of the pieces of its reply."""

    __slots__ = ("tokens",)

    def __init__(self, *, tokens: bool) -> None:
        self.tokens = tokens

    def hear(self, news: object) -> None:
        """Take a report, from any thread."""
        raise NotImplementedError

    async def room(self) -> None:
        """Wait on an event loop until earlier reports are taken."""

    def waking(self, wake: Callable[[], object]) -> AbstractContextManager[None]:
        """Call `wake` when a report waits for this thread, which then calls `flush`, during the `with` block."""
        del wake
        return nullcontext()

    def flush(self) -> None:
        """Deliver the reports that have waited for this thread."""


def current_listener() -> Listener | None:
    """Return the listener of the innermost call around this code that has one."""
    call = _call_here()
    while call is not None and call.listener is None:
        call = call.scope.host if isinstance(call.scope, Scope) else None
    return None if call is None else call.listener


def report(news: object) -> None:
    """Report progress to the run's observers and streams, if any; for handlers, models and tools while they answer."""
    listener = current_listener()
    if listener is not None:
        listener.hear(news)


async def wait_for_capacity() -> None:
    """Wait on an event loop until the listener has taken earlier reports; in a thread, `report` itself waits."""
    listener = current_listener()
    if listener is not None:
        await listener.room()


def wants_pieces() -> bool:
    """Return whether the listener receives pieces of a reply, so that the model should stream it."""
    listener = current_listener()
    return listener is not None and listener.tokens
