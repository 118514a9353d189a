"""Machines with proofs, and changes of proofs."""

import copy
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, final

from hypothesis import strategies as st

import graphexec as gx
from graphexec.effects import agent_limits
from graphexec.executor import AGENT_EXECUTOR, agent_graph
from graphexec.kernel.serialization import format_json
from tests.kernel.machines import Halted, stub
from tests.verify.bad_machines import CHILD_COUNTED
from tests.verify.proofs import require
from tests.verify.writing import WRITER, Chapter, GivenUp, Text, write

# Keys of objects and indexes of lists, from the outside in.
Path: TypeAlias = tuple[str | int, ...]

# Stands for a removed value.
GONE: Any = object()

# More than a float holds.
HUGE = 10**400


rewrite, tidy = stub("rewrite", Text, Text), stub("tidy", GivenUp, Text)
# Any: a decorator of stubs.
second: Any = gx.node(when_spent=Halted, meters=[gx.ITERATIONS])
second = second(stub("second", Text, Text))
_REWRITING: Any = gx.edges(rewrite, gx.on(Text, gx.END))
_GIVING_UP: Any = gx.on(GivenUp, gx.END)

# A run can count more after its limit is reached, so the number is proved by states.
TIDYING: gx.Machine[Chapter, Any] = gx.graph(
    gx.edges(write, gx.on(Text, gx.END) | gx.on(GivenUp, tidy)) | gx.edges(tidy, gx.on(Text, rewrite)) | _REWRITING,
    start=write,
)
TWICE: gx.Machine[Chapter, Any] = gx.graph(
    gx.edges(write, gx.on(Text, second) | _GIVING_UP)
    | gx.edges(second, gx.on(Text, rewrite) | gx.on(Halted, gx.END))
    | _REWRITING,
    start=write,
)


@final
@dataclass(frozen=True)
class Page(gx.Effect[str]):
    charges: ClassVar[Mapping[gx.Meter, int]] = {gx.Meter("transitions"): 1}


# Its meter has the same name as a bound.
asking: Any = gx.node(when_spent=GivenUp, asks=1)
asking = asking(stub("ask_for_page", Chapter, Text, asks=Page))
COUNTING: gx.Machine[Chapter, Any] = gx.graph(
    gx.edges(asking, gx.on(Text, rewrite) | _GIVING_UP) | _REWRITING, start=asking
)

MACHINES: Mapping[str, tuple[gx.Machine[Any, Any], gx.Limits]] = {
    "agent": (AGENT_EXECUTOR, agent_limits(iterations=3, tool_calls=2, seconds=9, restarts=1, fan_out=2)),
    "strict": (agent_graph(strict=True), agent_limits(iterations=2)),
    "generating": (agent_graph(generate=True), agent_limits(model_calls=2, seconds=30)),
    "embedding": (CHILD_COUNTED, agent_limits(iterations=2)),
    "resetting": (WRITER, gx.Limits(iterations=3)),
    "states": (TWICE, gx.Limits(iterations=1)),
}


def proof_data(name: str) -> dict[str, Any]:
    """Return the JSON data of a machine's certificate."""
    machine, limits = MACHINES[name]
    certificate = require(machine.verify(limits).certificate)
    data: dict[str, Any] = json.loads(certificate.to_json())
    return data


def sealed(data: Mapping[str, Any], **texts: str) -> str:
    """Return certificate data as text with a correct checksum; strings that are keys of `texts` are replaced."""
    data = {name: part for name, part in data.items() if name != "sha256"}
    total = hashlib.sha256(format_json(data, sort_keys=True).encode()).hexdigest()
    text = format_json({**data, "sha256": total})
    for name, other in texts.items():
        text = text.replace(f'"{name}"', other)
    return text


def changed(data: Any, path: Path, new: Any) -> Any:
    """Return a copy of JSON data with the value at a path replaced, mapped or removed."""
    data = copy.deepcopy(data)
    inner = data
    for name in path[:-1]:
        inner = inner[name]
    if new is GONE:
        del inner[path[-1]]
    else:
        inner[path[-1]] = new(inner[path[-1]]) if callable(new) else new
    return data


def paths(data: Any, path: Path = ()) -> list[Path]:
    """Return all paths in JSON data."""
    items: Any = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]
    return [path] * bool(path) + [found for name, one in items for found in paths(one, (*path, name))]


@dataclass(frozen=True)
class Tampering:
    """Changes of a certificate's JSON, and the expected message."""

    machine: str
    changes: tuple[tuple[Path, Any], ...]
    message: str

    def __str__(self) -> str:
        place, new = self.changes[0]
        value = getattr(new, "__name__", None) or ("gone" if new is GONE else str(new))
        return f"{self.machine} {'.'.join(map(str, place))} {value[:20]}"

    def apply(self) -> str:
        """Return the text of the changed certificate."""
        data = proof_data(self.machine)
        for path, new in self.changes:
            data = changed(data, path, new)
        return sealed(data)


def less(value: Any) -> Any:
    return value - 1


def more(value: Any) -> Any:
    return value + 1


def shorter(value: Any) -> Any:
    return value[:-1]


def backwards(value: Any) -> Any:
    return value[::-1]


def doubled(value: Any) -> Any:
    return [*value, value[0]]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4) | st.sampled_from([-1, 0, 1, HUGE]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


CHANGES: list[Callable[[Any], Any] | None] = [None, less, more, shorter, doubled, backwards]


def exchange(proof: Any, path: Path, change: Callable[[Any], Any] | None, value: Any) -> Any:
    """Return the proof with a value changed, or replaced if it cannot be changed."""

    def other(_: Any) -> Any:
        return value

    try:
        return changed(proof, path, change or other)
    except (TypeError, LookupError):
        return changed(proof, path[:1], other)
