"""Validation of options: constraints on values, and the error messages for invalid ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, final

from graphexec.errors import GraphexecError, InputError, format_value
from graphexec.kernel.meters import is_number, is_whole

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint on a value: `words` describe it after "give"; `fits` tests a value.

    `lacks` returns the part of the message about the methods that a value lacks.
    """

    words: str
    fits: Callable[[object], bool]
    lacks: Callable[[object], str] = lambda _: ""


def validate(owner: str, *arguments: tuple[str, object, Constraint], error: type[GraphexecError] = InputError) -> None:
    """Check each `(name, value, constraint)`; `owner` starts the message unless it is empty.

    Raises `error` with one line that lists every invalid argument.
    """
    faults = [
        f"{f'{owner} has {name}=' if owner else f'{name} is '}{format_value(value)}"
        f"{constraint.lacks(value)}; give {constraint.words}"
        for name, value, constraint in arguments
        if not constraint.fits(value)
    ]
    if faults:
        raise error("; ".join(faults))


def validate_each(name: str, values: Iterable[T], kind: type[T], words: str) -> tuple[T, ...]:
    """Return values of the class `kind` as a tuple. Raises `InputError` for other values and for a single string."""
    # Users without a type checker may pass a single value, or a list of other values.
    several = tuple(values) if isinstance(values, Iterable) and not isinstance(values, (str, bytes)) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if several is None or not all(isinstance(one, kind) for one in several):
        raise InputError(f"{name} is {format_value(values)}; give a list of {words}")
    return several


def whole(least: int, words: str = "") -> Constraint:
    """A whole number of at least `least`."""
    return Constraint(words or f"a whole number, {least} or more", lambda value: is_whole(value) and value >= least)


def number(words: str, *, positive: bool = False) -> Constraint:
    """A finite number, 0 or more; above 0 if `positive`."""
    return Constraint(words, lambda value: is_number(value) and (value > 0 if positive else value >= 0))


def has_methods(words: str, *methods: str) -> Constraint:
    """An object with these methods, not a class. The message names the missing methods if at least half are there."""

    def absent(value: object) -> tuple[str, ...]:
        return tuple(name for name in methods if not callable(getattr(value, name, None)))

    def lacks(value: object) -> str:
        missing = absent(value)
        return f", which has no {', '.join(missing)}" if 0 < 2 * len(missing) <= len(methods) else ""

    return Constraint(words, lambda value: not isinstance(value, type) and not absent(value), lacks)


def optional(constraint: Constraint, without: str = "none") -> Constraint:
    """A value that fits the constraint, or `None`, which stands for `without`."""
    return Constraint(
        f"{constraint.words}, or None for {without}",
        lambda value: value is None or constraint.fits(value),
        constraint.lacks,
    )


def is_executor(value: object) -> bool:
    """Return whether a value is an `AgentExecutor`, also of a subclass; the class is in a layer above."""
    return getattr(type(value), "runs_agent", False) is True


# The modules that take objects of other libraries as they are, by the packages of their classes. They are above every
# layer, so they are named, and imported when such an object is met.
_ADAPTERS = dict.fromkeys(("langchain_core", "langchain_classic"), "graphexec.integrations.langchain.adapters")


class LangChainObject(Protocol):
    """A chat model, a tool or a runnable of LangChain, which is taken where a model, a tool or an agent is."""

    # Any: types of LangChain's, here and below.
    def invoke(self, input: Any, /) -> Any: ...  # noqa: A002 - its name
    def with_config(self, config: Any = None, /) -> Any: ...


def adapt(value: Any, role: Literal["model", "agent"]) -> Any:
    """Return a model or an agent of another library, by its class, as one of ours; any other value as it is."""
    packages = [kind.__module__.partition(".")[0] for kind in type(value).__mro__]
    module = next((_ADAPTERS[name] for name in packages if name in _ADAPTERS), None)
    return value if module is None else getattr(import_module(module), f"adapt_{role}")(value)


STRING = Constraint("a string", lambda value: isinstance(value, str))
NAME = Constraint("a name, as a string", lambda value: isinstance(value, str) and bool(value.strip()))
VARIABLE = Constraint(
    "a name that a variable could have", lambda value: isinstance(value, str) and value.isidentifier()
)
DESCRIPTION = Constraint("a string that describes the tool to a model", NAME.fits)
FUNCTION = Constraint("a function", callable)
# A coroutine, which an async def returns, is true, and no string.
PLAIN_FUNCTION = Constraint(
    "a function (def)", lambda value: callable(value) and not inspect.iscoroutinefunction(value)
)
TEXT = Constraint(
    "a string, or a function (def) that returns one", lambda value: STRING.fits(value) or PLAIN_FUNCTION.fits(value)
)
FLAG = Constraint("True or False", lambda value: isinstance(value, bool))
SECONDS = number("seconds, 0 or more")
TIMEOUT = number("seconds above 0", positive=True)
# By which a wait grows after each attempt, and the share of it that chance may take away.
_LARGEST = 10
FACTOR = Constraint(
    f"a number from 1 (waits of one length) to {_LARGEST}", lambda value: is_number(value) and 1 <= value <= _LARGEST
)
SHARE = Constraint("a number from 0 to 1", lambda value: is_number(value) and 0 <= value <= 1)
_PATH_LIKE = has_methods("a Path", "__fspath__")
PATH = Constraint("a path, as a string or a Path", lambda value: NAME.fits(value) or _PATH_LIKE.fits(value))
MODEL = has_methods(
    "a model, such as create_model('openai:gpt-5-mini') or create_model('local'), of graphexec.models, or an object of "
    "yours with complete(request, *, timeout=None)",
    "complete",
)
