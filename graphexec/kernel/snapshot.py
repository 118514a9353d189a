"""The state of a run as plain data: its node, its value, the replies of the current visit, and what it has spent."""

from __future__ import annotations

import dataclasses
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from graphexec.errors import SnapshotError, an, format_value, repr_fields
from graphexec.kernel.meters import Exhausted, FrozenMapping, Spent, format_count, is_count, is_measure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphexec.kernel.effects import All, Effect, Request
    from graphexec.kernel.graph import Graph
    from graphexec.kernel.meters import Meter


T = TypeVar("T")


class OpenCall(Enum):
    """The state of a call without a reply: it is charged, or it will be charged when the run resumes."""

    PAID = "paid"
    UNPAID = "unpaid"


PAID, UNPAID = OpenCall.PAID, OpenCall.UNPAID

NO_FRAMES: FrozenMapping[object] = FrozenMapping({})


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
        # Imported here and below, because only storing needs pydantic.
        from graphexec.kernel.serialization import SERIALIZATION_ERRORS, dump_reply, dump_value, format_json

        def dump_state(state: object, place: str) -> Any:
            if isinstance(state, OpenCall):
                return state.value
            if type(state) is StoredReply:
                return {"reply": state.data}
            return dump_reply(state, self.effects, place, is_batch=isinstance(state, Replies))

        spent = {name: getattr(self.spent, name) for name in ("iterations", "seconds", "restarts")}
        try:
            data = {
                "version": VERSION,
                "node": self.node,
                "value": dump_value(self.value),
                "replies": [dump_state(reply, f"reply {number}") for number, reply in enumerate(self.replies, 1)],
                "spent": {**spent, "meters": dict(self.spent.meters)},
                "entered": self.entered,
                "open": [dump_state(one, f"the reply to the call {member}") for member, one in enumerate(self.open)],
                "sequence": self.sequence,
                "run": self.run_id,
            }
            if self.frames:
                data["frames"] = {name: dump_value(saved) for name, saved in self.frames.items()}
            return format_json(data)
        except SERIALIZATION_ERRORS as error:
            raise SnapshotError(f"the state at {self.node} cannot be stored as JSON: {error}") from error

    @staticmethod
    def from_json(text: str, graph: Graph[Any, Any]) -> Snapshot:
        """Read a snapshot of `graph`. Raises `SnapshotError` for invalid text, and for a snapshot of another graph."""
        from graphexec.kernel.serialization import INVALID_DATA_ERRORS, load_value, parse_json

        try:
            data = parse_json(text)
            node, value, replies, spent = data["node"], data["value"], data["replies"], data["spent"]
            version, frames = data.get("version", 1), dict(data.get("frames", {}))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SnapshotError(f"this is not a snapshot: it needs node, value, replies and spent: {error!r}") from None
        if version != VERSION:
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
                tuple(map(_load_reply, replies)),
                _load_spent(spent, graph.meters),
                _load(bool, data.get("entered", False)),
                tuple(map(_load_state, data.get("open", []))),
                _load_count("sequence", data.get("sequence", 0)),
                _load(str, data.get("run", "")),
                FrozenMapping({name: load_value(saved, graph.outcomes) for name, saved in frames.items()}),
            )
        except SnapshotError:
            raise
        except INVALID_DATA_ERRORS as error:
            raise SnapshotError(f"the snapshot at {node} does not fit this graph: {error}") from error


# Any: JSON data, here and below.
def _load_state(data: Any) -> object:
    """Load the state of a member of the open batch: an `OpenCall`, or a reply."""
    return OpenCall(data) if isinstance(data, str) else _load_reply(data)


def _load_reply(data: Any) -> object:
    """Load a reply, or a limit that was reached in the place of a reply."""
    if "exhausted" not in data:
        return StoredReply(data["reply"])
    one = data["exhausted"]
    value, reached = (_load_count(name, one[name], whole=type(one[name]) is int) for name in ("value", "reached"))
    wanted = _load_count("wanted", one["wanted"])
    return Exhausted(_load(str, one["limit"]), value, reached, wanted, _load(bool, one["outer"]))


def _load_spent(data: Any, meters: Mapping[str, Meter]) -> Spent:
    def load_amount(name: str, amount: Any) -> Any:
        whole = meters[name].whole if name in meters else not isinstance(amount, float)
        return _load_count(f"meters[{name!r}]", amount, whole=whole)

    return Spent(
        iterations=_load_count("iterations", data["iterations"]),
        seconds=_load_count("seconds", data["seconds"], whole=False),
        restarts=_load_count("restarts", data["restarts"]),
        meters={name: load_amount(name, amount) for name, amount in data["meters"].items()},
    )


def _load_count(name: str, data: Any, *, whole: bool = True) -> Any:
    if not is_count(data, whole=whole):
        number = "whole" if whole else "finite"
        raise SnapshotError(f"the snapshot has {name}={format_value(data)}; give a {number} number, 0 or more")
    return data


def _load(kind: type[T], data: Any) -> T:
    if not isinstance(data, kind):
        raise TypeError(f"{format_value(data)} is not {an(kind.__name__)}")
    return data


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
