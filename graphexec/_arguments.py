"""What users give for an option: the kinds of values that fit, and the line that tells of one that does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar, final

from graphexec.errors import GraphexecError, InputError, format_value
from graphexec.kernel.meters import is_number, is_whole

T = TypeVar("T")


@final
@dataclass(frozen=True, slots=True)
class Constraint:
    """What may be given, in `words` that follow "give", and whether a value `fits`; `lacks` names what one has not."""

    words: str
    fits: Callable[[object], bool]
    lacks: Callable[[object], tuple[str, ...]] = lambda _: ()


def check(owner: str, *given: tuple[str, object, Constraint], error: type[GraphexecError] = InputError) -> None:
    """Raise `error`, one line for all, unless each `(name, value, constraint)` fits; `owner` may be empty."""
    faults = [
        f"{f'{owner} has {name}=' if owner else f'{name} is '}{format_value(value)}{_without(kind.lacks(value))}; "
        f"give {kind.words}"
        for name, value, kind in given
        if not kind.fits(value)
    ]
    if faults:
        raise error("; ".join(faults))


def _without(absent: tuple[str, ...]) -> str:
    return f", which has no {', '.join(absent)}" if absent else ""


def each(name: str, given: Iterable[T], kind: type[T], words: str) -> tuple[T, ...]:
    """Return values of one class as a tuple. Raises `InputError`, also for one string, which asks for `words`."""
    # Users without a type checker pass one instead of a list, and a list of others.
    several = tuple(given) if isinstance(given, Iterable) and not isinstance(given, (str, bytes)) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if several is None or not all(isinstance(one, kind) for one in several):
        raise InputError(f"{name} is {format_value(given)}; give a list of {words}")
    return several


def whole(least: int, words: str = "") -> Constraint:
    """A whole number of at least so many."""
    return Constraint(words or f"a whole number, {least} or more", lambda value: is_whole(value) and value >= least)


def number(words: str, *, positive: bool = False) -> Constraint:
    """A finite number that is not negative, or one that is `positive`."""
    return Constraint(words, lambda value: is_number(value) and (value > 0 if positive else value >= 0))


def having(words: str, *methods: str) -> Constraint:
    """An object with these methods; a class of such objects is none. One that has half of them is told the others."""

    def absent(value: object) -> tuple[str, ...]:
        return tuple(name for name in methods if not callable(getattr(value, name, None)))

    def lacks(value: object) -> tuple[str, ...]:
        missing = absent(value)
        return missing if 2 * len(missing) <= len(methods) else ()

    return Constraint(words, lambda value: not isinstance(value, type) and not absent(value), lacks)


def maybe(kind: Constraint, without: str = "none") -> Constraint:
    """A value of the kind, or `None`, which stands for `without`."""
    return Constraint(
        f"{kind.words}, or None for {without}", lambda value: value is None or kind.fits(value), kind.lacks
    )


TEXT = Constraint("a text", lambda value: isinstance(value, str))
NAME = Constraint("a name, as a text", lambda value: isinstance(value, str) and bool(value.strip()))
FUNCTION = Constraint("a function", callable)
FLAG = Constraint("True or False", lambda value: isinstance(value, bool))
SECONDS = number("seconds, 0 or more")
TIMEOUT = number("seconds above 0", positive=True)
_PATH_LIKE = having("a Path", "__fspath__")
PATH = Constraint("a path, as a text or a Path", lambda value: NAME.fits(value) or _PATH_LIKE.fits(value))
MODEL = having("a model, such as OpenAICompatible('gpt-5-mini')", "complete", "acomplete")
