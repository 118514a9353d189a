"""Where a run is, as plain data: node, value, the replies so far at that node, and what is spent."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from graphexec.effects import All, Effect, Perform, Request, reply_type
from graphexec.errors import SnapshotError
from graphexec.limits import Exhausted, Spent

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphexec.graph import Graph


# What pydantic raises for data, and for classes, that have no form in JSON.
_INEXPRESSIBLE = (PydanticUserError, PydanticUndefinedAnnotation, ValueError, RecursionError)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run between two replies. The machine is not in it: a snapshot belongs to the graph that it was taken from.

    `value` is what `node` was given; `replies` are the answers to what the node has asked for so far, from which the
    node's function is brought back to where it was (and last, where the deadline cut it, an `Exhausted`).
    """

    node: str
    value: object
    replies: tuple[object, ...] = ()
    spent: Spent = field(default=Spent())

    def to_json(self) -> str:
        """Return the snapshot as JSON text; its size is that of the value and of this node's replies.

        Raises `SnapshotError` if the value or a reply holds something that JSON cannot express.
        """
        try:
            data = {
                "node": self.node,
                "value": stored(self.value),
                "replies": [_stored_reply(reply) for reply in self.replies],
                "spent": _plain(self.spent),
            }
        except _INEXPRESSIBLE as error:
            raise SnapshotError(f"the state at {self.node} cannot be stored as JSON: {error}") from error
        return json.dumps(data)

    @staticmethod
    def from_json(text: str, graph: Graph[Any, Any]) -> Snapshot:
        """Read a snapshot of `graph`. Raises `SnapshotError` if it is not one."""
        try:
            data = json.loads(text)
            node, value, replies, spent = data["node"], data["value"], data["replies"], data["spent"]
        except (ValueError, KeyError, TypeError) as error:
            raise SnapshotError(
                f"this is not a snapshot, which has node, value, replies and spent: {error!r}"
            ) from None
        if not isinstance(node, str) or node not in graph:
            raise SnapshotError(f"the snapshot is at {node}, which this graph does not have; resume it with its own")
        try:
            return Snapshot(
                node,
                restored(value, graph.outcomes),
                tuple(_restored_reply(reply) for reply in replies),
                _adapter(Spent).validate_python(spent),
            )
        except (ValidationError, TypeError, KeyError) as error:
            raise SnapshotError(f"the snapshot at {node} does not fit this graph: {error}") from error


@dataclass(frozen=True, slots=True)
class Stored:
    """A reply as `stored` made it; it is read when the effect that it answers is known."""

    # Any JSON value.
    data: Any

    def __post_init__(self) -> None:
        if not isinstance(self.data, dict) or "data" not in self.data:
            raise TypeError(f"{self.data!r} is not a stored reply")

    def read(self, effect: Request, outcomes: Mapping[str, type]) -> Any:
        """Return the reply to `effect`. Raises `SnapshotError` if it cannot be one."""
        try:
            if isinstance(effect, All):
                return tuple(
                    _replied(one, data) for one, data in zip(effect.effects, self.data["data"], strict=True)
                )
            if isinstance(effect, Perform):
                return restored(self.data, outcomes)
            return _replied(effect, self.data["data"])
        except (ValidationError, ValueError, TypeError) as error:
            if isinstance(error, SnapshotError):
                raise
            raise SnapshotError(f"a stored reply is not a reply to {type(effect).__name__}: {error}") from error


def stored(value: object) -> dict[str, Any]:
    """An outcome or a reply as JSON: its class's name and its data."""
    return {"class": type(value).__name__, "data": _plain(value)}


def restored(data: Any, outcomes: Mapping[str, type]) -> Any:
    """The outcome that `stored` stored. Raises `SnapshotError` for a class that the graph does not have."""
    name = data["class"]
    if name not in outcomes:
        raise SnapshotError(f"the snapshot holds a {name}, which no edge of this graph carries; resume it with its own")
    return _adapter(outcomes[name]).validate_python(data["data"])


def _stored_reply(reply: object) -> dict[str, Any]:
    if type(reply) is Exhausted:
        return {"exhausted": _plain(reply)}
    return {"reply": reply.data if type(reply) is Stored else stored(reply)}


def _restored_reply(data: dict[str, Any]) -> object:
    return _adapter(Exhausted).validate_python(data["exhausted"]) if "exhausted" in data else Stored(data["reply"])


def _replied(effect: Effect[Any], data: object) -> Any:
    # mypy does not take a class for hashable.
    kind: Any = type(effect)
    return reply_type(kind).validate_python(data)


def _plain(value: object) -> Any:
    """The data of a value, as JSON knows it; each of the replies to a batch is dumped as what it is."""
    if type(value) in (tuple, list):
        values: Any = value
        return [_plain(one) for one in values]
    # mypy does not take a class for hashable.
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def remember(error: BaseException, snapshot: Snapshot) -> None:
    """Attach to an exception that ends a run where the run was; the traceback says it too."""
    error.__dict__["graphexec_snapshot"] = snapshot
    spent = snapshot.spent
    error.add_note(
        f"graphexec: the run was at the node {snapshot.node} (iterations: {spent.iterations}, model calls: "
        f"{spent.model_calls}, tool calls: {spent.tool_calls}); snapshot_of(error) is its state"
    )


def snapshot_of(error: BaseException) -> Snapshot | None:
    """Return where the run was that this exception ended (`KeyboardInterrupt` included), or `None`."""
    found = error.__dict__.get("graphexec_snapshot")
    return found if isinstance(found, Snapshot) else None
