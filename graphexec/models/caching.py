"""A model that is not asked the same thing twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

from graphexec.errors import InputError
from graphexec.given import MODEL, TEXT, check, maybe
from graphexec.kernel.serialization import UNFIT, plain, read_as
from graphexec.messages import Model, ModelReply, Usage
from graphexec.models.caches import STORE, CacheStore, MemoryCache
from graphexec.models.notices import Cached
from graphexec.models.wrapping import ModelCall, WrappedModel, identity, shown
from graphexec.runtime.io import BLOCKING
from graphexec.runtime.progress import report

# Part of every key: entries of another form are misses.
_FORM = 1


def cached(model: Model, store: CacheStore | None = None, *, name: str = "") -> WrappedModel:
    """Make a model that answers what it was asked before out of `store`: a `MemoryCache` of its own, or yours.

    Such a reply cost nothing, so its usage and cost are zero, and `Cached` is reported. Requests are the same where
    their messages, tools, stop texts, schema and tool choice are equal. Errors are never stored; a reply that was cut
    at its length is, as any other. Nor is a stream that was not taken to its end. An entry that cannot be read is a
    miss. Calls at the same time do not wait for each other: two with the same request may both ask. What a store of
    yours raises ends the call.

    In a store of yours a model's replies are told from others' by its `identity` and by `name`; raises `InputError`
    where both are missing. Finding a key costs the length of the conversation.
    """
    check("cached", ("model", model, MODEL), ("store", store, maybe(STORE, "one of its own")), ("name", name, TEXT))
    told_apart = [name, identity(model)]
    if store is not None and not any(told_apart):
        raise InputError(
            f"cached cannot tell {shown(model)} from other models in the store; pass name= with the model's name and "
            f"settings, such as name='tiny, temperature 0'"
        )
    kept: CacheStore = MemoryCache() if store is None else store
    instant = bool(getattr(kept, "instant", False))

    async def flow(call: ModelCall) -> ModelReply:
        io = BLOCKING if instant else call.io
        key = _key([_FORM, *told_apart, call.request])
        found = _read(await io.call(partial(kept.get, key)))
        if found is not None:
            report(Cached(shown(model)))
            return found
        reply = await call.ask(model)
        await io.call(partial(kept.put, key, json.dumps(plain(reply))))
        return reply

    return WrappedModel("cached", [model], flow, instant=instant)


def _key(what: object) -> str:
    """Return the SHA-256 of a value's canonical JSON: with sorted keys, and ASCII, so that half a surrogate is fine."""
    text = json.dumps(what, default=_as_json, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


# Any: JSON.
def _as_json(value: object) -> Any:
    """What JSON knows in the place of what it does not: of a message its class and fields, of a conversation a list."""
    match value:
        case Mapping():
            return dict(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any mapping
        case Sequence() if not isinstance(value, bytes):
            return list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] - any sequence
        case _ if is_dataclass(value):
            return [type(value).__name__, {field.name: getattr(value, field.name) for field in fields(value)}]
        case _:
            raise InputError(f"a request to a cached model holds {value!r}, which has no form in JSON; leave it out")


def _read(entry: str | None) -> ModelReply | None:
    if entry is None:
        return None
    try:
        reply: ModelReply = read_as(ModelReply, json.loads(entry))
    except (*UNFIT, ValueError, RecursionError):
        return None
    # This time nothing was spent.
    return replace(reply, usage=Usage(), cost=0.0)
