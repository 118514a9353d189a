"""The entries of a stored run's log: what it asks for, and the replies, as lines of JSON.

A row of the log is a JSON list: the time of its commit, in seconds since the epoch, and its entries, in their order:

- `["begin", attempt, at, unpaid, crashed, limits]`: a process begins or continues the run at the second `at` of its
  clock, within `limits`; the open calls `unpaid` are made again, and charged again.
- `["ask", sequence, member, node, effect, details]`: a call begins.
- `["reply", sequence, member, at, seconds, data, charged]`: it is answered.
- `["wait", sequence, member]`: it waits for an answer from outside; `["raised", sequence, member]`: it has raised.
- `["move", edges]`: the run takes these edges, `node>Outcome`; `["end", ending]`: it has ended, with these fields
  of the result's record; `["stop", at]`: an exception ends it at this second of its clock, and it may be continued.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from hashlib import sha256
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from graphexec.effects import AskHuman, CallAgent, CallTool, ModelEffect
from graphexec.errors import SnapshotError
from graphexec.kernel.effects import CallContext, Effect, Perform
from graphexec.kernel.events import ChargedReply, Cut
from graphexec.kernel.exactness import class_of
from graphexec.kernel.serialization import (
    SERIALIZATION_ERRORS,
    dump_reply,
    format_json,
    load_reply,
    parse_json,
    read_exactly,
    reply_adapter,
)

# Characters of the details of an effect that are stored as they are, and not as a digest.
_LONGEST = 2_000
# The data of a call that the deadline cut.
_CUT = '{"graphexec.cut":true}'
# The only key of the data of a reply that is read by its own class.
_EXACT = "graphexec.reply"
# How the data of replies begin that look like these, which are stored exactly.
_OURS = (b'{"graphexec.cut"', b'{"graphexec.reply"')


def _plain(part: Any) -> Any:
    """Return a part of an effect as JSON data; of what has none, the name of its class."""
    kind: Any = class_of(part)
    if issubclass(kind, (set, frozenset)):
        # Each process has another order.
        return sorted(map(encode_constant, part))
    if is_dataclass(part):
        return {one.name: getattr(part, one.name) for one in fields(part)}
    if hasattr(kind, "model_fields"):
        return dict(part)
    try:
        return to_jsonable_python(part)
    except SERIALIZATION_ERRORS:
        return str(kind.__name__)


_encoder = json.JSONEncoder(default=_plain)


def encode_constant(value: object) -> str:
    """Return a value as JSON, which is the same in every process, though it may not be possible to read it."""
    try:
        return _encoder.encode(value)
    # Keys that JSON does not have are a TypeError.
    except (*SERIALIZATION_ERRORS, TypeError):
        return "null"


def describe_effect(effect: Effect[Any]) -> str:
    """Return what distinguishes an effect from others of its class, as JSON; never a prompt."""
    details: Any
    match effect:
        case CallTool(name, tool_input):
            details = name, tool_input
        case ModelEffect() | CallAgent() | Perform():
            return "null"
        case AskHuman(question):
            details = question
        case _:
            details = effect
    text = encode_constant(details)
    if len(text) <= _LONGEST:
        return text
    digest = f"sha256:{sha256(text.encode()).hexdigest()}"
    return json.dumps([effect.name, digest] if isinstance(effect, CallTool) else digest, ensure_ascii=False)


# Any: mypy does not take a class for hashable.
@cache
def _names(node: str, kind: Any) -> str:
    return f"{json.dumps(node)},{json.dumps(kind.__name__)}"


def ask_entry(call: CallContext[Any], effect: Effect[Any]) -> str:
    """Return the entry of a call that begins."""
    kind: Any = effect.__class__
    return f'["ask",{call.sequence},{call.member},{_names(call.node, kind)},{describe_effect(effect)}]'


# Any: methods of pydantic's core, of which a `TypeAdapter` makes several calls.
@cache
def _codec(kind: Any) -> tuple[Any, Any, bool]:
    """Return what writes and reads the replies to effects of a class, and whether it leaves out defaults."""
    adapter: TypeAdapter[Any] = reply_adapter(kind)
    # Of the library's own replies, only what is not the default is stored.
    short = issubclass(kind, (CallTool, ModelEffect))
    return adapter.serializer.to_json, adapter.validator.validate_json, short


def encode_reply(
    effect: Effect[Any], reply: object, charged: Mapping[str, float] | None, outcomes: Mapping[str, type]
) -> tuple[str, object]:
    """Return the JSON of a reply, and the reply as it is read from that.

    Raises `SnapshotError` with the place of a part that JSON cannot express.
    """
    if type(reply) is Cut:
        return _with_charges(_CUT, charged), reply
    kind: Any = type(effect)
    if kind is not Perform:
        to_json, load, short = _codec(kind)
        try:
            data = to_json(reply, by_alias=True, exclude_defaults=short, round_trip=True, warnings=False)
            stored = load(data, strict=True, by_alias=True, by_name=True)
            if stored == reply and not data.startswith(_OURS):
                return _with_charges(data.decode(), charged), stored
        except Exception:  # noqa: BLE001, S110 - what cannot be written so is written, or told, below
            pass
    try:
        kinds = () if kind is Perform else (kind,)
        text = format_json({_EXACT: dump_reply(reply, kinds, f"the reply to {kind.__name__}")["reply"]})
        return _with_charges(text, charged), load_reply(effect, parse_json(text)[_EXACT], outcomes)
    except SERIALIZATION_ERRORS as error:
        raise SnapshotError(f"{error}") from error


def _with_charges(text: str, charged: Mapping[str, float] | None) -> str:
    return f"{text},{json.dumps(dict(charged))}" if charged else text


def decode_reply(
    effect: Effect[Any], data: Any, charged: Mapping[str, float] | None, outcomes: Mapping[str, type]
) -> Any:
    """Return the reply to an effect as the engine receives it. Raises `SnapshotError` for data that are none."""
    reply: Any
    if data == json.loads(_CUT):
        reply = Cut()
    elif not isinstance(data, dict) or [*data] != [_EXACT]:
        kind: Any = type(effect)
        try:
            reply = read_exactly(reply_adapter(kind), json.dumps(data))
        except ValueError as error:
            raise SnapshotError(f"a stored reply is not a reply to {kind.__name__}: {error}") from error
    else:
        reply = load_reply(effect, parse_json(json.dumps(data[_EXACT])), outcomes)
    return ChargedReply(reply, charged) if charged else reply
