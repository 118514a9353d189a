"""Handlers, which answer effects, and what a run is given beside its machine and its value."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FunctionType, MappingProxyType
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, TypeVar, final, get_type_hints

from graphexec._arguments import FLAG, FUNCTION, NAME, Constraint, has_methods, optional, validate
from graphexec._mistakes import explain_class
from graphexec._mistakes.remedies import RUN_OPTIONS
from graphexec.errors import InputError, MissingHandlerError, an, format_value
from graphexec.kernel.effects import CallContext, Effect, InDoubt, Perform
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.kernel.program import Proof
from graphexec.kernel.signatures import find_call_parameter
from graphexec.runtime.io import IO
from graphexec.runtime.observers import OBSERVERS, AroundCall, Observer
from graphexec.runtime.threads import check_before_awaiting, current_cancel_scope

if TYPE_CHECKING:
    from graphexec.runtime.stored import RunStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Handler:
    """Answers one class of effects in sync and async runs.

    `answer` is a coroutine function of the effect, its `CallContext`, and the `IO`; it returns the reply. The runner
    enforces the deadline (`call.seconds_left`); a `timed` handler enforces it itself, and is called even if no seconds
    are left. An `instant` handler never waits: it runs without a thread or a task. A run's context must be an instance
    of all `context_types`. `check_access` raises what calls would raise before anything is sent, such as
    `MissingAPIKeyError`.
    """

    # The types of effects and replies are checked where a handler is created: a mapping's type cannot pair them.
    answer: Callable[[Any, CallContext[Any], IO], Coroutine[Any, Any, Any]]
    instant: bool = False
    context_types: tuple[type, ...] = ()
    timed: bool = False
    check_access: Callable[[], None] | None = None
    in_doubt: Callable[[Any], InDoubt] | None = None

    def __post_init__(self) -> None:
        # Users may pass the function of an effect that `handlers` takes.
        if not callable(self.answer):  # pyright: ignore[reportUnnecessaryComparison]
            raise InputError(f"Handler has answer={format_value(self.answer)}; pass a function of an effect")
        if not _takes_three(self.answer):
            # Any: a function of one or two arguments.
            function: Any = self.answer
            made = answering(function)
            object.__setattr__(self, "answer", made.answer)
            object.__setattr__(self, "context_types", self.context_types or made.context_types)


def _takes_three(function: Callable[..., Any]) -> bool:
    """Return whether a function can be called with an effect, its call, and the IO. One in C may not say so."""
    # To read the signature takes as long as the rest of an executor's handlers. Attributes may be those of a decorator.
    if isinstance(function, FunctionType) and not vars(function):
        code = function.__code__
        if (code.co_argcount, code.co_kwonlyargcount) == (3, 0):
            return True
    try:
        inspect.signature(function).bind(*"123")
    except (TypeError, ValueError):
        return False
    return True


# A function, `def` or `async def`, from an effect (and its `CallContext`) to its reply, or a handler.
HandlerLike: TypeAlias = Handler | Callable[[Any], Any] | Callable[[Any, CallContext[Any]], Any]


@final
class Handlers(dict[type[Effect[Any]], Handler]):
    """Handlers by the class of effects. As a setting of a machine, they answer its nodes, also where it is embedded."""


def answering(function: HandlerLike) -> Handler:
    """Make a handler from a function. In an async run a blocking function runs in a thread.

    A parameter annotated `CallContext` receives the call, or else a second parameter without annotation and default.
    """
    if isinstance(function, Handler):
        return function
    is_async = inspect.iscoroutinefunction(function)
    parameter, context_type = _call_parameter(function)

    async def answer(effect: Any, call: CallContext[Any], io: IO) -> Any:
        return await _call_or_await(function, parameter, effect, call, io, is_async=is_async)

    return Handler(answer, context_types=() if context_type is None else (context_type,))


def _call_parameter(function: Callable[..., Any]) -> tuple[str | None, type | None]:
    """Return the parameter that receives the call, and the context's class, if any; annotations may be missing."""
    # Any: the parameters of a partial object are unknown.
    inner: Any = function
    while isinstance(inner, partial):
        inner = inner.func
    try:
        hints = get_type_hints(inner if inspect.isroutine(inner) or isinstance(inner, type) else inner.__call__)
    except (NameError, TypeError):
        hints = {}
    name, context_type = find_call_parameter({name: hint for name, hint in hints.items() if name != "return"})
    return name or _second_parameter(function), context_type


def _second_parameter(function: Callable[..., Any]) -> str | None:
    """Return the second of two required parameters, unless its annotation says that it is no call."""
    try:
        known = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        # A function in C.
        return None
    required = [one for one in known if one.kind == one.POSITIONAL_OR_KEYWORD and one.default is one.empty]
    if len(required) != 2:  # noqa: PLR2004 - the effect and the call
        return None
    annotation: object = required[1].annotation
    # The name in a string may not be importable at run time.
    is_call = annotation is inspect.Parameter.empty or (
        isinstance(annotation, str) and CallContext.__name__ in annotation
    )
    return required[1].name if is_call else None


# Any: the function's own argument and result.
async def _call_or_await(
    function: Any, parameter: str | None, argument: Any, call: CallContext[Any], io: IO, *, is_async: bool
) -> Any:
    if parameter is not None:
        function = partial(function, **{parameter: call})
    if is_async:
        return await io.call_async(function, argument)
    result = await io.call(function, argument)
    # A lambda may return a coroutine.
    if not inspect.iscoroutine(result):
        return result
    check_before_awaiting(result)
    return await io.call_async(lambda: result)


async def _perform(effect: Perform, call: CallContext[Any], io: IO) -> Any:
    is_async = inspect.iscoroutinefunction(effect.function)
    return await _call_or_await(effect.function, effect.call_parameter, effect.value, call, io, is_async=is_async)


def handlers_for(answers: Mapping[type[Effect[Any]], HandlerLike]) -> Handlers:
    """Make handlers from `answers`, and add the handler of opaque nodes. Raises `InputError` for invalid answers."""
    # Users without a type checker may write {"Fetch": fetch} or {Fetch: page}.
    for effect, answer in answers.items():
        if not isinstance(effect, type) or not issubclass(effect, Effect):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"handlers has the key {effect!r}; use an effect class as the key")
        if not isinstance(answer, Handler) and not callable(answer):
            raise InputError(
                f"the handler of {effect.__name__} is {answer!r}; pass a function from the effect to its reply"
            )
    known: dict[type[Effect[Any]], Handler] = {Perform: Handler(_perform)}
    return Handlers(known | {effect: answering(answer) for effect, answer in answers.items()})


# Most machines embed no others, and their runs share this value.
NONE_EMBEDDED: Mapping[str, Handlers] = MappingProxyType({})


def handler_of(call: CallContext[Any], handlers: Handlers, embedded: Mapping[str, Handlers] = NONE_EMBEDDED) -> Handler:
    """Return the handler of a call: of its embedded machine, or of the run. Raises `MissingHandlerError`."""
    if call.node in embedded:
        handlers = embedded[call.node]
    # Any: no effect is `None`, and its class is a key.
    kind: Any = call.effect.__class__
    if kind not in handlers:
        raise MissingHandlerError(call.effect)
    return handlers[kind]


# The default number of effects of a batch that run at once: enough for any sensible fan-out, few enough threads for a
# laptop.
AT_ONCE = 64


@final
@dataclass(frozen=True, slots=True)
class RunContext:
    """The handlers, the limits, the number of effects that run at once, and a clock in seconds.

    With the `proof` of a verdict, a step that this does not allow raises `CertificateError`. `around_call`
    makes a context manager for each call, which is entered in the thread or task that carries out the call: for
    telemetry spans, for example. `overrides` answer the effects of embedded machines before their own handlers do: for
    scripted replies.
    """

    handlers: Handlers
    limits: Limits
    at_once: int = AT_ONCE
    clock: Callable[[], float] = time.monotonic
    proof: Proof | None = None
    around_call: AroundCall | None = None
    overrides: Handlers = field(default_factory=Handlers)

    def handlers_of(self, graph: Graph[Any, Any]) -> Mapping[str, Handlers]:
        """Return the handlers of the nodes of embedded machines, by name; those of the run answer what they do not."""
        embedded = {node.name: node.settings for node in graph if node.settings is not None}
        if not embedded:
            return NONE_EMBEDDED
        known = {
            id(settings): Handlers({**self.handlers, **find_handlers(settings), **self.overrides})
            for settings in embedded.values()
        }
        return {name: known[id(settings)] for name, settings in embedded.items()}

    def all_handlers(self, graph: Graph[Any, Any]) -> list[Handler]:
        """Return the handlers that may answer effects of a run of the graph, each once."""
        several = (self.handlers, *self.handlers_of(graph).values())
        return list({id(one): one for handlers in several for one in handlers.values()}.values())

    def context_types(self, graph: Graph[Any, Any]) -> tuple[type, ...]:
        """Return the classes that the context of a run of the graph must be an instance of."""
        of_nodes = [one.context_type for one in graph if one.context_type is not None]
        of_handlers = [kind for one in self.all_handlers(graph) for kind in one.context_types]
        return tuple(dict.fromkeys([*of_nodes, *of_handlers]))


def find_handlers(settings: Iterable[object]) -> Handlers:
    """Return the handlers among the settings of a machine."""
    return next((one for one in settings if isinstance(one, Handlers)), Handlers())


def iterate_unless_cancelled(items: Iterable[T]) -> Generator[T, None, None]:
    """Yield the items; raise `AbandonedError` once this thread's call is cancelled, and close a generator of them."""
    scope = current_cancel_scope()
    # A generator can be closed.
    close: Callable[[], object] | None = getattr(items, "close", None)
    try:
        for item in items:
            if scope is not None:
                scope.check()
            yield item
    finally:
        if close is not None:
            close()


# The call of an event without an effect stands for a visit, which nothing closes.
_CALL = Constraint(
    "a call of a tool, a handler or an opaque node, which their parameter annotated CallContext gets",
    lambda value: isinstance(value, CallContext) and value.effect is not None,
)


RUNS = has_methods("a store of runs, for example SQLiteRuns('runs.db')", "open", "reply")


@final
@explain_class("run(inputs, context=...)", options=RUN_OPTIONS, name="a run")
@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a single run. `context` is passed to its calls and never stored.

    `run_id` defaults to that of the snapshot, or to a new one. `host` is the call that contains the run, by default the
    current one (`current_call`). `observers` are functions that are called with each event of this run, behind those of
    an executor. `around_call` makes a context manager, such as a telemetry span, for each call, within that of an
    executor; it is entered in the call's thread or task. `continues` returns whether the run goes on in another stream
    after this one is closed; if so, these observers receive no `Failed`. `runs` is the store that keeps the run under
    its `run_id`: one that is there is continued, and with `migrate` also by another version of its machine. Raises
    `InputError` for an invalid option.
    """

    context: Any = field(default=None, repr=False)
    run_id: str | None = None
    host: CallContext[Any] | None = None
    observers: Sequence[Observer] = ()
    around_call: AroundCall | None = None
    continues: Callable[[], bool] | None = None
    runs: RunStore | None = None
    migrate: bool = False

    def __post_init__(self) -> None:
        given = (self.run_id, self.host, self.around_call, self.runs)
        if self.observers == () and given == (None, None, None, None):
            return
        validate(
            "",
            ("observers", self.observers, OBSERVERS),
            ("around_call", self.around_call, optional(FUNCTION)),
            ("run_id", self.run_id, optional(NAME, "a new one")),
            ("host", self.host, optional(_CALL, "the call that this code runs in")),
            ("runs", self.runs, optional(RUNS)),
            ("migrate", self.migrate, FLAG),
        )


class RunSettings(TypedDict, total=False):
    """The fields of `RunOptions`, as keyword arguments."""

    context: Any
    run_id: str | None
    host: CallContext[Any] | None
    observers: Sequence[Observer]
    around_call: AroundCall | None


class StoredSettings(RunSettings, total=False):
    """The keyword arguments of a run that is kept in a store: then it may return a `Waiting`."""

    runs: Required[RunStore]
    migrate: bool


class AnySettings(RunSettings, total=False):
    """The keyword arguments of a run with or without a store."""

    runs: RunStore | None
    migrate: bool


class MachineSettings(RunSettings, total=False):
    """The keyword arguments of a run of a machine: its handlers, its limits and the options of `RunOptions`."""

    handlers: Mapping[type[Effect[Any]], HandlerLike] | None
    limits: Limits | None
    at_once: int
    clock: Callable[[], float]
    overrides: Mapping[type[Effect[Any]], HandlerLike] | None


class StoredMachineSettings(MachineSettings, StoredSettings, total=False):
    """The keyword arguments of a run of a machine that is kept in a store."""


class AnyMachineSettings(MachineSettings, AnySettings, total=False):
    """The keyword arguments of a run of a machine with or without a store."""


class GraphSettings(AnyMachineSettings, total=False):
    """The keyword arguments of a run of a graph."""

    proof: Proof | None


def check_context(context_types: tuple[type, ...], context: object) -> None:
    """Raise `InputError` if a tool, a handler or a node requires another class of context."""
    for wanted in context_types:
        if not _may_be(context, wanted):
            name = wanted.__name__
            given = (
                "the run has no context" if context is None else f"the run's context is {an(type(context).__name__)}"
            )
            raise InputError(
                f"{given}, but a node, handler or tool takes CallContext[{name}]; pass run(..., context={name}(...))"
            )


def _may_be(context: object, wanted: type) -> bool:
    try:
        return isinstance(context, wanted)
    # isinstance does not support typed dicts, most protocols, and Any.
    except TypeError:
        return True
