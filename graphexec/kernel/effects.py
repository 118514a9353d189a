"""Effects: values with typed replies, which nodes yield (`page = yield from ask(Fetch(url))`) and handlers answer.

An effect is a frozen dataclass, `class Fetch(Effect[Page])`. A call is one effect of one run: `CallContext`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType, NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    Union,
    final,
    get_args,
    get_origin,
)

from graphexec.errors import InputError, NodeError, format_value
from graphexec.kernel.meters import Exhausted, Meter, is_count, is_whole

R_co = TypeVar("R_co", covariant=True)
E_co = TypeVar("E_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)
E = TypeVar("E")
R = TypeVar("R")
O = TypeVar("O")  # noqa: E741 - an outcome, throughout the package


class Effect(Generic[R_co]):
    """A request to the world whose reply is an `R`. Subclasses are frozen dataclasses.

    `charges` is the cost of one such effect by meter, in whole numbers of at least 1, paid before it is carried out,
    successful or not. `measures` are the meters that its reply reports, in the order of `measure`. Of a meter in both,
    the charge is a prepayment: the least that such an effect takes.

    Both belong to the class, as a proof knows of no single effect. Raises `NodeError`, when the class is defined, for
    invalid charges, and for measures without a `measure`, and when a node asks for it, if they are fields.
    """

    __slots__ = ()
    charges: ClassVar[Mapping[Meter, int]] = MappingProxyType({})
    measures: ClassVar[tuple[Meter, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        # Any: a class may have a property or a field in its place.
        charges, measures = (getattr(cls, name) for name in _CLASS_WIDE)
        check_class_wide(cls, isinstance(charges, Mapping), isinstance(measures, (tuple, list)))
        for meter, amount in cls.charges.items():
            if not is_whole(amount) or amount < 1 or not meter.whole:
                raise NodeError(
                    f"{cls.__name__} has charges={{{format_value(meter)}: {amount!r}}}; charge a whole meter a whole "
                    f'number, 1 or more: {{Meter("pages"): 1}}'
                )
        # Any: the class of the reply has nothing to do with it.
        if cls.measures and cls.measure is Effect[Any].measure:
            names = ", ".join(map(str, cls.measures))
            raise NodeError(f"{cls.__name__} measures {names} and does not say how; define measure(self, reply)")

    def __ask__(self) -> Generator[Self, Any, R_co]:
        """Ask for this effect alone. `ask` is the way to call it."""
        # The reply comes from outside: from a handler, whose word is taken, or from JSON, read by its type.
        reply: R_co = yield self
        return reply

    def measure(self, reply: Any) -> Sequence[float | None]:
        """Return what the reply (an `R`, which a covariant class cannot say) took of each of `measures`.

        `None` is an amount that the reply does not report: a limit on that meter cannot be kept. The others are at
        least 0 and finite, and whole where the meter is: anything else ends the run with an `InputError`.
        """
        del reply
        return ()

    @property
    def provider_id(self) -> str | None:
        """The id that a model's provider gave the call, if it has one."""
        return None

    def cut(self, exhausted: Exhausted) -> Any:
        """Return the reply to use when the run's deadline cuts this effect, or `None` if the node must be left."""
        del exhausted
        return None


def answers_cut(kind: type[Effect[Any]]) -> bool:
    """Return whether effects of a class have a reply for the deadline that cuts them."""
    # Any: checkers do not know the class of its replies.
    usual: Any = Effect
    return kind.cut is not usual.cut


# What belongs to a class of effects, and how it is written.
_CLASS_WIDE = {
    "charges": 'charges: ClassVar[Mapping[Meter, int]] = {Meter("pages"): 1}',
    "measures": 'measures: ClassVar[tuple[Meter, ...]] = (Meter("pages"),)',
}


def check_class_wide(kind: type[Effect[Any]], *class_wide: bool) -> None:
    """Raise `NodeError` where the charges or the measures of effects are not of their class, but of each of them."""
    for (name, written), is_class_wide in zip(_CLASS_WIDE.items(), class_wide, strict=True):
        if not is_class_wide:
            raise NodeError(
                f"{kind.__name__} has {name} that differ from effect to effect, and limits count by class; write "
                f"{written} in the class, and one class for each price"
            )


class Askable(Protocol[E_co, R_co]):
    """An effect, seen as what it is and what it replies: this is how both types survive `ask`."""

    def __ask__(self) -> Generator[E_co, Any, R_co]: ...


@final
@dataclass(frozen=True, slots=True)
class NestedRuns:
    """What the runs that a machine's calls start charge at most, for its proof: a setting that its nodes are bound to.

    A call that charges `meter` starts up to `attempts` of them. `charges` are rows of a meter, what one such run
    charges by itself, however deep it is, and what it charges with the runs within it; `None` is no bound. The runs
    that the tools `unproved` start are not proved to end.
    """

    meter: str
    attempts: int
    charges: tuple[tuple[str, int | None, int | None], ...]
    unproved: tuple[str, ...] = ()

    @staticmethod
    def merge(several: Sequence[NestedRuns]) -> NestedRuns | None:
        """Return what runs of several kinds charge, which calls of one meter start; `None` of none."""
        if not several:
            return None
        names = dict.fromkeys(name for one in several for name, *_ in one.charges)
        rows = [row for one in several for row in one.charges]

        def most(name: str, place: int) -> int | None:
            counts = [counts[place] for meter, *counts in rows if meter == name]
            known = [count for count in counts if count is not None]
            return max(known) if len(known) == len(counts) else None

        return NestedRuns(
            several[0].meter,
            max(one.attempts for one in several),
            tuple((name, most(name, 0), most(name, 1)) for name in names),
            tuple(name for one in several for name in one.unproved),
        )


@final
@dataclass(frozen=True, slots=True)
class All(Generic[E_co]):
    """Several effects at once; the reply is the tuple of their replies, in the order asked."""

    effects: tuple[E_co, ...]


# What a node yields, whatever its replies are.
Request: TypeAlias = Effect[Any] | All[Effect[Any]]


def members_of(request: Request) -> tuple[Effect[Any], ...]:
    """Return the effects of a batch, or the single effect."""
    return request.effects if isinstance(request, All) else (request,)


def measure_reply(node: str, effect: Effect[Any], reply: object) -> list[tuple[Meter, float | None]]:
    """Return what the reply to an effect of `node` took of each of its `measures`; `None` is not reported.

    Raises `InputError` for an amount that is negative, not finite or not whole, and for another number of amounts.
    """
    # Any: what `measure` returns is the user's word.
    amounts: Sequence[Any] = effect.measure(reply)
    meters = effect.measures
    if not isinstance(amounts, (tuple, list)) or len(amounts) != len(meters):  # pyright: ignore[reportUnnecessaryIsInstance]
        remedy = f"return an amount, or None, for each of {', '.join(map(str, meters))}"
        raise _invalid_measure(node, effect, amounts, remedy)
    for meter, amount in zip(meters, amounts, strict=True):
        if amount is not None and not is_count(amount, whole=meter.whole):
            kind = "a whole number" if meter.whole else "a finite number"
            remedy = f"return {kind} of {meter}, 0 or more, or None if the reply does not say it"
            raise _invalid_measure(node, effect, amount, remedy)
    return list(zip(meters, amounts, strict=True))


def _invalid_measure(node: str, effect: Effect[Any], returned: object, remedy: str) -> InputError:
    asked = f"{node} asked for {type(effect).__name__}"
    return InputError(f"{asked}, whose measure returned {format_value(returned)}; {remedy}")


# The return annotation of a node that asks: `Asks[Fetch | Store, Outcome]`.
Asks: TypeAlias = Generator[E | All[E], Any, O]


def ask(effect: Askable[E, R]) -> Generator[E, Any, R]:
    """Ask for one effect: `page = yield from ask(Fetch(url))`. What its handler raises ends the run."""
    return effect.__ask__()


def ask_all(effects: Sequence[Askable[E, R]]) -> Generator[All[E], Any, tuple[R, ...]]:
    """Ask for several effects at once; the replies come in the order asked. Asking for none answers at once."""
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
    """The identity of a call: the same after a retry and after a resume.

    `sequence` numbers the requests of a run from 1 on, `member` the effects of one request from 0 on.
    """

    run: str
    sequence: int
    member: int

    def __str__(self) -> str:
        return f"{self.run}/{self.sequence}.{self.member}"


class RunScope(Protocol):
    """The common part of a run's calls: its id, its context, and its deadline."""

    @property
    def run_id(self) -> str:
        """The id of the run."""
        ...

    @property
    def context(self) -> Any:
        """What the caller passed as `run(..., context=value)`."""
        ...

    def seconds_left(self) -> float | None:
        """Return the seconds until the run's deadline, 0 or more; `None` without one."""
        ...


@final
class CallContext(Generic[D_co]):
    """A call of a run: the `effect` that `node` asks for, and the run around it.

    Tools, handlers and nodes get it for a parameter annotated `CallContext[User]`, where `User` is the class of the
    run's `context`; events have it as `call`. `charged` is what runs within the call were charged, by meter.
    """

    __slots__ = ("charged", "closed", "effect", "listener", "member", "node", "request", "scope", "sequence")

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
        # `None` of an event that is about no effect, such as the entry into a node.
        self.effect = effect
        # What the node asked for: the effect, or the batch that it is in.
        self.request = request
        self.sequence = sequence
        self.member = member
        self.charged: Mapping[str, float] | None = None
        # Once it is answered nothing more is charged within it.
        self.closed = False
        # Who hears what is reported while it is carried out; the runner's.
        self.listener: Any = None

    @property
    def id(self) -> CallId:
        """The identity of the call."""
        return CallId(self.scope.run_id, self.sequence, self.member)

    @property
    def run_id(self) -> str:
        """The id of the run, which its snapshots keep."""
        return self.scope.run_id

    # Any: a covariant class cannot hold it, and the runner has checked it.
    @property
    def context(self) -> D_co:
        """What the caller passed as `run(..., context=value)`; it is stored nowhere."""
        context: D_co = self.scope.context
        return context

    @property
    def provider_id(self) -> str | None:
        """The id that a model's provider gave the call, if the effect has one."""
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
        # The run's context is stored nowhere, and its clock belongs to this process.
        scope = DetachedScope(self.run_id)
        return type(self), (scope, self.node, self.effect, self.request, self.sequence, self.member)

    def __repr__(self) -> str:
        return f"<call {self.id} of {self.node}>"


def find_call_parameter(hints: Mapping[str, Any]) -> tuple[str | None, type | None]:
    """Return the parameter that is annotated `CallContext`, and the class of context that it wants, if it says one."""
    for name, annotation in hints.items():
        hint = _bare(annotation)
        if hint is CallContext:
            return name, None
        if get_origin(hint) is CallContext:
            (wanted,) = get_args(hint)
            # `Any` is a class, too.
            return name, wanted if isinstance(wanted, type) and wanted not in (object, Any) else None
    return None, None


def _bare(hint: Any) -> Any:
    """Return an annotation without `Annotated` and `None`."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return _bare(kinds[0]) if len(kinds) == 1 else hint
    return hint


@final
class Batch:
    """Several calls at once: the members of one request."""

    __slots__ = ("calls", "open", "request")

    def __init__(
        self, request: All[Effect[Any]], calls: tuple[CallContext[Any], ...], open_: dict[int, object]
    ) -> None:
        self.request = request
        self.calls = calls
        # The positions of those without a reply, now: in a resumed run, not all.
        self.open = open_


@final
class DetachedScope:
    """The scope of a run without a clock: one that is stepped by its caller, or replayed."""

    __slots__ = ("context", "run_id")

    def __init__(self, run_id: str, context: object = None) -> None:
        self.run_id = run_id
        self.context: Any = context

    def seconds_left(self) -> float | None:
        """Return `None`: there is no clock."""
        return None


class OuterRuns(Protocol):
    """The runs around a run that is within a call of theirs: what they allow, and what is charged to them."""

    @property
    def seconds(self) -> float | None:
        """The second of the inner run's clock at which the first of their deadlines is; `None` without one."""
        ...

    @property
    def refusal(self) -> Exhausted | None:
        """Why the inner run may not do anything: it is too deep within others."""
        ...

    def charge(self, amounts: Mapping[str, float], stops: Collection[str]) -> Exhausted | None:
        """Charge every run around, by meter, or none; return what does not allow it.

        `stops` are meters that are only compared with their limits. Raises `AbandonedError` if a call around is over.
        """
        ...

    def settle(self, amounts: Mapping[str, float]) -> None:
        """Charge every run around what a reply has reported beyond what was paid."""
        ...
