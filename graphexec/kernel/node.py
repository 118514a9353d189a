"""Nodes: functions of one value that return one of the outcomes in their annotation."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypeVar,
    final,
    get_args,
    get_origin,
    overload,
)

from graphexec.errors import NodeError, format_value
from graphexec.kernel.effects import Effect, O, Perform
from graphexec.kernel.meters import ITERATIONS, Budget, Exhausted, is_number, make_measure
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
    resets: tuple[Budget, ...] = ()

    def __str__(self) -> str:
        resets = f" (resets {', '.join(map(str, self.resets))})" if self.resets else ""
        return f"{self.source} --{self.outcome.__name__}{resets}--> {self.target}"


In_contra = TypeVar("In_contra", contravariant=True)
Out_co = TypeVar("Out_co", covariant=True)
I = TypeVar("I")  # noqa: E741 - what a node takes, throughout the package
W = TypeVar("W")
T = TypeVar("T")
P = ParamSpec("P")
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
    """A budget of which each effect of a node costs one, if it `counts` the effect. Without a name it costs nothing."""

    name: str
    limit: int | None
    counts: Callable[[Any], bool]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Node(Generic[In_contra, Out_co]):
    """A named step of a machine, from a value of `In` to one of the outcomes `Out`.

    `takes` and `outcomes` are the annotated classes, `effects` the effects that the node may ask for. An entry costs
    one of each of `meters`. When a limit stops the node, `when_spent` returns its outcome, a `spent_outcome`. A visit
    asks for `least` to `most` effects (`None`: any number). If it has `quotas`, it asks only for effects that one of
    them counts, and the first of these is charged. A node with a `grace` is `reserved`. `parameters` are the further
    parameters of its function, with their classes; a run fills them from the settings of its graph, or from its own
    `settings`, those of an embedded graph. With one of the exceptions `raises` it ends the run by intent: that is an
    exit of the machine. `group` is the name of the piece that the node belongs to, and empty for a node of the base
    machine: pictures group by it; within an embedded graph it has the prefix of the names, `research.critic`. Created
    by `node`, `opaque`, `metered`, `charged`, `reserved` and `embed`.
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
    meters: tuple[Budget, ...] = ()
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
    def metered(self) -> bool:
        """True if an entry costs anything."""
        return bool(self.meters)

    @property
    def measure(self) -> Budget:
        """What `decreases` counts down, for `resets=`. Raises `NodeError` for a node without it."""
        if self.decreases is None:
            raise NodeError(f"{self.name} has no measure; write @node(decreases=...), a function of its value")
        return make_measure(self.name)

    def __repr__(self) -> str:
        takes = " | ".join(kind.__name__ for kind in self.takes)
        outcomes = " | ".join(kind.__name__ for kind in self.outcomes)
        return f"<node {self.name}: {takes} -> {outcomes}>"


class MakeNode(Protocol):
    """A decorator that makes a node, as `node` does."""

    @overload
    def __call__(self, function: Callable[Concatenate[I, ...], Generator[Any, Any, O]], /) -> Node[I, O]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[I, ...], Coroutine[Any, Any, O]], /) -> Node[I, O]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[I, ...], O], /) -> Node[I, O]: ...


@overload
def node(function: Callable[Concatenate[I, ...], Generator[Any, Any, O]], /) -> Node[I, O]: ...
@overload
def node(function: Callable[Concatenate[I, ...], Coroutine[Any, Any, O]], /) -> Node[I, O]: ...
@overload
def node(function: Callable[Concatenate[I, ...], O], /) -> Node[I, O]: ...
@overload
def node(*, decreases: Callable[[Any], int]) -> MakeNode: ...
def node(
    function: Callable[..., Any] | None = None, /, *, decreases: Callable[[Any], int] | None = None
) -> Node[Any, Any] | MakeNode:
    """Make a node from a function of one annotated value whose return annotation lists its outcomes.

    - `def f(x: A) -> B | C` is pure: the engine calls it, and calls it again when a run is resumed there. It must do no
      I/O and return promptly, because no deadline can cut it. (Use `opaque` for a function that blocks.)
    - `def f(x: A) -> Asks[Fetch, B | C]` asks for effects with `yield from ask(...)`.
    - `async def f(x: A) -> B | C` runs arbitrary code: it is one opaque effect, which the deadline cuts.

    A parameter annotated `CallContext[User]` receives the visit's `CallContext`, which has the `context` of the run.
    Other parameters without a default, `def f(x: A, translator: Translator) -> B`, receive the settings of their
    classes: see `Graph.with_settings`.

    A node of a loop that counts down by itself needs no limit: `@node(decreases=lambda todo: len(todo.rest))` names its
    measure, a natural number that is smaller at each later visit of a run. Proofs rely on it, and the engine checks it:
    a visit whose measure is not smaller, or is no natural number, ends the run with a `MeasureError`. An edge with
    `resets=[work.measure]` allows any measure again, and so does an entry into an embedded graph for the nodes in it.

    Raises `NodeError` if an annotation is missing, cannot be resolved, or is not a class.
    """
    if function is None:
        if not callable(decreases):
            raise NodeError(f"a node has decreases={format_value(decreases)}; give a function of the node's value")
        return partial(_node, blocking=False, decreases=decreases)
    return _node(function, blocking=False, decreases=decreases)


@overload
def opaque(function: Callable[Concatenate[I, ...], Coroutine[Any, Any, O]], /) -> Node[I, O]: ...
@overload
def opaque(function: Callable[Concatenate[I, ...], O], /) -> Node[I, O]: ...
def opaque(function: Callable[..., Any], /) -> Node[Any, Any]:
    """Make a node from a function that does its own I/O, `def` or `async def`: it is one opaque effect.

    It runs outside the engine, and the deadline cuts it (a blocking function is abandoned in its thread). Its outcome
    is stored, so a resumed run does not call it again. Raises `NodeError` as `node` does.
    """
    return _node(function, blocking=True)


class _Charge(Generic[W_co]):
    """A decorator that adds the outcome of `when_spent` to a node: `metered`, `charged` and `reserved` return one."""

    __slots__ = ("_asks", "_grace", "_meters", "_when_spent")

    def __init__(
        self,
        when_spent: Callable[[Any, Exhausted], W_co],
        *,
        asks: Count | None,
        meters: tuple[Budget, ...] = (),
        grace: float | None = None,
    ) -> None:
        # Users without a type checker pass the node that the outcome leads to.
        # Any: type checkers do not expect a node, and know nothing of its classes.
        given: Any = when_spent
        if isinstance(when_spent, Node):
            raise NodeError(f"when_spent is {given.name}, a node; {_replace_node(given)}")
        if not callable(when_spent):
            remedy = "give a function of the value and the limit, such as limit_reached"
            raise NodeError(f"when_spent is {format_value(when_spent)}; {remedy}")
        self._when_spent = when_spent
        self._meters = meters
        self._asks = asks
        self._grace = grace

    def __call__(self, charged_node: Node[I, O], /) -> Node[I, O | W_co]:
        require_node(charged_node, "put @node below @charged or @metered")
        spent_outcome, takes = read_spent_outcome(self._when_spent)
        strangers = [given.__name__ for given in charged_node.takes if not accepts(takes, given)]
        if strangers:
            remedy = "widen the annotation of its first parameter"
            if isinstance(self._when_spent, type):
                remedy = "give a function that makes one, as limit_reached makes a LimitReached, or widen its field"
            raise NodeError(
                f"{charged_node.name} takes {', '.join(strangers)}, which {name_of(self._when_spent)} does not; "
                f"{remedy}"
            )
        if charged_node.spent_outcome not in (None, spent_outcome):
            raise NodeError(
                f"{charged_node.name} has the outcome {charged_node.spent_outcome.__name__} when one limit stops it "
                f"and {spent_outcome.__name__} when another does; give both decorators the same when_spent"
            )
        grace = charged_node.grace if self._grace is None else self._grace
        meters = tuple(dict.fromkeys((*charged_node.meters, *self._meters)))
        if grace is not None and meters:
            raise NodeError(f"{charged_node.name} is reserved, so its entry costs nothing; leave out @metered")
        own = charged_node.least, charged_node.most
        least, most = own if self._asks is None else read_count(charged_node.name, charged_node.kind, self._asks)
        if grace is not None and most is None:
            text = (
                f"{charged_node.name} is reserved and needs the number of its effects; write asks=1, or (least, most)"
            )
            raise NodeError(text)
        outcomes = charged_node.outcomes
        if spent_outcome not in outcomes:
            outcomes = (*outcomes, spent_outcome)
        return dataclasses.replace(
            charged_node,
            outcomes=outcomes,
            meters=meters,
            when_spent=self._when_spent,
            spent_outcome=spent_outcome,
            least=least,
            most=most,
            grace=grace,
        )


def _replace_node(given: Node[Any, Any]) -> str:
    """Return what to write instead of a node as `when_spent`: its outcome, and the edge that leads to the node."""
    name = given.takes[0].__name__
    function = f"def stop(value, limit: Exhausted) -> {name}"
    return f"write when_spent=stop, with {function}, and on({name}, {given.name}) in the table"


def _require_when_spent(function: Callable[P, T]) -> Callable[P, T]:
    @functools.wraps(function)
    def called(*args: P.args, **named: P.kwargs) -> T:
        if args or "when_spent" not in named:
            remedy = f"write @{function.__name__}(when_spent=limit_reached), for example"
            raise NodeError(f"{function.__name__} needs a when_spent, the outcome for a limit that stops it; {remedy}")
        return function(*args, **named)

    return called


@_require_when_spent
def metered(
    *, when_spent: Callable[[Any, Exhausted], W], budget: Budget = ITERATIONS, asks: Count | None = None
) -> _Charge[W]:
    """Charge one of `budget` for each entry into the node; when a limit stops it, leave it with `when_spent`.

    `when_spent(value, exhausted)` returns an outcome, which the table routes; a class with these two fields will do. If
    the budget is used up, the engine calls it instead of the node. Effects are charged as with `charged`. Several
    `@metered`, one above the other with the same `when_spent`, meter a node by several budgets.

    Raises `NodeError` if `when_spent` does not take what the node takes, and for an invalid budget.
    """
    # Users without a type checker pass a name.
    if not isinstance(budget, Budget):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise NodeError(f"{budget!r} is not a budget; write budget=Budget({str(budget)!r}, 3)")
    if budget.name == ITERATIONS.name and budget.limit is not None:
        raise NodeError(
            "the limit of iterations belongs in Limits(iterations=...); write @metered(when_spent=...) without a budget"
        )
    return _Charge(when_spent, meters=(budget,), asks=asks)


@_require_when_spent
def charged(*, when_spent: Callable[[Any, Exhausted], W], asks: Count | None = None) -> _Charge[W]:
    """Declare the outcome of a node when a limit stops its effects; every node that asks needs this, or `metered`.

    `when_spent` is as in `metered`. `asks` is the number of effects per visit, exact or as `(least, most)`: proofs rely
    on it, and the engine enforces it. Without it, `Limits.fan_out` limits a visit. Entering the node costs nothing.

    Raises `NodeError` as `metered` does, and if the node asks for nothing or `asks` is invalid.
    """
    return _Charge(when_spent, asks=asks)


@_require_when_spent
def reserved(*, when_spent: Callable[[Any, Exhausted], W], asks: Count = 1, grace: float = 10.0) -> _Charge[W]:
    """Reserve the effects of a node: they are counted, but no limit on calls, tokens or cost stops them.

    Use it for the last answer of a stopped run. Its effects may take `grace` seconds beyond the run's deadline. If they
    take longer, or after too many restarts, the run leaves the node with `when_spent`'s outcome.

    Raises `NodeError` as `charged` does, for a node that is metered, and for an invalid grace.
    """
    if not is_number(grace) or grace < 0:
        raise NodeError(f"grace is {grace!r}; give seconds, 0 or more")
    return _Charge(when_spent, asks=asks, grace=float(grace))


def _node(
    function: Callable[..., Any], *, blocking: bool, decreases: Callable[[Any], int] | None = None
) -> Node[Any, Any]:
    if isinstance(function, Node):
        raise NodeError(f"{function.name} is a node already; leave out the second @node")
    name = name_of(function)
    if not name.isidentifier():
        raise NodeError(f"a node cannot be named {name!r}; define its function with def")
    hints = read_hints(function, name)
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
        if blocking:
            raise NodeError(f"{name} yields effects, so it is not opaque; decorate it with @node")
        if get_origin(returns) is not Generator:
            raise NodeError(f"{name} yields, but returns {returns!r}; write -> Asks[Effect, Outcome]")
        kind = "asks"
        asked, _, returns = get_args(returns)
        effects = read_effects(name, asked)
    elif blocking or waits:
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
        decreases=decreases,
    )


def require_node(given: object, remedy: str) -> None:
    """Raise `NodeError` with the remedy if `given` is not a node: users without a type checker pass functions."""
    if isinstance(given, str):
        itself = "END, imported from graphexec" if given == "END" else "the node itself"
        raise NodeError(f"{given!r} is a string and not a node; write {itself}, without quotes")
    if not isinstance(given, Node):
        raise NodeError(f"{getattr(given, '__name__', repr(given))} is not a node; {remedy}")


def rename(source: Node[I, O], name: str) -> Node[I, O]:
    """Return a copy of the node with another name. Raises `NodeError` for an invalid name."""
    if not name.isidentifier():
        raise NodeError(f"a node cannot be named {name!r}; give it a name that a function could have")
    return dataclasses.replace(source, name=name)
