"""Explain calls that do not fit a signature, with what to write instead.

The remedies are for habits from other libraries. Type checkers do not see them, and report the mistake as well. A call
that is explained passes through one more function; none of these calls is made at each step of a run.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar

from graphexec._mistakes.remedies import CREATE_OPTIONS
from graphexec.errors import SignatureError, did_you_mean

P = ParamSpec("P")
T = TypeVar("T")

# What to write, by the name that other libraries have for it.
Remedies = Mapping[str, str]


def explain_calls(
    owner: str, form: str, options: Remedies, *, more_options: Collection[str] = ()
) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Make a decorator: a call that does not fit the function's signature raises `SignatureError`.

    `owner` is the function's name for its users, `form` a valid call, and `options` the remedies for unknown options.
    `more_options` are those that a function with `**options` takes.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def call_function(*args: P.args, **named: P.kwargs) -> T:
            try:
                return function(*args, **named)
            except TypeError as error:
                # An error within the function has a longer traceback.
                if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                    raise
                faults = list(_faults(owner, form, options, function, more_options, args, named))
                raise (SignatureError(join_faults(faults)) if faults else error) from None
            finally:
                # The frame of an error shows its variables, and an option may be an API key.
                del named

        return call_function

    return decorate


def explain_creation(function: Callable[P, T]) -> Callable[P, T]:
    """Explain calls of a function that makes an agent of a model and tools; a decorator."""
    name = function.__name__
    return explain_calls(name, f"{name}(model, tools)", CREATE_OPTIONS)(function)


def unknown_options(
    owner: str, remedies: Remedies, known: Collection[str], given: Iterable[str], form: str = ""
) -> Iterator[str]:
    """Yield what to write for each of the given options that is not known; `form` is a valid call of the owner."""
    unexplained: list[str] = []
    for name in given:
        if name in known:
            continue
        if remedy := remedies.get(name) or did_you_mean(name, known):
            yield f"{owner} has no option {name}; {remedy}"
        else:
            unexplained.append(name)
    if unexplained:
        usual = f"write {form}" if form else f"the options are {', '.join(known)}"
        yield f"{owner} has no option {' or '.join(unexplained)}; {usual}"


def join_faults(faults: Iterable[str]) -> str:
    """Return the errors of one call as one line."""
    return "; ".join(faults).replace("?; ", "? ")


# Any: a function of any signature, and the arguments of a call that does not fit.
def _faults(
    owner: str,
    form: str,
    options: Remedies,
    function: Callable[..., Any],
    more_options: Collection[str],
    args: tuple[Any, ...],
    named: Mapping[str, Any],
) -> Iterator[str]:
    """Yield what is wrong with a call, and what to write; nothing if the call fits the signature."""
    signature = inspect.signature(function)
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = {name: one for name, one in signature.parameters.items() if one.kind not in variadic}
    names = [*(name for name in parameters if name != "self"), *more_options]
    takes_any = not more_options and any(one.kind is one.VAR_KEYWORD for one in signature.parameters.values())
    unknown = [] if takes_any else [name for name in named if name not in names]
    yield from unknown_options(owner, options, names, unknown, form)
    try:
        filled = signature.bind_partial(*args, **{name: one for name, one in named.items() if name not in unknown})
    except TypeError as error:
        yield f"{owner}: {error}; write {form}"
        return
    missing = [name for name, one in parameters.items() if one.default is one.empty and name not in filled.arguments]
    # Often an unknown option stands for a missing one, and its remedy says so.
    if missing and not unknown:
        yield f"{owner} needs {' and '.join(missing)}; write {form}"


def explain_class(
    form: str,
    *,
    name: str = "",
    options: Remedies = {},  # noqa: B006 - it is not changed
) -> Callable[[type[T]], type[T]]:
    """Make a class decorator that explains calls of the class with wrong arguments.

    `form` is a valid call. `name` is the class's name in messages, if it has another one.
    """

    def decorate(kind: type[T]) -> type[T]:
        type.__setattr__(kind, "__init__", explain_calls(name or kind.__name__, form, options)(kind.__init__))
        return kind

    return decorate
