"""A piece that limits the calls of all runs of a conversation: `limit_conversation`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from graphexec._arguments import NAME, has_methods, optional, validate, whole
from graphexec.actions import StoppedResponse
from graphexec.agents.calls import CallRules
from graphexec.errors import CallLimitError, InputError
from graphexec.executor.nodes import end_stopped
from graphexec.executor.outcomes import Acted, Ready, Stopped
from graphexec.executor.plugging import Piece
from graphexec.kernel.effects import Asks, CallContext, Effect, ask, ask_all
from graphexec.kernel.meters import Exhausted
from graphexec.kernel.node import Node, node
from graphexec.memory import CallCounter
from graphexec.nodes.tool_calls import ALL, ON_LIMIT, OnLimit, find_calls, refuse
from graphexec.runtime.calls import scope_of
from graphexec.runtime.handlers import Handler
from graphexec.runtime.io import IO

_COUNTER = has_methods("the history of the memory, such as SQLiteHistory(path, conversation=name)", "count_calls")


@dataclass(frozen=True, slots=True)
class CountCalls(Effect[int]):
    """Count up to `wanted` more calls under a name, with a `limit` in the conversation; the reply is how many count."""

    name: str
    wanted: int
    limit: int


def limit_conversation(
    history: CallCounter,
    *,
    model_calls: int | None = None,
    tool_calls: int | Mapping[str, int] | None = None,
    on_limit: OnLimit = "continue",
    name: str = "limit_conversation",
) -> Piece:
    """Limit the decisions and the calls of tools in all runs of a conversation together, whose `history` counts them.

    `model_calls` are decisions of the agent; further pieces may ask a model, too. The decision beyond the limit is not
    asked for, and the run stops. `tool_calls` is a number for all tools together, or one for each name. `on_limit` is
    as in `limit_tool`; with "error", both raise `CallLimitError`.

        history = SQLiteHistory("talk.db", conversation="Ada")
        limits = limit_conversation(history, model_calls=100, tool_calls={"search": 20})
        executor = create_agent(model, tools, memory=BufferMemory(history), nodes=[limits])

    The count is as persistent as the history, whose `clear` resets it; runs at the same time share it. Pieces of other
    names count by themselves: one may have the history of a user, another that of a conversation. A call counts
    before it is made: so does one that a person then rejects. It adds one transition before each decision, and one for
    each decision that calls tools; no model call. Raises `InputError` for invalid options, and the executor raises it
    for a tool that it does not have.
    """
    limits = tool_calls if isinstance(tool_calls, Mapping) else {} if tool_calls is None else {"": tool_calls}
    validate(
        "limit_conversation",
        ("history", history, _COUNTER),
        ("model_calls", model_calls, optional(whole(0), "no limit")),
        *(("a tool", tool, NAME) for tool in limits if tool),
        *((f"tool_calls[{tool!r}]" if tool else "tool_calls", one, whole(0)) for tool, one in limits.items()),
        ("on_limit", on_limit, ON_LIMIT),
        ("name", name, NAME),
    )
    if model_calls is None and not limits:
        raise InputError("limit_conversation has no limit; pass model_calls or tool_calls")

    # A class of its own for each piece: another one may have another history.
    kind: type[CountCalls] = type("CountCalls", (CountCalls,), {"__slots__": (), "__module__": __name__})

    async def count(effect: CountCalls, call: CallContext[Any], io: IO) -> int:
        key = "" if scope_of(call).log is None else str(call.id)
        counting = partial(history.count_calls, f"{name}: {effect.name}", effect.wanted, effect.limit, key)
        counted = counting() if getattr(history, "instant", False) else await io.call(counting)
        # A coroutine, which an async method returns, is true.
        validate("limit_conversation", ("the count of its history", counted, whole(0)))
        return counted

    @node(name=f"{name}_model", asks=1)
    def count_decision(ready: Ready) -> Asks[CountCalls, Ready | StoppedResponse]:
        """Count the next decision, or stop the run."""
        assert model_calls is not None, "the piece has the node only with this limit"
        if (yield from ask(kind("model_calls", 1, model_calls))):
            return ready
        limit = Exhausted("conversation_model_calls", model_calls, model_calls)
        if on_limit == "error":
            raise CallLimitError(f"{limit}; allow more, or clear the history", limit=limit.limit, value=limit.value)
        # At once: no model is asked for a last word, which would be one more call in each run.
        return end_stopped(Stopped(ready.run, limit))

    @node(name=name, asks=(0, max(1, len(limits))))
    def count_tools(acted: Acted, rules: CallRules) -> Asks[CountCalls, Acted | Stopped]:
        """Count the calls of a reply, and answer those of a tool that has been called often enough."""
        asked: dict[str, list[int]] = {}
        for tool in limits:
            if places := find_calls(acted, rules, tool or None):
                asked[tool] = places
        counting = [kind(f"tool {one}" if one else ALL, len(asked[one]), limits[one]) for one in asked]
        counted = yield from ask_all(counting)
        refused: Acted | Stopped = acted
        for (tool, places), allowed in zip(asked.items(), counted, strict=True):
            label = f"conversation_{tool}_calls" if tool else f"conversation_{ALL}"
            limit = Exhausted(label, limits[tool], limits[tool])
            if isinstance(refused, Acted):
                refused = refuse(refused, places[allowed:], tool or None, limit, on_limit, "this conversation")
        return refused

    # Any: the two take different values.
    nodes: list[Node[Any, Any]] = [] if model_calls is None else [count_decision]
    nodes += [count_tools] if limits else []
    raises = (CallLimitError,) if on_limit == "error" else ()
    made = tuple(replace(one, raises=raises, effects=(kind,)) for one in nodes)
    names = tuple(tool for tool in limits if tool)
    return Piece(name, made, tool_names=names, handlers={kind: Handler(count)}, limits=bool(limits))
