"""All exceptions of graphexec; `GraphexecError` is their base class.

An exception that ends a run carries the run's last state, `snapshot_of(error)`. (If it interrupts a batch, the replies
of that batch are lost.)
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The number of characters of a value that an error shows: enough to recognize it.
_SHOWN = 120
_LONG = 10**30  # An integer this large is shown as a power of ten.


class Portable:
    """Makes an exception picklable, and copyable, with its attributes, notes and cause, whatever its constructor takes.

    What cannot be pickled, such as an effect with a lambda or the machine in a verdict, becomes its `repr`; a cause is
    left out.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[object, ...]:
        assert isinstance(self, BaseException), "it is a part of exceptions"
        args = tuple(one if type(one) is str else _pickle(one) or format_value(one) for one in self.args)
        state = {name: _pickle(value) or format_value(value) for name, value in vars(self).items()}
        if self.__cause__ is not None and (cause := _pickle(self.__cause__)) is not None:
            state["__cause__"] = cause
        return _make_exception, (type(self), args), {**state, "__suppress_context__": self.__suppress_context__}

    def __copy__(self) -> BaseException:
        assert isinstance(self, BaseException), "it is a part of exceptions"
        import copy

        # As pickled, too.
        return copy.deepcopy(self)


class _Pickled:
    """The bytes of a pickled value, from which the value itself is unpickled."""

    __slots__ = ("_bytes",)

    def __init__(self, content: bytes) -> None:
        self._bytes = content

    def __reduce__(self) -> tuple[object, ...]:
        import pickle

        return pickle.loads, (self._bytes,)


def _pickle(value: object) -> _Pickled | None:
    """Pickle a value once, so that the time is linear in a chain of causes; `None` if that or the reverse fails."""
    import pickle

    try:
        content = pickle.dumps(value)
        # Some exceptions of other libraries can be pickled, and not unpickled.
        pickle.loads(content)  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001 - a user's class may raise anything
        return None
    return _Pickled(content)


def _make_exception(kind: type[BaseException], args: tuple[object, ...]) -> BaseException:
    # Without the constructor, which makes the message from other arguments.
    error = kind.__new__(kind)
    error.args = args
    return error


class GraphexecError(Portable, Exception):
    """The base class of every exception that graphexec defines for its users."""


class NodeError(GraphexecError, TypeError):
    """A function cannot be a node, or a value that is not a node is used as one."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One error in a table: `text` says what is wrong and how to fix it.

    `code` is stable (`graphexec.verify.CODES` has the titles). `node` and `outcome` are names, if the fault concerns a
    single node or outcome.
    """

    code: str
    node: str | None
    outcome: str | None
    text: str

    def __str__(self) -> str:
        return self.text


class GraphError(GraphexecError, ValueError):
    """A table is invalid. `faults` holds every fault, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(fault.text for fault in self.faults))


class ToolDefinitionError(GraphexecError, TypeError):
    """A function cannot be a tool, or two tools of one set share a name."""


class LimitsError(GraphexecError, ValueError):
    """A limit is negative or not a number. Zero is a limit; `None` means no limit."""


class InputError(GraphexecError, ValueError):
    """An option, a prompt, the inputs of a run or a reply are invalid. `missing` names the missing keys."""

    def __init__(self, text: str, *, missing: Sequence[str] = ()) -> None:
        self.missing = tuple(missing)
        super().__init__(text)


class SignatureError(InputError, TypeError):
    """A call does not fit the function's signature: an option is unknown, or a required argument is missing."""


class UndeclaredOutcomeError(GraphexecError, TypeError):
    """A node returned an outcome that its annotation does not declare. It was not followed."""

    def __init__(self, node: str, outcome: object, declared: Sequence[str]) -> None:
        self.node, self.outcome, self.declared = node, outcome, tuple(declared)
        super().__init__(
            f"{node} returned {an(type(outcome).__name__)}, which its annotation does not declare; it was not "
            f"followed; return one of {', '.join(self.declared)}, or add the class to the annotation and to the table"
        )


class UndeclaredEffectError(GraphexecError, TypeError):
    """A node asked for an effect that its annotation does not declare. It was not carried out."""

    def __init__(self, node: str, effect: object, declared: Sequence[str]) -> None:
        self.node, self.effect, self.declared = node, effect, tuple(declared)
        text = (
            f"{node} asked for {an(type(effect).__name__)}, which its annotation does not declare; it was not carried "
            f"out; ask for one of {', '.join(self.declared)}, or add the effect to Asks[...]"
        )
        if isinstance(effect, Generator):
            # The node passed the result of `ask` to `yield` instead of `yield from`.
            text = f"{node} yielded a generator instead of an effect; write reply = yield from ask(...)"
        super().__init__(text)


class UndeclaredCountError(GraphexecError, TypeError):
    """A node asked for more or fewer effects than it declares. The run does not leave the node, or carries out none."""

    def __init__(self, node: str, asked: int, least: int, most: int | None) -> None:
        self.node, self.asked, self.least, self.most = node, asked, least, most
        declared = f"exactly {least}" if least == most else f"{least} to {most}"
        super().__init__(
            f"{node} asked for {asked} effects in one visit but declares {declared}; ask for that many, or write "
            f"asks=({min(asked, least)}, {max(asked, most or least)})"
        )


class CertificateError(GraphexecError, ValueError):
    """A certificate is malformed, belongs to another machine or other limits, or a step does not lower its rank."""


class MissingHandlerError(GraphexecError, LookupError):
    """No handler answers an effect."""

    def __init__(self, effect: object) -> None:
        self.effect = effect
        name = type(effect).__name__
        super().__init__(
            f"no handler answers {name}; pass handlers={{{name}: a function from {name} to its reply}}, or store the "
            "run until it is answered: run(..., runs=SQLiteRuns('runs.db'))"
        )


class RunSuspended(BaseException):
    """A stored run waits for an answer that nobody has given yet; its caller gets a `Waiting` instead of a result.

    It is no `Exception`, so that tools and nodes around a nested run pass it on.
    """


class AgentError(GraphexecError, TypeError):
    """A callable agent returned something that is neither an action, a list of actions nor a finish."""


class ParseError(GraphexecError, ValueError):
    """A model's reply could not be parsed.

    `observation` is the feedback for the model, `llm_output` the invalid reply. It is `prose` if nothing in it
    looks like an action: then it may be the final answer of a stopped run.
    """

    def __init__(self, text: str, *, observation: str | None = None, llm_output: str = "", prose: bool = False) -> None:
        self.observation, self.llm_output, self.prose = observation, llm_output, prose
        super().__init__(text)


class OutputError(GraphexecError, ValueError):
    """A run with an output type has no instance of it: a limit or a refusal stopped the run, or a node changed it."""


class CallLimitError(GraphexecError, RuntimeError):
    """A `limit`, such as `search_calls`, of so many calls (`value`) is used up, and was to raise in place of a stop."""

    def __init__(self, message: str, *, limit: str, value: float) -> None:
        self.limit, self.value = limit, value
        super().__init__(message)


class SnapshotError(GraphexecError, ValueError):
    """A snapshot does not belong to this graph, or its counts are invalid."""


class ThreadLimitError(GraphexecError, RuntimeError):
    """No thread is available for a call: too many abandoned calls still run, or the system starts no more threads."""


class EventLoopError(GraphexecError, RuntimeError):
    """Async code runs without asyncio's event loop, or uses what belongs to another one; `__cause__` is asyncio's."""


class AbandonedError(GraphexecError):
    """A run in an abandoned thread: its call was cut, or its batch failed, so its result is not needed."""


class NestedRunError(GraphexecError):
    """Code of a run that is in none of its calls started another run, which no limit would count."""


class ModelError(GraphexecError):
    """A model could not answer. `status` is the HTTP status, if there was one."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(text)


class SecretError(GraphexecError, TypeError):
    """A secret, or a model that has one, cannot be pickled or copied."""


class MissingAPIKeyError(ModelError):
    """No API key was passed, and none is in the environment."""


class AuthenticationError(ModelError):
    """The server rejected the API key (401, 403)."""


class ModelNotFoundError(ModelError):
    """The server does not have the model, or the path (404)."""


class RateLimitError(ModelError):
    """Too many requests (429). `retry_after` is the wait in seconds that the server asks for, if any."""

    def __init__(self, text: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(text, status=status)


class QuotaError(RateLimitError):
    """The account has no money or quota left (402, or a code that means it). Waiting does not help."""


class ContextOverflowError(ModelError):
    """The prompt is longer than the model's context. Both counts are in tokens, if the server reports them."""

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        prompt_tokens: int | None = None,
        context_tokens: int | None = None,
    ) -> None:
        self.prompt_tokens, self.context_tokens = prompt_tokens, context_tokens
        super().__init__(text, status=status)


class BadRequestError(ModelError):
    """The server rejected the request (a 4xx status without its own class)."""


class RefusalError(BadRequestError):
    """The model refuses to answer, or a filter of its provider does not let the question or the answer pass."""


class ServerError(ModelError):
    """The server failed (5xx, and 408, 409 and 425)."""


class OverloadedError(ServerError):
    """The server or the model has more requests than it can serve (529, or a code that means it)."""


class ModelConnectionError(ModelError):
    """The connection to the server failed or was interrupted."""


class ModelTimeoutError(ModelError):
    """The server did not answer within the client's timeout. A run's deadline does not raise this: it stops the run."""


class TurnTimeoutError(ModelTimeoutError):
    """A configured rate limit does not admit the call within its timeout. A run's deadline stops the run instead."""


class InvalidReplyError(ModelError):
    """The reply does not follow the protocol, or it was cut short."""


class InvalidCallError(InvalidReplyError):
    """The model wrote a tool call that its provider could not read. Another attempt may succeed."""


class ReplyLimitError(ModelError):
    """The reply exceeds a limit: `limit` is "bytes", "calls", "depth" or "values", and `allowed` its value.

    `seen` is what had been received when the client stopped, so the whole reply may be larger.
    """

    def __init__(
        self, text: str, *, status: int | None = None, limit: str = "", allowed: int = 0, seen: int = 0
    ) -> None:
        self.limit, self.allowed, self.seen = limit, allowed, seen
        super().__init__(text, status=status)


class WeightsError(ModelError):
    """A local model's weights are unavailable: no network, no space on the disk, or a checksum mismatch."""


def an(name: str) -> str:
    """Return the name of a class with its article."""
    return ("an " if name[:1] in "AEIOUaeiou" else "a ") + name


def described(error: BaseException) -> str:
    """Return an exception as a string: its class and its message."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's exception may fail here, too
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def qualified_name(kind: type[BaseException]) -> str:
    """Return the name of an exception's class, with its module unless it is a builtin: `my_tools.PaymentError`."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def format_value(value: object) -> str:
    """Return the `repr` of a value on one line, cut to 120 characters; a class is shown by its name.

    A string that is cut has its closing quote.
    """
    if type(value) is int:
        return format_integer(value)
    try:
        text = f"{value.__name__}, a class" if isinstance(value, type) else " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - a user's `repr` may raise, and Python refuses to format very long integers
        text = f"<{type(value).__name__} that cannot be shown>"
    if len(text) <= _SHOWN:
        return text
    end = f"…{text[-1]}" if isinstance(value, str) else "…"
    return f"{text[: _SHOWN - len(end)]}{end}"


def format_integer(number: int, spec: str = "") -> str:
    """Return an integer in the format `spec`, such as `","`, or as `1.0e+5000` if it has more than 30 digits."""
    if abs(number) < _LONG:
        return format(number, spec)
    # Python formats at most 4,300 digits, and a float holds at most 308.
    shift = int(math.log10(abs(number))) - 17
    mantissa, _, exponent = f"{number // 10**shift:.1e}".partition("e")
    return f"{mantissa}e+{int(exponent) + shift}"


def format_number(number: float) -> str:
    """Return a number with commas, or as `1.0e+5000` if it has more than 30 digits."""
    return f"{number:,g}" if number != int(number) else format_integer(int(number), ",")


def repr_fields(value: Any) -> str:
    """Return the `repr` of a dataclass, even if it contains integers that Python refuses to format."""
    parts = [f"{field.name}={format_repr(getattr(value, field.name))}" for field in fields(value) if field.repr]
    return f"{type(value).__qualname__}({', '.join(parts)})"


def format_repr(value: object) -> str:
    """Return the `repr` of a value, even if it contains integers that Python refuses to format."""
    # Any: a mapping or a tuple may contain values of any type.
    several: Any = value
    if type(value) is int:
        return format_integer(value)
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name!r}: {format_repr(one)}' for name, one in several.items())}}}"
    if type(value) is tuple:
        return f"({', '.join(map(format_repr, several))}{',' * (len(several) == 1)})"
    return repr(value)


def close_names(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names that are most similar to `name`, the closest first. `cutoff` is `difflib`'s, from 0 to 1."""
    # These lengths may be similar enough. A name of a million characters would be indexed otherwise.
    possible = [one for one in names if 2 * min(len(one), len(name)) >= cutoff * (len(one) + len(name))]
    if not possible:
        return []
    import difflib

    return difflib.get_close_matches(name, possible, n=most, cutoff=cutoff)


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "", *, most: int = 1, before: str = "") -> str:
    """Return `before` and "did you mean ...?" with the closest of `names`, or `otherwise` if none is close."""
    close = close_names(name, names, most=most)
    return f"{before}did you mean {' or '.join(close)}?" if close else otherwise
