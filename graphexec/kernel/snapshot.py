"""The state of a run as plain data: its node, its value, the replies of the current visit, and what it has spent."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from graphexec.errors import SnapshotError, format_value, repr_fields
from graphexec.kernel.meters import FrozenMapping, Spent, format_count, is_measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from graphexec.kernel.effects import All, Effect, Request
    from graphexec.kernel.graph import Graph


class OpenCall(Enum):
    """The state of a call without a reply: it is charged, or it will be charged when the run resumes."""

    PAID = "paid"
    UNPAID = "unpaid"


PAID, UNPAID = OpenCall.PAID, OpenCall.UNPAID

NO_FRAMES: FrozenMapping[object] = FrozenMapping({})


def freeze_frames(frames: Mapping[str, object]) -> FrozenMapping[object]:
    """Return the frames of a snapshot as a mapping that cannot change."""
    return FrozenMapping(frames) if frames else NO_FRAMES


def keep_frames(
    frames: Mapping[str, object], kept: AbstractSet[str], saves: str, value: object
) -> Mapping[str, object]:
    """Return the frames of the next node: those of `kept`, and in `saves`, if it is one of them, the value."""
    if not frames and saves not in kept:
        return frames
    saved = {saves: value} if saves in kept else {}
    return freeze_frames({**{name: one for name, one in frames.items() if name in kept}, **saved})


def read_frame(frames: Mapping[str, object], node: str, name: str) -> object:
    """Return the value that the node receives. Raises `SnapshotError` if the run has not saved it."""
    if name not in frames:
        raise SnapshotError(
            f"{node} needs the value with which the run entered {name}, and the snapshot does not have it; resume a "
            "snapshot of this graph"
        )
    return frames[name]


class Replies(tuple[object, ...]):
    """The replies to a batch, as a run records them; the node that asked gets a tuple."""

    __slots__ = ()


def read_recorded(recorded: object, request: Request, outcomes: Mapping[str, type]) -> object:
    """Return the reply to a request that a run has recorded."""
    if type(recorded) is StoredReply:
        return recorded.read(request, outcomes)
    return tuple(recorded) if isinstance(recorded, Replies) else recorded


def read_states(states: Sequence[object], request: All[Effect[Any]], outcomes: Mapping[str, type]) -> list[object]:
    """Return the state of each member of an open batch: its reply, or an `OpenCall`; without states, all are paid."""
    return [
        state.read(effect, outcomes) if type(state) is StoredReply else state
        for state, effect in zip(states or (PAID,) * len(request.effects), request.effects, strict=True)
    ]


# The version of the JSON form. Version 1 had a fixed list of meters.
VERSION = 2


@dataclass(frozen=True, slots=True, repr=False)
class Snapshot:
    """The state of a run between two replies; it belongs to the run's graph.

    `value` is the argument of `node`, and `replies` are the replies of the current visit: a resume replays them to
    bring the node's function back to where it was (the last one may be an `Exhausted`). `entered` is true if the entry
    into the node is charged.

    `open` is the pending request: for each member its reply, or an `OpenCall`. `sequence` is the number of answered
    requests of the run, and `run_id` the run's id. `frames` are the values that embedded graphs have saved for their
    `leave`, by the name of the graph's node. `effects` are the classes of effects that the node asks for, whose replies
    these are; only a run that goes on knows them.
    """

    node: str
    value: object
    replies: tuple[object, ...] = ()
    spent: Spent = field(default=Spent())
    entered: bool = False
    open: tuple[object, ...] = ()
    sequence: int = 0
    run_id: str = field(default="", compare=False)
    frames: Mapping[str, object] = field(default=NO_FRAMES, hash=False)
    effects: tuple[type[Effect[Any]], ...] = field(default=(), compare=False, repr=False)

    def __reduce__(self) -> tuple[type[Snapshot], tuple[object, ...]]:
        # Without the last field, the classes of effects: some are made in their process.
        return Snapshot, tuple(getattr(self, one.name) for one in dataclasses.fields(self)[:-1])

    def __repr__(self) -> str:
        return repr_fields(self)

    def retried(self) -> Snapshot:
        """Return the run with its open calls to be made and charged again; calls with a reply keep it."""
        states = tuple(UNPAID if state is PAID else state for state in self.open)
        kept = any(state is not UNPAID for state in states)
        return dataclasses.replace(self, open=states if kept else ())

    def restarted(self) -> Snapshot:
        """Return the run for a resume after a crash; store it before you resume. It spends one of `restarts`.

        Its open calls are made and charged again.
        """
        spent = dataclasses.replace(self.spent, restarts=self.spent.restarts + 1)
        return dataclasses.replace(self.retried(), spent=spent)

    def to_json(self) -> str:
        """Return the snapshot as JSON, from which the same values are read back.

        Raises `SnapshotError` with the place of a value that would be another one, or that JSON cannot express.
        """
        # Imported here, because only storing needs pydantic.
        from graphexec.kernel.serialization import SERIALIZATION_ERRORS, format_json

        try:
            return format_json(_snapshot_data(self))
        except SERIALIZATION_ERRORS as error:
            raise SnapshotError(f"the state at {self.node} cannot be stored as JSON: {error}") from error

    @staticmethod
    def from_json(text: str, graph: Graph[Any, Any]) -> Snapshot:
        """Read a snapshot of `graph`. Raises `SnapshotError` for invalid text, and for a snapshot of another graph."""
        from graphexec.kernel.serialization import (
            INVALID_DATA_ERRORS,
            load_as,
            load_count,
            load_spent,
            load_value,
            parse_json,
        )

        try:
            data = parse_json(text)
            node, value, replies, spent = data["node"], data["value"], data["replies"], data["spent"]
            entered, states = data.get("entered", False), data.get("open", [])
            sequence, run_id = data.get("sequence", 0), data.get("run", "")
            frames = dict(data.get("frames", {}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"this is not a snapshot: it needs node, value, replies and spent: {error!r}") from None
        if (version := data.get("version", 1)) != VERSION:
            raise SnapshotError(
                f"this snapshot has version {format_value(version)}, but this graphexec reads version {VERSION}; "
                f"finish the run with the graphexec that wrote it (0.1 wrote version 1 until it had meters)"
            )
        if not isinstance(node, str) or node not in graph:
            place = node if isinstance(node, str) else format_value(node)
            raise SnapshotError(
                f"the snapshot is at {place}, which is not a node of this graph; resume it with its own graph"
            )
        try:
            return Snapshot(
                node,
                load_value(value, graph.outcomes),
                tuple(_read_reply(reply) for reply in replies),
                load_spent(spent, graph.meters),
                load_as(bool, entered),
                tuple(load_as(OpenCall, state) if isinstance(state, str) else _read_reply(state) for state in states),
                load_count("sequence", sequence),
                load_as(str, run_id),
                freeze_frames({name: load_value(saved, graph.outcomes) for name, saved in frames.items()}),
            )
        except SnapshotError:
            raise
        except INVALID_DATA_ERRORS as error:
            raise SnapshotError(f"the snapshot at {node} does not fit this graph: {error}") from error


def _snapshot_data(snapshot: Snapshot) -> dict[str, Any]:
    from graphexec.kernel.serialization import dump_spent, dump_value

    data = {
        "version": VERSION,
        "node": snapshot.node,
        "value": dump_value(snapshot.value),
        "replies": [
            _reply_data(reply, snapshot, f"reply {number}") for number, reply in enumerate(snapshot.replies, 1)
        ],
        "spent": dump_spent(snapshot.spent),
        "entered": snapshot.entered,
        "open": [
            _state_data(state, snapshot, f"the reply to the call {member}")
            for member, state in enumerate(snapshot.open)
        ],
        "sequence": snapshot.sequence,
        "run": snapshot.run_id,
    }
    if snapshot.frames:
        data["frames"] = {name: dump_value(saved) for name, saved in snapshot.frames.items()}
    return data


def _state_data(state: object, snapshot: Snapshot, place: str) -> Any:
    return state.value if isinstance(state, OpenCall) else _reply_data(state, snapshot, place)


def _reply_data(reply: object, snapshot: Snapshot, place: str) -> dict[str, Any]:
    from graphexec.kernel.serialization import dump_reply

    if type(reply) is StoredReply:
        return {"reply": reply.data}
    return dump_reply(reply, snapshot.effects, place, is_batch=isinstance(reply, Replies))


# Any: a JSON value.
def _read_reply(data: Any) -> object:
    from graphexec.kernel.serialization import load_exhausted

    return load_exhausted(data["exhausted"]) if "exhausted" in data else StoredReply(data["reply"])


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply as JSON data; it is loaded when its effect is known."""

    # Any JSON value.
    data: Any

    def __post_init__(self) -> None:
        given: object = self.data
        if not isinstance(given, dict) or "data" not in given:
            raise TypeError(f"{given!r} is not a stored reply")

    def read(self, effect: Request, outcomes: Mapping[str, type]) -> Any:
        """Load the reply to `effect`. Raises `SnapshotError` for invalid data."""
        from graphexec.kernel.serialization import load_reply

        return load_reply(effect, self.data, outcomes)


def attach_snapshot(error: BaseException, snapshot: Snapshot) -> None:
    """Attach the run's last state to the exception that ends it, and a note to its traceback."""
    noted = "graphexec_snapshot" in error.__dict__
    error.__dict__["graphexec_snapshot"] = snapshot
    if noted:
        # One exception may end several runs, or a run and its outer run: one note is enough.
        return
    spent = snapshot.spent
    amounts = {name: count for name, count in spent.meters.items() if count and not is_measure(name)}
    counts = {"iterations": spent.iterations, **amounts}
    spending = ", ".join(f"{name.replace('_', ' ')}: {format_count(count)}" for name, count in counts.items())
    add_note(error, f"graphexec: the run was at the node {snapshot.node} ({spending}); snapshot_of(error) is its state")


def add_note(error: BaseException, note: str) -> None:
    """Add a note to an exception, if it takes one: the exception itself says more."""
    # A method of the user's class may raise, and its notes may be no list.
    with suppress(Exception):
        error.add_note(note)


def snapshot_of(error: BaseException) -> Snapshot | None:
    """Return the last state of the run that this exception ended, or `None`.

    `error` may be a `KeyboardInterrupt`, and also the exception that asyncio raises instead of a cancellation, such as
    `TimeoutError`.
    """
    found = find_attached(error, "graphexec_snapshot")
    return found if isinstance(found, Snapshot) else None


def find_attached(error: BaseException, name: str) -> object:
    """Return an attribute of an exception, or of the cancellation that it replaced; `None` if neither has it."""
    seen: BaseException | None = error
    # Stop at an `Exception` that was being handled: it may have ended another run.
    while seen is not None and name not in seen.__dict__:
        seen = seen.__cause__ or seen.__context__
        if isinstance(seen, Exception):
            return None
    return None if seen is None else seen.__dict__[name]
