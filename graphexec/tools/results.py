"""Values that go in and out of tools: results are read at once, and what a tool is given of the record is a copy.

So no tool changes an argument, a result or an input of its run, and nobody changes a result afterwards.
"""

from __future__ import annotations

import copy
import dataclasses
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import MappingProxyType
from typing import Any

from graphexec.actions import AgentStep, Run, Steps
from graphexec.effects import CallTool
from graphexec.errors import InputError
from graphexec.kernel.effects import All, CallContext, Effect
from graphexec.runtime.io import IO
from graphexec.runtime.threads import check_before_awaiting, current_cancel_scope
from graphexec.tools.reading import PLAIN

# The most items that are read of an iterator, if its tool has no `max_observation`.
MOST_ITEMS = 100_000

# What gives its values only once, or shows those of another object.
_VIEWS: tuple[type[Any], ...] = (MappingView, MappingProxyType)
_ASYNC: tuple[type[Any], ...] = (AsyncIterator, Awaitable)
_LAZY: tuple[type[Any], ...] = (*_VIEWS, Iterator, *_ASYNC)

# What has its items in memory; another sequence may compute them, and have any number.
_IN_MEMORY = (list, tuple, dict, set, frozenset, deque)


# Any: a user's value, here and below.
async def settle(value: Any, most: int | None, io: IO) -> Any:
    """Return a result as a value of its own.

    Iterators become lists, and awaitables what they return, at any depth of lists, dicts, dataclasses and models. A
    little more than `most` items of an iterator are read; without a limit, more than `MOST_ITEMS` are an `InputError`.
    In a task, iterators, which may block, are read in a thread.
    """
    if type(value) in PLAIN:
        return value
    leaves, read = [*_leaves(value)], dict[int, Any]()
    for one in leaves:
        if _is_lazy(one):
            awaits = isinstance(one, _ASYNC) and not io.blocking
            given = await (read_async(one, most) if awaits else io.call(_read, one, most))
            read[id(one)] = await settle(given, most, io)
    return _rebuild(value, leaves, read)


def _rebuild(value: Any, leaves: Iterable[Any], parts: dict[int, Any]) -> Any:
    """Return a copy of a value with these parts, by the ids of what was in their places, and copies of other leaves."""
    # `deepcopy` takes what is here in the place of an object.
    for one in leaves:
        if id(one) not in parts:
            parts[id(one)] = _copy(one, parts)
    return _copy(value, parts)


def _copy(value: Any, memo: dict[int, Any]) -> Any:
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # noqa: BLE001 - a user's class may raise any
        # A connection or a lock is no data.
        return value


def _copy_value(value: Any) -> Any:
    """Return a copy of a value, which shares only what cannot be copied, or can be read once."""
    if type(value) in PLAIN:
        return value
    # Most are small objects of JSON, of which a run may have many.
    if value.__class__ is dict and PLAIN.issuperset(map(type, value.values())):
        return {**value}
    leaves = [*_leaves(value)]
    return _rebuild(value, leaves, {id(one): one for one in leaves if _is_lazy(one)})


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the parts that are neither plain nor made of parts, in their order."""
    waiting, seen = [value], set[int]()
    while waiting:
        part = waiting.pop()
        if type(part) in PLAIN or id(part) in seen:
            continue
        seen.add(id(part))
        parts = None if _is_lazy(part) else _parts(part)
        if parts is None:
            yield part
        else:
            waiting += reversed([*parts])


def _is_lazy(value: Any) -> bool:
    # A mock has the methods of an async iterator, too, and never ends.
    return isinstance(value, _LAZY) and (not isinstance(value, AsyncIterator) or aiter(value) is value)  # pyright: ignore[reportUnknownArgumentType]


def _parts(value: Any) -> Iterable[Any] | None:
    if isinstance(value, (Mapping, Sequence, AbstractSet)) and not isinstance(value, (str, range)):
        if not isinstance(value, _IN_MEMORY) and len(value) > MOST_ITEMS:  # pyright: ignore[reportUnknownArgumentType]
            return None
        return value.values() if isinstance(value, Mapping) else value  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
    # Asked of the class, as an object may make any attribute when it is asked.
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    if not isinstance(getattr(kind, "model_fields_set", None), property):
        return None
    # A model of pydantic, whose further fields are elsewhere.
    further: Any = getattr(value, "model_extra", None) or {}
    return [*vars(value).values(), *further.values()]


def _read(lazy: Any, most: int | None) -> Any:
    """Return the items of an iterator, and behind them what a generator returns, if it is not `None`.

    Raises `AbandonedError` once this thread's call is cancelled.
    """
    if isinstance(lazy, _VIEWS):
        return {**lazy} if isinstance(lazy, Mapping) else [*lazy]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(lazy, _ASYNC):
        from graphexec.runtime.tasks import run_on_own_loop

        check_before_awaiting(lazy)
        return run_on_own_loop(partial(read_async, lazy, most))
    scope, found = current_cancel_scope(), list[Any]()
    try:
        while _may_read(found, most):
            if scope is not None:
                scope.check()
            found.append(next(lazy))
    except StopIteration as end:
        found += [] if end.value is None else [end.value]
    finally:
        # A generator, or a file.
        close: Callable[[], object] | None = getattr(lazy, "close", None)
        if close is not None:
            close()
    return found


async def read_async(lazy: Any, most: int | None) -> Any:
    """Return what an awaitable returns, or the items of an async iterator, in the task that asks for them."""
    if isinstance(lazy, Awaitable):
        return await lazy  # pyright: ignore[reportUnknownVariableType]
    from asyncio import sleep

    found: list[Any] = []
    try:
        while _may_read(found, most):
            # A generator that never waits could not be cut.
            await sleep(0)
            found.append(await anext(lazy))
    except StopAsyncIteration:
        pass
    finally:
        close: Callable[[], Awaitable[object]] | None = getattr(lazy, "aclose", None)
        if close is not None:
            await close()
    return found


def _may_read(found: Sequence[Any], most: int | None) -> bool:
    if most is None and len(found) == MOST_ITEMS:
        raise InputError(f"the result has more than {MOST_ITEMS:,} items; return a list, or fewer of them")
    return most is None or len(found) <= most


def copy_run(run: Run) -> Run:
    """Return a copy of the run so far."""
    return Run(_copy_value(run.inputs), Steps(map(_copy_step, run.steps)), _copy_value(run.aside))


def _copy_step(step: AgentStep) -> AgentStep:
    action = step.action
    copied = dataclasses.replace(
        action,
        tool_input=_copy_value(action.tool_input),
        message=_copy_value(action.message),
        original=_copy_value(action.original),
    )
    return dataclasses.replace(step, action=copied, observation=_copy_value(step.observation))


def give_copies(call: CallContext[Any], effect: CallTool) -> CallContext[Any]:
    """Let a call have copies of its arguments, and of its batch's, for its tool; events and steps keep theirs.

    The run of the effect stays that of the record: its tool receives a copy of it in a parameter annotated `Run`.
    """
    copied = _copy_arguments(effect)
    if isinstance(call.request, All):
        effects = (copied if one is call.effect else _copy_arguments(one) for one in call.request.effects)
        call.request = All(tuple(effects))
    else:
        call.request = copied
    call.effect = copied
    return call


# Any: an effect with any reply.
def _copy_arguments(effect: Effect[Any]) -> Effect[Any]:
    # The effects of a user's own node are the user's.
    if not isinstance(effect, CallTool):
        return effect
    return dataclasses.replace(effect, tool_input=_copy_value(effect.tool_input))
