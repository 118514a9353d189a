"""Values and replies as JSON, and back: by pydantic, from their annotations."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, get_args, get_origin

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation
from typing_extensions import TypedDict

from graphexec.errors import NodeError, SnapshotError
from graphexec.kernel.effects import All, Effect, Perform, Request
from graphexec.kernel.meters import NOTHING, Counts, Exhausted, Spent

# What pydantic raises for data, and for classes, that have no form in JSON.
INEXPRESSIBLE = (PydanticUserError, PydanticUndefinedAnnotation, ValueError, RecursionError)

# What is raised for data that are not what they should be.
UNFIT = (ValidationError, TypeError, KeyError)


def load_reply(effect: Request, data: Any, outcomes: Mapping[str, type]) -> Any:
    """The reply to `effect` that `stored_reply` stored. Raises `SnapshotError` if it cannot be one."""
    try:
        if isinstance(effect, All):
            return tuple(_read_reply(one, each) for one, each in zip(effect.effects, data["data"], strict=True))
        if isinstance(effect, Perform):
            return load_value(data, outcomes)
        return _read_reply(effect, data["data"])
    except (ValueError, TypeError, KeyError) as error:
        if isinstance(error, SnapshotError):
            raise
        raise SnapshotError(f"a stored reply is not a reply to {type(effect).__name__}: {error}") from error


def dump_value(value: object) -> dict[str, Any]:
    """An outcome or a reply as JSON: its class's name and its data."""
    return {"class": type(value).__name__, "data": plain(value)}


def load_value(data: Any, outcomes: Mapping[str, type]) -> Any:
    """The outcome that `dump_value` stored. Raises `SnapshotError` for a class that the graph does not have."""
    name = data["class"]
    if name not in outcomes:
        raise SnapshotError(f"the snapshot holds a {name}, which no edge of this graph carries; resume it with its own")
    return read_as(outcomes[name], data["data"])


def spent_data(spent: Spent) -> dict[str, Any]:
    """Return what is spent as JSON data."""
    return {
        "iterations": spent.iterations,
        "seconds": spent.seconds,
        "restarts": spent.restarts,
        "budgets": dict(spent.budgets),
        "meters": dict(spent.meters),
    }


class _SpentData(TypedDict):
    iterations: int
    seconds: float
    restarts: int
    budgets: dict[str, int]
    meters: dict[str, int | float]


def read_spent(data: object) -> Spent:
    """Return what `spent_data` stored. Raises pydantic's `ValidationError`."""
    read: _SpentData = _SPENT.validate_python(data)
    budgets, meters = read["budgets"], read["meters"]
    return Spent(
        iterations=read["iterations"],
        seconds=read["seconds"],
        restarts=read["restarts"],
        budgets=Counts(tuple(budgets), tuple(budgets.values())) if budgets else NOTHING,
        meters=Counts(tuple(meters), tuple(meters.values())) if meters else NOTHING,
    )


_SPENT = TypeAdapter(_SpentData)


def stored_reply(reply: object) -> dict[str, Any]:
    """A reply as JSON, or the `Exhausted` that stands in the place of one."""
    return {"exhausted": plain(reply)} if type(reply) is Exhausted else {"reply": dump_value(reply)}


def _read_reply(effect: Effect[Any], data: object) -> Any:
    # mypy does not take a class for hashable.
    kind: Any = type(effect)
    return reply_type(kind).validate_python(data)


def plain(value: object) -> Any:
    """The data of a value, as JSON knows it; each of the replies to a batch is dumped as what it is."""
    if type(value) in (tuple, list):
        values: Any = value
        return [plain(one) for one in values]
    # mypy does not take a class for hashable.
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json")


def read_as(kind: Any, data: object) -> Any:
    """The value of the class `kind` that `data` is. Raises pydantic's `ValidationError`."""
    return _adapter(kind).validate_python(data)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


@cache
def reply_type(effect: type[Effect[Any]]) -> TypeAdapter[Any]:
    """The type of an effect's reply, of `class Fetch(Effect[Page])`. Raises `NodeError` if it has none for JSON."""
    for base in effect.__mro__:
        for generic in getattr(base, "__orig_bases__", ()):
            if get_origin(generic) is Effect:
                (reply,) = get_args(generic)
                try:
                    return TypeAdapter(reply)
                except PydanticSchemaGenerationError as error:
                    raise NodeError(
                        f"{effect.__name__} replies {reply!r}, which cannot be stored as JSON; reply a dataclass or a "
                        f"pydantic model"
                    ) from error
    raise NodeError(f"{effect.__name__} does not say its reply; write class {effect.__name__}(Effect[Reply])")
