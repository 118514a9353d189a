"""Effects: requests that nodes yield (`page = yield from ask(Fetch(url))`) and handlers answer with a typed reply.

An effect is a frozen dataclass, `class Fetch(Effect[Page])`. A call is one effect in one run: `CallContext`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar, final, get_args

from graphexec.errors import InputError, NodeError, format_value
from graphexec.kernel.meters import Exhausted, Meter, is_count, is_whole

R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")
O = TypeVar("O")  # noqa: E741 - an outcome, throughout the package


# What becomes of a call in a stored run that has begun, and has no reply, because its process ended. By default the
# model is told so of a tool.
InDoubt: TypeAlias = Literal["tell", "retry", "ask", "fail"]

# The metadata of a field of a dataclass that is stored as what has the same text for a model.
AS_TEXT: Mapping[str, bool] = {"graphexec.as_text": True}


def fill_slots(kind: type[R]) -> type[R]:
    """Give a frozen dataclass with slots a constructor that fills them directly, for values that each step makes.

    Python's own looks up `object.__setattr__` for each field, and takes twice as long.
    """
    # Any: the constructor is a function.
    usual: Any = kind.__init__
    names = usual.__code__.co_varnames[1 : usual.__code__.co_argcount]
    lines = [
        *(f"fill_{name}(self, {name})" for name in names),
        *["self.__post_init__()"] * hasattr(kind, "__post_init__"),
    ]
    made: dict[str, Any] = {f"fill_{name}": getattr(kind, name).__set__ for name in names}
    exec(f"def __init__(self, {', '.join(names)}): {'; '.join(lines)}", made)  # noqa: S102 - as dataclasses does it
    for name in ("__defaults__", "__annotations__", "__qualname__", "__module__"):
        setattr(made["__init__"], name, getattr(usual, name))
    # The class is made here, and nobody has a value of it yet.
    kind.__init__ = made["__init__"]  # type: ignore[method-assign]
    return kind


class Effect(Generic[R_co]):
    """A request to the outside world whose reply is an `R`. Subclasses are frozen dataclasses.

    `charges` is the cost of one such effect by meter, in whole numbers of at least 1. It is paid before the effect is
    carried out, successful or not. `measures` lists the meters that the reply reports, in the order of `measure`. If a
    meter is in both, its charge is a prepayment: the least that such an effect costs.

    `in_doubt` is for stored runs: what becomes of a call that has begun, and has no reply, because its process ended.
    It is made again ("retry"), a person is asked for its reply ("ask"), the run stops ("fail"), or the reply is what
    `interrupted` returns ("tell").

    They belong to the class, because a proof knows classes of effects, not single ones. Defining the class raises
    `NodeError` for invalid values, for measures without a `measure` method, for "tell" without `interrupted`, and if
    one of them is a field.
    """

    __slots__ = ()
    charges: ClassVar[Mapping[Meter, int]] = MappingProxyType({})
    measures: ClassVar[tuple[Meter, ...]] = ()
    in_doubt: ClassVar[InDoubt] = "retry"

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name, written in _CLASS_WIDE.items():
            # A field hides the attribute of the class, and so does a property.
            if _is_field(cls, name) or not isinstance(getattr(cls, name), (Mapping, tuple, list)):
                raise NodeError(
                    f"{cls.__name__} has {name} that differ from effect to effect, but limits count by class; write "
                    f"{written} in the class, and one class for each amount"
                )
        # A proof is made of them, so nobody changes them afterwards.
        cls.charges, cls.measures = MappingProxyType(dict(cls.charges)), tuple(cls.measures)
        for meter, amount in cls.charges.items():
            if not is_whole(amount) or amount < 1 or not meter.whole:
                raise NodeError(
                    f"{cls.__name__} has charges={{{format_value(meter)}: {amount!r}}}; the meter must count in whole "
                    f'numbers, and the charge be 1 or more: {{Meter("pages"): 1}}'
                )
        # Any: the class of the reply does not matter here.
        if cls.measures and cls.measure is Effect[Any].measure:
            names = ", ".join(map(str, cls.measures))
            raise NodeError(
                f"{cls.__name__} measures {names} but defines no measure method; define measure(self, reply)"
            )
        if cls.in_doubt not in get_args(InDoubt) or _is_field(cls, "in_doubt"):
            example = 'in_doubt: ClassVar = "ask"'
            policies = ", ".join(get_args(InDoubt))
            raise NodeError(f"{cls.__name__} has an invalid in_doubt; write one of {policies} in the class: {example}")
        if cls.in_doubt == "tell" and cls.interrupted is Effect[Any].interrupted:
            raise NodeError(f"{cls.__name__} has in_doubt='tell' but no reply that tells it; define interrupted(self)")

    def __ask__(self) -> Generator[Self, Any, R_co]:
        """Yield this effect and return its reply. Call it through `ask`."""
        # A handler returned the reply, and is trusted; or it was read from JSON, by its type.
        reply: R_co = yield self
        return reply

    def measure(self, reply: Any) -> Sequence[float | None]:
        """Return the amount of each of `measures` that the reply reports; a covariant class cannot annotate an `R`.

        `None` stands for an amount that the reply does not report; if that meter is limited, the run ends with an
        `InputError`. So it does unless all other amounts are finite, at least 0, and whole for a whole meter.
        """
        del reply
        return ()

    @property
    def provider_id(self) -> str | None:
        """The id that the model's provider gave the call, if any."""
        return None

    @property
    def expiry(self) -> tuple[float, Any] | None:
        """In a stored run whose caller answers it later: after so many seconds, this is the reply; `None`: never."""
        return None

    @property
    def reply_choices(self) -> tuple[str, ...]:
        """In a stored run: all answers, for a reply that is a string or has one required field of strings; or none."""
        return ()

    def interrupted(self) -> Any:
        """Return the reply to use with `in_doubt="tell"`: the call has begun, and its process has ended."""
        raise NotImplementedError

    def cut(self, exhausted: Exhausted) -> Any:
        """Return the reply to use if the run's deadline cuts this effect; `None` makes the run leave the node."""
        del exhausted
        return None


def answers_cut(kind: type[Effect[Any]]) -> bool:
    """Return whether effects of this class define their own reply to being cut by the deadline."""
    # Any: type checkers cannot infer the class of the reply.
    usual: Any = Effect
    return kind.cut is not usual.cut


def _is_field(kind: type[Effect[Any]], name: str) -> bool:
    return "ClassVar" not in str(inspect.get_annotations(kind).get(name, ClassVar))


# The class-wide attributes of effects, with an example of each.
_CLASS_WIDE = {
    "charges": 'charges: ClassVar[Mapping[Meter, int]] = {Meter("pages"): 1}',
    "measures": 'measures: ClassVar[tuple[Meter, ...]] = (Meter("pages"),)',
}


class Askable(Protocol[E_co, R_co]):
    """An effect, typed by its own class and by its reply, so that `ask` preserves both types."""

    def __ask__(self) -> Generator[E_co, Any, R_co]: ...


@final
@dataclass(frozen=True, slots=True)
class NestedRuns:
    """The most that the nested runs of a machine's calls charge: a setting of the machine, for the proof.

    A call that charges `meter` starts up to `attempts` nested runs. Each row of `charges` holds a meter, the most that
    one such run charges by itself, and the most including the runs nested in it; `None` is no bound. The runs that the
    tools `unproved` start have no proof of termination.
    """

    meter: str
    attempts: int
    charges: tuple[tuple[str, int | None, int | None], ...]
    unproved: tuple[str, ...] = ()

    @staticmethod
    def merge(several: Sequence[NestedRuns]) -> tuple[NestedRuns, ...]:
        """Return the common bounds of several kinds of nested runs: one for each meter that the calls charge."""
        meters = dict.fromkeys(one.meter for one in several)
        return tuple(_join_runs([one for one in several if one.meter == meter]) for meter in meters)


def _join_runs(several: Sequence[NestedRuns]) -> NestedRuns:
    rows: dict[str, list[tuple[int | None, int | None]]] = {}
    for name, alone, whole in (row for one in several for row in one.charges):
        rows.setdefault(name, []).append((alone, whole))
    return NestedRuns(
        several[0].meter,
        max(one.attempts for one in several),
        tuple(
            (name, _most(one[0] for one in counts), _most(one[1] for one in counts)) for name, counts in rows.items()
        ),
        tuple(name for one in several for name in one.unproved),
    )


def _most(counts: Iterable[int | None]) -> int | None:
    """Return the greatest count; `None`, which is no bound, is greater than all."""
    return max(counts, key=lambda count: math.inf if count is None else count)


@final
@dataclass(frozen=True, slots=True)
class All(Generic[E_co]):
    """A batch: several effects at once. The reply is the tuple of their replies, in the same order."""

    effects: tuple[E_co, ...]


# What a node yields.
Request: TypeAlias = Effect[Any] | All[Effect[Any]]


def members_of(request: Request) -> tuple[Effect[Any], ...]:
    """Return the effects of a batch, or the single effect."""
    return request.effects if isinstance(request, All) else (request,)


def measure_reply(node: str, effect: Effect[Any], reply: object) -> tuple[tuple[Meter, float | None], ...]:
    """Return the amount of each measured meter that the reply reports; `None` if it does not report one.

    Raises `InputError` for an amount that is negative, not finite or not whole, and for a wrong number of amounts.
    """
    meters = effect.measures
    # Any: users write `measure`, which may return anything.
    amounts: Any = effect.measure(reply)
    is_list = issubclass(type(amounts), (tuple, list))
    try:
        measured: tuple[tuple[Meter, Any], ...] = tuple(zip(meters, amounts if is_list else (), strict=True))
    except ValueError:
        remedy = f"return an amount, or None, for each of {', '.join(map(str, meters))}"
        raise _invalid_measure(node, effect, amounts, remedy) from None
    for meter, amount in measured:
        if amount is not None and not is_count(amount, whole=meter.whole):
            kind = "a whole number" if meter.whole else "a finite number"
            remedy = f"return {kind} of {meter}, 0 or more, or None if the reply does not report it"
            raise _invalid_measure(node, effect, amount, remedy)
    return measured


def _invalid_measure(node: str, effect: Effect[Any], returned: object, remedy: str) -> InputError:
    asked = f"{node} asked for {type(effect).__name__}"
    return InputError(f"{asked}, whose measure returned {format_value(returned)}; {remedy}")


# The return annotation of a node that asks: `Asks[Fetch | Store, Outcome]`.
Asks: TypeAlias = Generator[E | All[E], Any, O]


def ask(effect: Askable[E, R]) -> Generator[E, Any, R]:
    """Ask for one effect: `page = yield from ask(Fetch(url))`. An exception of its handler ends the run."""
    return effect.__ask__()


def ask_all(effects: Sequence[Askable[E, R]]) -> Generator[All[E], Any, tuple[R, ...]]:
    """Ask for several effects at once; return their replies in the same order. An empty sequence returns at once."""
    if not effects:
        return ()
    # An Askable[E, R] is an E: `__ask__` yields the effect itself.
    batch: All[Any] = All(tuple(effects))
    replies: tuple[R, ...] = yield batch
    return replies


@dataclass(frozen=True, slots=True)
class Perform(Effect[Any]):
    """Run an opaque node's function on its value; the reply is the node's outcome.

    `call_parameter` is the function's parameter for the call's `CallContext`, if it has one.
    """

    node: str
    function: Callable[..., Any]
    value: object
    call_parameter: str | None = None


class CallId(NamedTuple):
    """The identity of a call: it stays the same after a retry and after a resume.

    `sequence` counts the requests of a run from 1; `member` counts the effects of one request from 0.
    """

    run: str
    sequence: int
    member: int

    def __str__(self) -> str:
        return f"{self.run}/{self.sequence}.{self.member}"


class RunScope(Protocol):
    """The data that all calls of a run share: its id, its context, and its deadline."""

    run_id: str
    # The value that the caller passed as `run(..., context=value)`.
    context: Any

    def seconds_left(self) -> float | None:
        """Return the seconds until the run's deadline, 0 or more; `None` without one."""
        ...


class CallContext(Generic[D_co]):
    """A call in a run: the `effect` that `node` asks for, and the run that it belongs to.

    Tools, handlers and nodes receive it in a parameter annotated `CallContext[User]`, where `User` is the class of the
    run's `context`; events have it as `call`. `charged` holds the charges of the call's nested runs, by meter.
    """

    __slots__ = (
        "charged",
        "closed",
        "effect",
        "frames",
        "listener",
        "member",
        "node",
        "request",
        "scope",
        "sequence",
    )

    def __init__(
        self,
        scope: RunScope,
        node: str,
        effect: Effect[Any] | None,
        request: Request | None,
        sequence: int,
        member: int,
    ) -> None:
        self.scope = scope
        self.node = node
        # `None` in an event that concerns no effect, such as the entry into a node.
        self.effect = effect
        # The effect, or the batch that contains it.
        self.request = request
        self.sequence = sequence
        self.member = member
        self.charged: Mapping[str, float] | None = None
        # A closed call is answered: nested runs can charge nothing more to it.
        self.closed = False
        # Receives what handlers report during the call; set by the runner.
        self.listener: Any = None
        # The frames of the run, in an event that concerns no effect.
        self.frames: Mapping[str, object] | None = None

    @property
    def id(self) -> CallId:
        """The identity of the call."""
        return CallId(self.scope.run_id, self.sequence, self.member)

    @property
    def run_id(self) -> str:
        """The id of the run; its snapshots keep it."""
        return self.scope.run_id

    # Any in the scope: a covariant class cannot store it, and the runner has checked its class.
    @property
    def context(self) -> D_co:
        """The value that the caller passed as `run(..., context=value)`; snapshots do not store it."""
        context: D_co = self.scope.context
        return context

    @property
    def provider_id(self) -> str | None:
        """The id that the model's provider gave the call, if the effect has one."""
        return None if self.effect is None else self.effect.provider_id

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the run's deadline, 0 or more; `None` without one."""
        return self.scope.seconds_left()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CallContext) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __reduce__(self) -> tuple[type[CallContext[Any]], tuple[object, ...]]:
        # The run's context is never stored, and its clock belongs to this process.
        scope = DetachedScope(self.run_id)
        return CallContext, (scope, self.node, self.effect, self.request, self.sequence, self.member)

    def __repr__(self) -> str:
        return f"<call {self.id} of {self.node}>"


@final
@dataclass(slots=True, eq=False)
class Batch:
    """The calls of one batch; `open` has the members without a reply: a resumed run may have some replies already."""

    request: Request | None
    calls: tuple[CallContext[Any], ...]
    open: dict[int, object]


@final
@dataclass(slots=True, eq=False)
class DetachedScope:
    """The scope of a run without a clock: one that its caller steps or replays."""

    run_id: str
    # Any: what the caller passes to the nodes.
    context: Any = None

    def seconds_left(self) -> float | None:
        """Return `None`: there is no clock."""
        return None


class OuterRuns(Protocol):
    """The runs that contain a nested run: what they allow, and what the nested run charges to them."""

    # The second of the nested run's clock at which the first of their deadlines passes.
    seconds: float | None
    # The limit that forbids the nested run altogether, such as the limit on depth.
    refusal: Exhausted | None

    @property
    def limits(self) -> Collection[str]:
        """The names of the limits that they have, by which they may refuse something to the nested run."""
        ...

    def charge(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        """Charge amounts by meter to every outer run, or to none; return the `Exhausted` if a limit refuses.

        `stops` are meters that are only compared with their limits. Raises `AbandonedError` if an outer call has ended.
        """
        ...

    def settle(self, amounts: Mapping[str, float]) -> None:
        """Charge to every outer run what a reply reported beyond what was prepaid."""
        ...
