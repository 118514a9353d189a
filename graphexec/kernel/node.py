"""Nodes: functions of one value that return one of the outcomes in their annotation."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    Never,
    Protocol,
    TypeAlias,
    TypeVar,
    final,
    get_args,
    get_origin,
    overload,
)

from graphexec._mistakes import explain_calls
from graphexec.errors import NodeError, format_value
from graphexec.kernel.effects import Effect, O, Perform
from graphexec.kernel.meters import ITERATIONS, Exhausted, Meter, is_number, make_measure
from graphexec.kernel.signatures import (
    accepts,
    find_call_parameter,
    name_of,
    read_classes,
    read_count,
    read_effects,
    read_hints,
    read_spent_outcome,
)

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from graphexec.kernel.tables import Subgraph


@final
class End:
    """The end of a run: the target of an edge whose outcome is the run's result."""

    __slots__ = ()
    name = "END"

    def __repr__(self) -> str:
        return self.name


END = End()


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition: outcomes of the class `outcome` lead from `source` to `target` (or `"END"`) and reset `resets`."""

    source: str
    outcome: type
    target: str
    resets: tuple[Meter, ...] = ()

    def __str__(self) -> str:
        resets = f" (resets {', '.join(map(str, self.resets))})" if self.resets else ""
        return f"{self.source} --{self.outcome.__name__}{resets}--> {self.target}"


In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
I = TypeVar("I")  # noqa: E741 - what a node takes, throughout the package
W = TypeVar("W")
W_co = TypeVar("W_co", covariant=True)

# pure: runs inside the engine, so it must not do I/O.  asks: yields effects.  opaque: is one effect itself.
NodeKind: TypeAlias = Literal["pure", "asks", "opaque"]

# The number of effects per visit: an exact number, or (least, most).
Count: TypeAlias = int | tuple[int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """A value that a run keeps while it is in a subgraph: `name.enter` saves its argument, `name.leave` receives it.

    `parameter` is the parameter of `name.leave` for it; it is empty in `name.enter`.
    """

    name: str
    parameter: str = ""


@dataclass(frozen=True, slots=True)
class Quota:
    """A meter of which each effect of a node costs one, if it `counts` the effect. Without a name it costs nothing."""

    name: str
    limit: int | None
    counts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node(Generic[In_contra, Out_co]):
    """A named step of a machine, from a value of `In` to one of the outcomes `Out`.

    `takes` and `outcomes` are the annotated classes, `effects` the effects that the node may ask for. An entry costs
    one of each of `meters`. When a limit stops the node, `when_spent` returns its outcome, a `spent_outcome`. A visit
    asks for `least` to `most` effects (`None`: any number). If it has `quotas`, it asks only for effects that one of
    them counts, and the first of these is charged. A node with a `grace` is reserved. `parameters` are the further
    parameters of its function, with their classes; a run fills them from the settings of its graph, or from its own
    `settings`, those of an embedded graph. With one of the exceptions `raises` it ends the run by intent: that is an
    exit of the machine. `group` is the name of the piece that the node belongs to, and empty for a node of the base
    machine: pictures group by it; within an embedded graph it has the prefix of the names, `research.critic`. Created
    by `node` and `embed`.
    """

    name: str
    kind: NodeKind
    # The original function; what it returns depends on the kind.
    function: Callable[Concatenate[In_contra, ...], Any]
    takes: tuple[type, ...]
    # The classes of `Out_co`: `returns` and `spent_outcome`.
    outcomes: tuple[type, ...]
    returns: tuple[type, ...]
    effects: tuple[type[Effect[Any]], ...] = ()
    meters: tuple[Meter, ...] = ()
    when_spent: Callable[[Any, Exhausted], object] | None = None
    spent_outcome: type | None = None
    least: int = 0
    most: int | None = None
    quotas: tuple[Quota, ...] = ()
    # Seconds beyond the run's deadline, for a reserved node.
    grace: float | None = None
    parameters: Mapping[str, tuple[type, ...]] = field(default_factory=dict[str, tuple[type, ...]])
    # The graph that takes the node's place.
    inner: Subgraph | None = None
    # The function's parameter for the `CallContext`, and the class of context that it requires.
    call_parameter: str | None = None
    context_type: type | None = None
    # The piece that plugged the node into its machine.
    group: str = ""
    # Those of the embedded graph that it belongs to.
    settings: tuple[object, ...] | None = None
    # The saved value of a subgraph, if the node saves or receives it.
    frame: Frame | None = None
    # A natural number that is smaller at each later visit: see `measure`.
    decreases: Callable[[Any], int] | None = None
    raises: tuple[type[Exception], ...] = ()

    @property
    def measure(self) -> Meter:
        """What `decreases` counts down, for `resets=`. Raises `NodeError` for a node without it."""
        if self.decreases is None:
            raise NodeError(f"{self.name} has no measure; write @node(decreases=...), a function of its value")
        return make_measure(self.name)

    def __repr__(self) -> str:
        takes = " | ".join(kind.__name__ for kind in self.takes)
        outcomes = " | ".join(kind.__name__ for kind in self.outcomes)
        return f"<node {self.name}: {takes} -> {outcomes}>"


class MakeNode(Protocol[W_co]):
    """A decorator that makes a node of a function, or of another node; `W` is its outcome when a limit stops it."""

    @overload
    def __call__(self, source: Node[I, O], /) -> Node[I, O | W_co]: ...
    @overload
    def __call__(self, source: Callable[Concatenate[I, ...], Generator[Any, Any, O]], /) -> Node[I, O | W_co]: ...
    @overload
    def __call__(self, source: Callable[Concatenate[I, ...], Coroutine[Any, Any, O]], /) -> Node[I, O | W_co]: ...
    @overload
    def __call__(self, source: Callable[Concatenate[I, ...], O], /) -> Node[I, O | W_co]: ...


@overload
def node(source: Callable[Concatenate[I, ...], Generator[Any, Any, O]], /) -> Node[I, O]: ...
@overload
def node(source: Callable[Concatenate[I, ...], Coroutine[Any, Any, O]], /) -> Node[I, O]: ...
@overload
def node(source: Callable[Concatenate[I, ...], O], /) -> Node[I, O]: ...
@overload
def node(
    *,
    name: str | None = None,
    opaque: bool = False,
    asks: Count | None = None,
    decreases: Callable[[Any], int] | None = None,
) -> MakeNode[Never]: ...
@overload
def node(
    *,
    when_spent: Callable[[Any, Exhausted], W],
    meters: Sequence[Meter] = (),
    asks: Count | None = None,
    grace: float | None = None,
    name: str | None = None,
    opaque: bool = False,
    decreases: Callable[[Any], int] | None = None,
) -> MakeNode[W]: ...
@explain_calls("node", "@node, or @node(when_spent=limit_reached, meters=[ITERATIONS], asks=1)", {})
def node(
    source: Callable[..., Any] | None = None,
    /,
    *,
    when_spent: Callable[[Any, Exhausted], Any] | None = None,
    meters: Sequence[Meter] = (),
    asks: Count | None = None,
    grace: float | None = None,
    name: str | None = None,
    opaque: bool = False,
    decreases: Callable[[Any], int] | None = None,
) -> Node[Any, Any] | MakeNode[Any]:
    """Make a node from a function of one annotated value whose return annotation lists its outcomes.

    - `def f(x: A) -> B | C` is pure: the engine calls it, and calls it again when a run is resumed there. It must do no
      I/O and return promptly, because no deadline can cut it.
    - `def f(x: A) -> Asks[Fetch, B | C]` asks for effects with `yield from ask(...)`.
    - `async def f(x: A) -> B | C` runs arbitrary code, and so does a `def` with `opaque=True`: it is one effect. The
      deadline cuts it (a blocking function is abandoned in its thread). Its outcome is stored, so a resumed run does
      not call it again.

    A parameter annotated `CallContext[User]` receives the visit's `CallContext`, which has the `context` of the run.
    Other parameters without a default, `def f(x: A, translator: Translator) -> B`, receive the settings of their
    classes: see `Graph.with_settings`. `name` is the node's name, if it is not the function's.

    - `when_spent(value, exhausted)` returns the outcome of a visit that a limit stops, which the table routes; a class
      with these two fields will do. Every node that asks needs it.
    - Each entry costs one of each of `meters`, such as `ITERATIONS`. If one of them is used up, the engine calls
      `when_spent` instead of the node.
    - `asks` is the number of effects per visit, exact or as `(least, most)`: proofs rely on it, and the engine enforces
      it. Without it, `Limits.fan_out` limits a visit.
    - With `grace`, in seconds, the effects are reserved: they are counted, but no limit on calls, tokens or cost stops
      them, and they may take so long beyond the run's deadline. Use it for the last answer of a stopped run. If they
      take longer, or after too many restarts, the run leaves the node with `when_spent`'s outcome.
    - `decreases` is the measure of a node in a loop that counts down by itself, and needs no limit: a natural number
      that is smaller at each later visit of a run, `lambda todo: len(todo.rest)`. Proofs rely on it, and the engine
      checks it: a visit whose measure is not smaller, or is no natural number, ends the run with a `MeasureError`. An
      edge with `resets=[work.measure]` allows any measure again, and so does an entry into an embedded graph for the
      nodes in it.

    A node may take the function's place: `node(name="review_again", meters=[REVIEWS], when_spent=stop)(review)` is
    another node, with what `review` has declared and this.

    Raises `NodeError` if an annotation is missing, cannot be resolved, or is not a class, for invalid options, and if
    `when_spent` does not take what the node takes.
    """
    _check_options(when_spent, meters, grace, decreases)

    def make(source: Callable[..., Any] | Node[Any, Any], /) -> Node[Any, Any]:
        if not _is_node(source):
            source = _read_function(source, name_of(source) if name is None else name, opaque=opaque)
        elif opaque:
            raise NodeError(f"{source.name} is a node already; write opaque=True where its function is decorated")
        made = dataclasses.replace(
            source,
            name=source.name if name is None else _valid_name(name),
            meters=tuple(dict.fromkeys((*source.meters, *meters))),
            grace=source.grace if grace is None else float(grace),
            decreases=decreases or source.decreases,
        )
        if asks is not None:
            least, most = read_count(made.name, made.kind, asks)
            made = dataclasses.replace(made, least=least, most=most)
        return _check_declarations(made if when_spent is None else _add_outcome(made, when_spent))

    return make if source is None else make(source)


def _is_node(given: object) -> TypeIs[Node[Any, Any]]:
    return isinstance(given, Node)


def _check_options(when_spent: object, meters: Sequence[Meter], grace: object, decreases: object) -> None:
    """Raise `NodeError` for options of another class: users without a type checker pass any values."""
    if _is_node(when_spent):
        # Users pass the node that the outcome leads to.
        kind = when_spent.takes[0].__name__
        raise NodeError(
            f"when_spent is {when_spent.name}, a node; write when_spent=stop, with def stop(value, limit: Exhausted) "
            f"-> {kind}, and on({kind}, {when_spent.name}) in the table"
        )
    if when_spent is not None and not callable(when_spent):
        remedy = "give a function of the value and the limit, such as limit_reached"
        raise NodeError(f"when_spent is {format_value(when_spent)}; {remedy}")
    if not isinstance(meters, (list, tuple)) or not all(isinstance(one, Meter) and one.whole for one in meters):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeError(f"a node has meters={format_value(meters)}; write meters=[METER], a list of whole meters")
    if any(one.name == ITERATIONS.name and one.limit is not None for one in meters):
        raise NodeError("the limit of iterations belongs in Limits(iterations=...); write meters=[ITERATIONS]")
    if grace is not None and (not is_number(grace) or grace < 0):
        raise NodeError(f"grace is {format_value(grace)}; give seconds, 0 or more")
    if decreases is not None and not callable(decreases):
        raise NodeError(f"a node has decreases={format_value(decreases)}; give a function of the node's value")


def _add_outcome(source: Node[Any, Any], when_spent: Callable[[Any, Exhausted], object]) -> Node[Any, Any]:
    """Return the node with the outcome of `when_spent`."""
    outcome, takes = read_spent_outcome(when_spent)
    strangers = [given.__name__ for given in source.takes if not accepts(takes, given)]
    if strangers:
        remedy = "widen the annotation of its first parameter"
        if isinstance(when_spent, type):
            remedy = "give a function that makes one, as limit_reached makes a Stopped, or widen its field"
        raise NodeError(f"{source.name} takes {', '.join(strangers)}, which {name_of(when_spent)} does not; {remedy}")
    if source.spent_outcome not in (None, outcome):
        raise NodeError(
            f"{source.name} has the outcome {source.spent_outcome.__name__} when a limit stops it, and cannot have "
            f"{outcome.__name__}, too; give the same when_spent"
        )
    outcomes = source.outcomes if outcome in source.outcomes else (*source.outcomes, outcome)
    return dataclasses.replace(source, outcomes=outcomes, when_spent=when_spent, spent_outcome=outcome)


def _check_declarations(made: Node[I, O]) -> Node[I, O]:
    """Return the node. Raises `NodeError` if its declarations do not fit each other."""
    if made.when_spent is None and (made.meters or made.grace is not None):
        raise NodeError(
            f"{made.name} has a limit, but no outcome for it; write when_spent=limit_reached, for example, in its @node"
        )
    if made.grace is not None and made.meters:
        raise NodeError(f"{made.name} is reserved, so its entry costs nothing; leave out meters= or grace=")
    if made.grace is not None and (made.kind != "asks" or made.most is None):
        raise NodeError(f"{made.name} is reserved and needs the number of its effects; write asks=1, or (least, most)")
    return made


def _valid_name(name: str) -> str:
    if not name.isidentifier():
        raise NodeError(f"a node cannot be named {name!r}; define its function with def, or write @node(name=...)")
    return name


def _read_function(function: Callable[..., Any], name: str, *, opaque: bool) -> Node[Any, Any]:
    """Return the node that the annotations of a function describe."""
    hints = read_hints(function, _valid_name(name))
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if not positional:
        raise NodeError(f"{name} takes no value; write def {name}(value: In) -> Out")
    call_parameter, context_type = find_call_parameter({name: hint for name, hint in hints.items() if name != "return"})
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    further = [
        p.name
        for p in parameters
        if p is not positional[0] and p.default is p.empty and p.kind not in variadic and p.name != call_parameter
    ]
    for what in (positional[0].name, *further, "return"):
        if what not in hints:
            raise NodeError(f"{name} does not annotate {what!r}; write def {name}({positional[0].name}: In) -> Out")
    returns = hints["return"]
    effects: tuple[type[Effect[Any]], ...] = ()
    kind: NodeKind = "pure"
    waits = inspect.iscoroutinefunction(function)
    if inspect.isasyncgenfunction(function) or (waits and get_origin(returns) is Generator):
        raise NodeError(
            f"{name} is async def, but a node that asks for effects is def; "
            f"write def {name}(...) -> Asks[Effect, Outcome]"
        )
    if inspect.isgeneratorfunction(function) or get_origin(returns) is Generator:
        if opaque:
            raise NodeError(f"{name} yields effects, so it is not opaque; leave out opaque=True")
        if get_origin(returns) is not Generator:
            raise NodeError(f"{name} yields, but returns {returns!r}; write -> Asks[Effect, Outcome]")
        kind = "asks"
        asked, _, returns = get_args(returns)
        effects = read_effects(name, asked)
    elif opaque or waits:
        kind = "opaque"
        effects = (Perform,)
    declared = read_classes(name, "returns", returns)
    return Node(
        name,
        kind,
        function,
        takes=read_classes(name, f"takes {positional[0].name}", hints[positional[0].name]),
        outcomes=declared,
        returns=declared,
        effects=effects,
        # An opaque node is itself one effect.
        least=int(kind == "opaque"),
        most={"pure": 0, "opaque": 1}.get(kind),
        call_parameter=call_parameter,
        context_type=context_type,
        parameters={one: read_classes(name, f"takes {one}", hints[one]) for one in further},
    )


def require_node(given: object, remedy: str) -> None:
    """Raise `NodeError` with the remedy if `given` is not a node: users without a type checker pass functions."""
    if isinstance(given, str):
        itself = "END, imported from graphexec" if given == "END" else "the node itself"
        raise NodeError(f"{given!r} is a string and not a node; write {itself}, without quotes")
    if not isinstance(given, Node):
        raise NodeError(f"{getattr(given, '__name__', repr(given))} is not a node; {remedy}")
