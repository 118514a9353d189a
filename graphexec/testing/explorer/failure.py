"""The shortest run that breaks an assertion or in which a node raises: as text, as a path, and as a test."""

from __future__ import annotations

import math
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, final

from graphexec.actions import Steps
from graphexec.effects import AGENT_METERS, agent_limits
from graphexec.errors import (
    CertificateError,
    InputError,
    NodeError,
    UndeclaredCountError,
    UndeclaredEffectError,
    UndeclaredOutcomeError,
)
from graphexec.kernel.counters import MeasureError
from graphexec.kernel.events import Event, Moved
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits, Meter
from graphexec.kernel.node import Edge
from graphexec.kernel.serialization import public_module
from graphexec.testing.explorer import temporal
from graphexec.testing.explorer.stepping import Choice, Over, Stepping
from graphexec.testing.explorer.temporal import BROKEN, Assertion

# The width of the comment in a test, and of an event in a message.
_WIDTH = 110

# Exceptions for nodes that break their declarations, or for bugs of the engine. They are never allowed.
CONTRACT_ERRORS = (
    UndeclaredOutcomeError,
    UndeclaredEffectError,
    UndeclaredCountError,
    MeasureError,
    NodeError,
    CertificateError,
)


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run of `graph` from `start` within `limits`; `choices` are what happened to its requests, in order."""

    graph: Graph[Any, Any]
    limits: Limits
    start: Any
    choices: tuple[Choice, ...]
    events: tuple[Event[Any], ...]

    @property
    def path(self) -> tuple[Edge, ...]:
        """The edges taken, in order. `draw(graph, "mermaid", marks=dict.fromkeys(path, "orange"))` shows them."""
        edges = {(edge.source, edge.outcome): edge for edge in self.graph.edges}
        return tuple(edges[event.node, type(event.outcome)] for event in self.events if type(event) is Moved)

    def describe(self) -> str:
        """Return the edges and choices of the run as text."""
        path = ", ".join(map(str, self.path)) or f"at {self.graph.start}"
        return f"{path}; the world {', '.join(map(str, self.choices)) or 'nothing'}"


@final
@dataclass(frozen=True, slots=True)
class Failure(FoundRun):
    """A shortest run that breaks `assertion`; its last event is the one that breaks it."""

    assertion: Assertion

    def __str__(self) -> str:
        last = textwrap.shorten(str(self.events[-1]), _WIDTH, placeholder="...")
        return f"{self.assertion} does not hold: {self.describe()}; the last event is {last}"


@final
@dataclass(frozen=True, slots=True)
class Raised(FoundRun):
    """A shortest run in which `node` raises `error`; none of its choices is an exception."""

    node: str
    error: Exception

    def __str__(self) -> str:
        return f"{self.node} raises {self.error!r}: {self.describe()}"


def remedy(error: BaseException) -> str:
    """Return the remedy for an exception that a node raises. A broken declaration cannot be allowed."""
    if isinstance(error, CONTRACT_ERRORS):
        return "fix the node"
    return f"let no node raise it, or pass raises=({type(error).__name__},)"


def breaks(
    assertion: Assertion, graph: Graph[Any, Any], limits: Limits, start: object, choices: Sequence[Choice]
) -> bool:
    """Return whether the run from `start` with these `choices` breaks the assertion so far."""
    state = assertion.start
    for event in _replay(Stepping(graph, limits), start, choices):
        state = assertion.after(state, event)
    return state == BROKEN


def raised_by(
    graph: Graph[Any, Any], limits: Limits, start: object, choices: Sequence[Choice], *, context: object = None
) -> Exception | None:
    """Return the exception that a node raises in the run from `start` with these `choices`, or `None`.

    Raises `InputError` for a choice that ends the run: an exception of a handler, or a cancellation.
    """
    if ending := [choice for choice in choices if choice.kind in ("raises", "cancels")]:
        raise InputError(f"one of the choices {ending[0]}, which ends the run; leave it out")
    try:
        list(_replay(Stepping(graph, limits, raising=True, context=context), start, choices))
    except Exception as error:  # noqa: BLE001 - a user's node may raise anything
        return error
    return None


def _replay(stepping: Stepping, start: object, choices: Sequence[Choice]) -> Iterator[Event[Any]]:
    events, then = stepping.start_run(start)
    yield from events
    for choice in choices:
        if not isinstance(then, Over):
            events, then = stepping.advance(then, choice)
            yield from events


def as_test(failure: Failure | Raised, *, machine: str | None = None) -> str:
    """Return the source of a pytest function that repeats the run on the engine, and fails until it is fixed.

    `machine` is source that defines `machine`, the graph: `from app import executor; machine = executor.graph`. Without
    it, the loaded modules are searched for the graph. Classes and functions defined inside a function are written by
    their bare names. Raises `InputError` if the graph is not found.
    """
    source = _Source()
    limits, start = source.of(failure.limits), source.of(failure.start)
    choices = [source.of(choice) for choice in failure.choices]
    if isinstance(failure, Raised):
        source.need(raised_by)
        name = f"{failure.node}_raises_no_{type(failure.error).__name__}"
        held: list[str] = []
        check_line = f"    assert (error := raised_by(machine, {limits}, {start}, choices)) is None, repr(error)"
    else:
        source.need(breaks)
        for named in (*_sentence_words(failure.assertion.text), *failure.assertion.uses):
            source.need(named)
        name = failure.assertion.text
        held = [f"    assertion = {failure.assertion}"]
        check_line = f"    assert not breaks(assertion, machine, {limits}, {start}, choices), str(assertion)"
    identifier = re.sub(r"\W+", "_", name).strip("_").lower()
    lines = [*source.imports(), machine or _import_of(failure.graph), "", ""]
    lines += [
        f"def test_{identifier}() -> None:",
        *(f"    # {line}" for line in textwrap.wrap(str(failure), _WIDTH)),
        *held,
        "    choices = [",
        *(f"        {choice}," for choice in choices),
        "    ]",
        check_line,
    ]
    return "\n".join(lines) + "\n"


class _Source:
    """Convert values to source code, and collect the imports that the code needs."""

    def __init__(self) -> None:
        self._needed: dict[str, set[str]] = {}

    def need(self, named: Any) -> str:
        """Import a class or a function, and return its name."""
        name: str = getattr(named, "__qualname__", "")
        if name.startswith("<") or "<locals>" in name:
            return str(named.__name__)
        if named.__module__ != "builtins":
            self._needed.setdefault(public_module(named), set()).add(name.partition(".")[0])
        return name

    def imports(self) -> list[str]:
        return [f"from {module} import {', '.join(sorted(names))}" for module, names in sorted(self._needed.items())]

    def of(self, value: object) -> str:
        many: Any = value
        if isinstance(value, type):
            return self.need(value)
        if isinstance(value, Enum):
            return f"{self.need(type(value))}.{value.name}"
        if isinstance(value, Steps):
            return f"{self.need(Steps)}([{', '.join(map(self.of, value))}])"
        if isinstance(value, (dict, MappingProxyType)):
            items: Mapping[Any, Any] = many
            return f"{{{', '.join(f'{self.of(key)}: {self.of(one)}' for key, one in items.items())}}}"
        if type(value) in (list, tuple):
            inside = ", ".join(map(self.of, many))
            return f"[{inside}]" if isinstance(value, list) else f"({inside}{',' if len(many) == 1 else ''})"
        if isinstance(value, Limits):
            return self._limits(value)
        if is_dataclass(value):
            return f"{self.need(type(value))}({', '.join(self._format_fields(value))})"
        if not isinstance(value, (str, bytes, int, float, type(None))):
            # A value whose repr is its constructor call, such as a pydantic model.
            self.need(type(value))
        if isinstance(value, float) and not math.isfinite(value):
            return f"float('{value}')"
        return repr(value)

    def _limits(self, limits: Limits) -> str:
        meters = limits.meters
        usual = Limits()
        own = ("iterations", "seconds", "fan_out", "restarts", "depth", "nested_runs")
        given = [f"{name}={value!r}" for name in own if (value := getattr(limits, name)) != getattr(usual, name)]
        if not meters:
            return f"{self.need(Limits)}({', '.join(given)})"
        if meters.keys() <= {meter.name for meter in AGENT_METERS}:
            given += [f"{name}={limit}" for name, limit in meters.items()]
            return f"{self.need(agent_limits)}({', '.join(given)})"
        # A float limit belongs to a meter that counts fractions.
        fractions = {name: ", whole=False" if isinstance(limit, float) else "" for name, limit in meters.items()}
        items = [f"{self.need(Meter)}({name!r}{fractions[name]}): {limit}" for name, limit in meters.items()]
        of_meters = f"{{{', '.join(items)}}}"
        return f"{self.need(Limits)}({', '.join([of_meters, *given])})"

    def _format_fields(self, value: Any) -> list[str]:
        usual = {
            field.name: field.default if field.default_factory is MISSING else field.default_factory()
            for field in fields(value)
            if field.init
        }
        given = {name: getattr(value, name) for name in usual}
        # Compare types, too: `True` equals 1.
        return [
            f"{name}={self.of(one)}"
            for name, one in given.items()
            if type(one) is not type(usual[name]) or one != usual[name]
        ]


def _import_of(graph: Graph[Any, Any]) -> str:
    # If executors exist, their module is loaded.
    executors: Any = getattr(sys.modules.get("graphexec.executor.executor"), "AgentExecutor", ())
    for module, found in list(sys.modules.items()):
        if module == "__main__":
            continue
        for name, value in list(getattr(found, "__dict__", {}).items()):
            if value is graph:
                return f"from {module} import {name} as machine"
            if isinstance(value, executors) and value.graph is graph:
                return f"from {module} import {name}\n\nmachine = {name}.graph"
    raise InputError(
        "the graph has no name in any module; pass the lines that define it: machine='from yours import executor; "
        "machine = ...'"
    )


def _sentence_words(text: str) -> list[object]:
    words = re.findall(r"[A-Za-z_]\w*", re.sub(r"'[^']*'", "", text))
    return [
        vars(temporal)[word]
        for word in dict.fromkeys(words)
        if getattr(vars(temporal).get(word), "__module__", "") == temporal.__name__
    ]
