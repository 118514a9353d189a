"""Pieces: nodes that an agent's machine takes as one, by the classes of outcomes that they take; and their seats."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, final

from graphexec._arguments import VARIABLE, Constraint, validate
from graphexec.actions import AgentFinish, StoppedResponse
from graphexec.agents import Agent
from graphexec.agents.calls import CallRules
from graphexec.effects import CallTool
from graphexec.errors import Fault, GraphError, InputError, ModelError, format_value
from graphexec.executor.nodes import Edit
from graphexec.executor.outcomes import Acted, Observed, Ready, Replied, Stopped, limit_reached
from graphexec.kernel.effects import Effect
from graphexec.kernel.node import Node, node
from graphexec.messages import ModelReply
from graphexec.messages.stored import StoredForm
from graphexec.runtime.handlers import HandlerLike
from graphexec.tools import AnyTool

# The outcomes of an agent's machine. Each class has a home, the node where its edges lead; see `HOMES`.
Flow: TypeAlias = Ready | Replied | Acted | Observed | AgentFinish | Stopped | StoppedResponse

# The home of each class: the name of the node that takes it, or of the end.
HOMES: Mapping[type, str] = {
    Ready: "plan",
    Replied: "parse",
    Acted: "dispatch_tools",
    Observed: "check_return_direct",
    Stopped: "stopped_response",
    AgentFinish: "END",
    StoppedResponse: "END",
}


class Output(Protocol):
    """The type of the answers of an executor's runs, for `graphexec.nodes.output_type`."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of the type."""
        ...

    def edit_for(self, agent: Agent) -> Edit | None:
        """Return what changes an agent's requests so that the model answers with the type; `None` to leave them."""
        ...

    def restore(self, value: object) -> Any:
        """Return the instance in an answer that a node has returned. Raises `OutputError` if there is none."""
        ...

    def dump(self, instance: object, source: object) -> tuple[StoredForm, Any]:
        """Return what `load` makes the same instance of. Raises `ValueError` if there is nothing."""
        ...

    def load(self, form: StoredForm, stored: Any) -> Any:
        """Return the instance in an answer that a snapshot has stored. Raises `OutputError` if there is none."""
        ...


_NODES = Constraint(
    "a tuple of nodes",
    lambda value: isinstance(value, tuple) and all(isinstance(one, Node) for one in value),  # pyright: ignore[reportUnknownVariableType]
)


@final
@dataclass(frozen=True)
class Piece:
    """Nodes that `executor.plug` puts into an agent's machine, with what they need.

    A node that takes a class with a home (`Ready`, `Replied`, `Acted`, `Observed`, `AgentFinish`, `StoppedResponse`,
    `Stopped`) sits on every edge of that class to its home. Other nodes take the piece's own classes,
    which only its nodes return. Where a node leads follows from what it returns: to the piece's node that takes the
    class, else to the class's home, through the pieces that sit before it.

    - `name`: of the piece in `unplug`, in `seats` and in pictures.
    - `once`: its node that takes `Ready` runs before the first decision only.
    - `tools` are offered to the model, and `handlers` answer the effects of the nodes.
    - `edits(request, run)` returns the request to send instead of a request of the agent.
    - `reveals`: the endings that its nodes return are for people only, so no model may be asked after them.
    - `gates`: it decides which tools may be called, so it sits behind the pieces that may change the calls. If it runs
      `once` and gates or reveals, nothing may ask before it.
    - `limits`: it counts the calls of its `tool_names`, or of all tools if it has none. A person who edits a call makes
      none that it has not counted.
    - `acts`: it carries out calls itself, so it sits behind the pieces that gate.
    - `tool_names`: the names of the tools that its options name; the executor must have all of them.
    - `tool_limits`: the most calls of tools in a run, by name. Its nodes answer further calls, and the engine refuses
      them, so that the proof counts no more.
    - `ungated`: the names of the tools that its own agents may call without a piece of theirs that gates them. A piece
      that gates one of them cannot be plugged beside it.
    - `catches(error)` returns the reply in place of an error of the agent's model, or `None`. Its node that takes
      `Replied` then comes last before the reply is parsed.
    - `output`: the type of the answers that it lets pass; see `output_type`.
    - `fit(rules)` returns its nodes for an executor's agent and tools, in place of `nodes`, or raises what it lacks.

    A node that asks and has no `when_spent` gets `limit_reached`. Raises `InputError` for an invalid
    name, and for nodes of which none takes a class with a home, or two take the same class.
    """

    name: str
    nodes: tuple[Node[Any, Any], ...] = ()
    once: bool = False
    tools: tuple[AnyTool, ...] = ()
    handlers: Mapping[type[Effect[Any]], HandlerLike] = field(default_factory=dict[Any, Any])
    edits: Edit | None = None
    reveals: bool = False
    gates: bool = False
    limits: bool = False
    acts: bool = False
    tool_names: tuple[str, ...] = ()
    tool_limits: Mapping[str, int] = field(default_factory=dict[str, int])
    ungated: tuple[str, ...] = ()
    catches: Callable[[ModelError], ModelReply | None] | None = None
    output: Output | None = None
    fit: Callable[[CallRules], tuple[Node[Any, Any], ...]] | None = None

    def __post_init__(self) -> None:
        validate("a piece", ("name", self.name, VARIABLE), ("nodes", self.nodes, _NODES))
        nodes = tuple(dataclasses.replace(_charge(one), group=self.name) for one in self.nodes)
        object.__setattr__(self, "nodes", nodes)
        object.__setattr__(self, "tools", tuple(self.tools))
        object.__setattr__(self, "acts", self.acts or any(map(_calls_tools, self.entries(Acted))))
        taken = [kind for one in nodes for kind in one.takes]
        if twice := [kind.__name__ for kind in taken if taken.count(kind) > 1]:
            raise InputError(f"the piece {self.name} has two nodes that take {twice[0]}; make two pieces of it")
        if nodes and not any(kind in HOMES for kind in taken):
            homes = ", ".join(kind.__name__ for kind in HOMES)
            names = ", ".join(kind.__name__ for kind in taken)
            raise InputError(f"the piece {self.name} takes {names}, which has no home; take one of {homes}")

    @property
    def takes(self) -> tuple[type, ...]:
        """The classes with a home that its nodes take, in the order of the nodes."""
        return tuple(kind for one in self.nodes for kind in one.takes if kind in HOMES)

    def entries(self, kind: type) -> tuple[Node[Any, Any], ...]:
        """Return the node that takes a class, or nothing."""
        return tuple(one for one in self.nodes if kind in one.takes)

    def inside(self, entry: Node[Any, Any]) -> list[Node[Any, Any]]:
        """Return the nodes that the piece's own classes lead to from one of its nodes, and that node."""
        found = [entry]
        for one in found:
            own = [kind for kind in one.outcomes if kind not in HOMES]
            found += [other for kind in own for other in self.entries(kind) if other not in found]
        return found

    def __repr__(self) -> str:
        return f"<piece {self.name}: {', '.join(kind.__name__ for kind in self.takes) or 'no nodes'}>"


def _calls_tools(one: Node[Any, Any]) -> bool:
    """Return whether a node calls tools, or an embedded executor's node within it."""
    parts = (one,) if one.inner is None else one.inner.nodes
    return any(CallTool in part.effects for part in parts)


def _charge(one: Node[Any, Any]) -> Node[Any, Any]:
    if one.kind == "pure" or one.when_spent is not None:
        return one
    return node(when_spent=limit_reached)(one)


# What `plug` takes: a piece, or a node, which is a piece of its own name.
Plugged: TypeAlias = (
    Piece
    | Node[Ready, Flow]
    | Node[Replied, Flow]
    | Node[Acted, Flow]
    | Node[Observed, Flow]
    | Node[AgentFinish, Flow]
    | Node[StoppedResponse, Flow]
    | Node[Stopped, Flow]
)


def to_pieces(nodes: Sequence[Plugged]) -> tuple[Piece, ...]:
    """Return the pieces of the option `nodes`. Raises `InputError` for what is not a list of them."""
    # Users without a type checker pass one piece.
    given: Any = nodes
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InputError(f"nodes is {format_value(given)}; give a list of pieces: nodes=[...]")
    return tuple(map(to_piece, nodes))


def to_piece(given: Plugged) -> Piece:
    """Return a piece: itself, or a piece of one node. Raises `InputError` for anything else."""
    if isinstance(given, Piece):
        return given
    if isinstance(given, Node):  # pyright: ignore[reportUnnecessaryIsInstance]
        return Piece(given.name, (given,))
    # Users without a type checker pass functions.
    called: Any = given
    if isinstance(called, type) or not callable(called) or not hasattr(called, "__code__"):
        raise InputError(f"{format_value(called)} is not a piece; pass a piece such as approve_tools(...), or a node")
    name = called.__name__
    raise InputError(f"{name} is a function; call it, {name}(...), if it makes a piece, or decorate it with @node")


# The seat of pieces that run once.
ONCE = "once"


@final
class Seats(dict[type | str, tuple[str, ...]]):
    """The names of an executor's pieces by the class of outcomes that they take.

    `seats[AgentFinish]` is the names in the order in which a value passes the pieces, and empty without one; a line of
    `str(seats)` is a class. The pieces that run once are those of `seats["once"]`.
    """

    def __missing__(self, kind: type | str) -> tuple[str, ...]:
        return ()

    def __repr__(self) -> str:
        rows = [
            (f"Ready ({ONCE})", [*names, HOMES[Ready]])
            if isinstance(kind, str)
            else (kind.__name__, [*names, HOMES[kind]])
            for kind, names in self.items()
        ]
        width = max((len(name) for name, _ in rows), default=0)
        return "\n".join(f"{name + ':':{width + 1}} {' > '.join(path)}" for name, path in rows) or "no pieces"


def assign_seats(pieces: Sequence[Piece]) -> Seats:
    """Return the seats of pieces. Raises `GraphError` for two pieces of one name."""
    names = [piece.name for piece in pieces]
    twice = dict.fromkeys(name for name in names if names.count(name) > 1)
    if twice:
        text = "{} is plugged twice; give one of them another name, or unplug the first"
        raise GraphError([Fault("GX020", name, None, text.format(name)) for name in twice])
    seats = Seats()
    kinds: tuple[type | str, ...] = (ONCE, *HOMES)
    for kind in kinds:
        chain = [piece for piece in pieces if _sits(piece, kind)]
        # On the way to the model, the first piece of the list is met first; on the way out, it is met last.
        if kind not in (ONCE, Ready, Observed):
            chain.reverse()
        if kind is Acted:
            # First those that may change the calls, then those that gate them, and last those that carry them out.
            chain.sort(key=lambda piece: 2 if piece.acts else int(piece.gates))
        if kind is Replied:
            chain.sort(key=lambda piece: piece.catches is not None)
        if chain:
            seats[kind] = tuple(piece.name for piece in chain)
    return seats


def _sits(piece: Piece, kind: type | str) -> bool:
    if kind == ONCE:
        return piece.once and Ready in piece.takes
    return kind in piece.takes and not (piece.once and kind is Ready)
