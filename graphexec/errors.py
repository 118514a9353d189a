"""Every exception of graphexec, in one tree whose root is `GraphexecError`.

One that ends a run carries the run's last state, `snapshot_of(error)`. (Of a batch it breaks, earlier replies are
lost.)
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Characters of a value that an error shows: enough to recognize it.
_SHOWN = 120

# From here on an integer is shown as a power of ten.
_LONG = 10**30


class GraphexecError(Exception):
    """The root of every exception that graphexec raises of its own."""


class NodeError(GraphexecError, TypeError):
    """A function cannot be a node, or what is no node stands where one belongs."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong with a table: `text` says what it is and what to write.

    `code` is stable (`graphexec.verify.CODES` has the titles); `node` and `outcome` are names, where it concerns a
    single one.
    """

    code: str
    node: str | None
    outcome: str | None
    text: str

    def __str__(self) -> str:
        return self.text


class GraphError(GraphexecError, ValueError):
    """A table is wrong. `faults` holds everything that is wrong with it, not only the first."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(fault.text for fault in self.faults))


class ToolDefinitionError(GraphexecError, TypeError):
    """A function cannot be a tool, or two tools of one set share a name."""


class LimitsError(GraphexecError, ValueError):
    """A limit is negative or not a number. Zero is a limit, and `None` is none."""


class InputError(GraphexecError, ValueError):
    """An option, a prompt, the inputs of a run or a reply cannot be what they are. `missing` names absent keys."""

    def __init__(self, text: str, *, missing: Sequence[str] = ()) -> None:
        self.missing = tuple(missing)
        super().__init__(text)


class UndeclaredOutcomeError(GraphexecError, TypeError):
    """A node returned an outcome that its annotation does not declare; it was not followed."""

    def __init__(self, node: str, outcome: object, declared: Sequence[str]) -> None:
        self.node = node
        self.outcome = outcome
        self.declared = tuple(declared)
        super().__init__(
            f"{node} returned {an(type(outcome).__name__)}, which its annotation does not declare; it was not "
            f"followed; return one of {', '.join(self.declared)}, or add the class to the annotation and to the table"
        )


class UndeclaredEffectError(GraphexecError, TypeError):
    """A node asked for an effect that its annotation does not declare; it was not carried out."""

    def __init__(self, node: str, effect: object, declared: Sequence[str]) -> None:
        self.node = node
        self.effect = effect
        self.declared = tuple(declared)
        text = (
            f"{node} asked for {an(type(effect).__name__)}, which its annotation does not declare; it was not carried "
            f"out; ask for one of {', '.join(self.declared)}, or add the effect to Asks[...]"
        )
        if isinstance(effect, Generator):
            # What `ask` returns, given to `yield` alone.
            text = f"{node} yielded a generator, which is no effect; write reply = yield from ask(...)"
        super().__init__(text)


class UnhandledOutcomeError(GraphexecError, LookupError):
    """A node of a drafted, unchecked graph returned an outcome that no edge takes."""

    def __init__(self, node: str, outcome: object) -> None:
        self.node = node
        self.outcome = outcome
        name = type(outcome).__name__
        super().__init__(f"{node} returned {an(name)}, which no edge takes; add on({name}, ...) to its row")


class UndeclaredCountError(GraphexecError, TypeError):
    """A node asked for more or fewer effects than it declares. Fewer: it was left no more; more: none was made."""

    def __init__(self, node: str, asked: int, least: int, most: int | None) -> None:
        self.node = node
        self.asked = asked
        self.least = least
        self.most = most
        declared = f"exactly {least}" if least == most else f"{least} to {most}"
        super().__init__(
            f"{node} asked for {asked} effects in one visit and declares {declared}; ask for as many, or change asks="
        )


class CertificateError(GraphexecError, ValueError):
    """A certificate is not one, is not of this machine and limits, or a step does not lower its rank."""


class MissingHandlerError(GraphexecError, LookupError):
    """Nobody answers an effect."""

    def __init__(self, effect: object) -> None:
        self.effect = effect
        name = type(effect).__name__
        super().__init__(f"nobody answers {name}; pass handlers={{{name}: a function from {name} to its reply}}")


class AgentError(GraphexecError, TypeError):
    """A callable agent returned something that is neither an action, a list of actions nor a finish."""


class ParseError(GraphexecError, ValueError):
    """A model's reply could not be read.

    `observation` is the feedback for the model, `llm_output` the unreadable string. It is `prose` if nothing in it
    looks like an action: then it may be the last word of a stopped run.
    """

    def __init__(self, text: str, *, observation: str | None = None, llm_output: str = "", prose: bool = False) -> None:
        self.observation = observation
        self.llm_output = llm_output
        self.prose = prose
        super().__init__(text)


class SnapshotError(GraphexecError, ValueError):
    """A snapshot is not one of this graph, or counts what cannot be counted."""


class ExhaustedError(GraphexecError):
    """A limit of a run does not allow what a call of it asks for."""


class ThreadLimitError(GraphexecError, RuntimeError):
    """There is no thread for a call: too many that were cut off still run, or the system gives no more."""


class AbandonedError(GraphexecError):
    """A run in an abandoned thread: its call was cut, or its batch failed, so nothing waits for its result."""


class ModelError(GraphexecError):
    """A model could not answer. `status` is the HTTP status, where there was one."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        self.status = status
        super().__init__(text)


class MissingAPIKeyError(ModelError):
    """No key was given, and none is in the environment."""


class AuthenticationError(ModelError):
    """The server refuses the key (401, 403)."""


class ModelNotFoundError(ModelError):
    """The server does not know the model, or the path (404)."""


class RateLimitError(ModelError):
    """Too many requests (429). `retry_after` is the wait the server asks for, in seconds, where it says."""

    def __init__(self, text: str, *, status: int | None = None, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(text, status=status)


class ContextOverflowError(ModelError):
    """The prompt is longer than the model's context. Both counts are in tokens, where the server says."""

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        prompt_tokens: int | None = None,
        context_tokens: int | None = None,
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.context_tokens = context_tokens
        super().__init__(text, status=status)


class BadRequestError(ModelError):
    """The server refuses the request (a 4xx without a class of its own)."""


class ServerError(ModelError):
    """The server failed (5xx)."""


class ModelConnectionError(ModelError):
    """No connection to the server, or it broke."""


class ModelTimeoutError(ModelError):
    """The server did not answer within the client's own timeout. The run's deadline is not this: it stops the run."""


class TurnTimeoutError(ModelTimeoutError):
    """A rate limit of yours gives no turn within the call's timeout. A run's deadline stops the run instead."""


class InvalidReplyError(ModelError):
    """The reply is not what the protocol says, or it was cut short."""


class WeightsError(ModelError):
    """A local model's weights cannot be had: offline, no room on the disk, or not the pinned bytes."""


def an(name: str) -> str:
    """Return the name of a class with its article."""
    return ("an " if name[:1] in "AEIOUaeiou" else "a ") + name


def described(error: BaseException) -> str:
    """Return an exception as text: its class, and what it says."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - an exception of the user's may fail at that, too
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def qualified_name(kind: type[BaseException]) -> str:
    """Return the name of an exception's class, with its module unless it is a builtin: `my_tools.PaymentError`."""
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def format_value(value: object) -> str:
    """Return the `repr` of a value on one line, cut to 120 characters; a class is shown by its name."""
    if type(value) is int:
        return format_integer(value)
    try:
        text = f"{value.__name__}, a class" if isinstance(value, type) else " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 - of the user's own, or Python refuses to write so many digits
        text = f"<{type(value).__name__} that cannot be shown>"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def format_integer(number: int, spec: str = "") -> str:
    """Return an integer in the format `spec`, such as `","`; one of more than 30 digits as `1.0e+5000`."""
    if abs(number) < _LONG:
        return format(number, spec)
    # Python writes no more than 4,300 digits, and a float holds no more than 308.
    shift = int(math.log10(abs(number))) - 17
    mantissa, _, exponent = f"{number // 10**shift:.1e}".partition("e")
    return f"{mantissa}e+{int(exponent) + shift}"


def format_number(number: float) -> str:
    """Return a number with commas, or one of more than 30 digits as `1.0e+5000`."""
    return f"{number:,g}" if number != int(number) else format_integer(int(number), ",")


def repr_fields(value: Any) -> str:
    """Return the `repr` of a dataclass, of integers that Python does not write, too."""
    parts = [f"{field.name}={format_repr(getattr(value, field.name))}" for field in fields(value) if field.repr]
    return f"{type(value).__qualname__}({', '.join(parts)})"


def format_repr(value: object) -> str:
    """Return the `repr` of a value, of integers that Python does not write in it, too."""
    # Any: what is in a mapping or a tuple may be anything.
    several: Any = value
    if type(value) is int:
        return format_integer(value)
    if type(value) is dict:
        return f"{{{', '.join(f'{name!r}: {format_repr(one)}' for name, one in several.items())}}}"
    if type(value) is tuple:
        return f"({', '.join(map(format_repr, several))}{',' * (len(several) == 1)})"
    return repr(value)


def close_names(name: str, names: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """Return the names that are most like `name`, the closest first. `cutoff` is `difflib`'s, from 0 to 1."""
    import difflib

    return difflib.get_close_matches(name, list(names), n=most, cutoff=cutoff)


def did_you_mean(name: str, names: Iterable[str], otherwise: str = "", *, most: int = 1, before: str = "") -> str:
    """Return "did you mean ...?" with the closest of `names` and `before` before it, or `otherwise`."""
    close = close_names(name, names, most=most)
    return f"{before}did you mean {' or '.join(close)}?" if close else otherwise
