"""Read the annotations of a node's function: the classes that it takes and returns, and its effects."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin, get_type_hints

from graphexec.errors import NodeError
from graphexec.kernel.effects import All, CallContext, Effect
from graphexec.kernel.meters import Exhausted, is_whole


def read_hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """Return the annotations of the node `name`. Raises `NodeError` if one cannot be resolved."""
    try:
        return get_type_hints(function)
    except TypeError as error:
        raise NodeError(f"{name} is not a function; define it with def") from error
    except NameError as error:
        raise NodeError(
            f"{name} has an annotation that cannot be resolved: {error}; import or define it at the top of its module"
        ) from error


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return getattr(function, "__name__", type(function).__name__)


def _members(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)


def read_classes(name: str, what: str, annotation: Any) -> tuple[type, ...]:
    """Return the classes of an annotation. Raises `NodeError` for a member that `isinstance` cannot check."""
    members: tuple[Any, ...] = _members(annotation)
    for member in members:
        if not _is_class(member):
            written = "None" if member in (None, types.NoneType) else member
            raise NodeError(f"{name} {what} {written}, which isinstance cannot check; name a class of your own")
    return members


def _is_class(member: Any) -> bool:
    """Return whether `isinstance` can check it: not `None`, `Any`, generics, protocols, or typed dicts."""
    if not isinstance(member, type) or member is types.NoneType:
        return False
    try:
        # Either may raise a TypeError.
        return isinstance(None, member) in (True, False) and issubclass(int, member) in (True, False)
    except TypeError:
        return False


def read_effects(name: str, asked: Any) -> tuple[type[Effect[Any]], ...]:
    """Return the classes of effects in the first argument of `Asks`. Raises `NodeError` for other members."""
    effects: list[type[Effect[Any]]] = []
    for member in _members(asked):
        if get_origin(member) is All:
            continue
        if not _is_effect(member):
            raise NodeError(f"{name} asks for {member!r}, which is not an effect; write class Name(Effect[Reply])")
        effects.append(member)
    return tuple(effects)


def _is_effect(member: Any) -> TypeGuard[type[Effect[Any]]]:
    return isinstance(member, type) and issubclass(member, Effect)


def read_reply(effect: type[Effect[Any]]) -> tuple[Any, ...]:
    """Return the annotation of an effect's reply, `Page` of `Effect[Page]`; nothing if it declares none.

    A base may be generic in its reply, too: `class Fetch(Request[Page])`, where `class Request(Effect[R])`.
    """
    generics = (one for base in effect.__mro__ for one in getattr(base, "__orig_bases__", ()))
    return next((get_args(one) for one in generics if _is_effect(get_origin(one))), ())


@functools.cache
def reply_classes(effect: type[Effect[Any]]) -> tuple[type, ...]:
    """Return the classes of an effect's reply; nothing if `isinstance` cannot check them."""
    # The class of `list[int]` is `list`. For type checkers, an integer is a float.
    kinds = [get_origin(one) or one for annotation in read_reply(effect) for one in _members(annotation)]
    classes = [types.NoneType if kind is None else kind for kind in kinds] + [int] * (float in kinds)
    return (
        tuple(classes)
        if all(kind is types.NoneType or (kind is not Any and _is_class(kind)) for kind in classes)
        else ()
    )


def read_spent_outcome(when_spent: Callable[[Any, Exhausted], object]) -> tuple[type, tuple[type, ...]]:
    """Return the class of `when_spent`'s outcome, and the classes that it takes. Raises `NodeError`."""
    name = name_of(when_spent)
    called = getattr(when_spent, "__init__") if isinstance(when_spent, type) else when_spent  # noqa: B009
    hints = read_hints(called, name)
    parameters = [p for p in inspect.signature(when_spent).parameters if p in hints]
    takes = hints[parameters[0]] if parameters else object
    if isinstance(when_spent, type):
        return when_spent, _members(takes)
    if "return" not in hints:
        raise NodeError(f"{name} does not annotate its outcome; write def {name}(value: In, limit: Exhausted) -> Out")
    outcomes = read_classes(name, "returns", hints["return"])
    if len(outcomes) != 1:
        raise NodeError(f"{name} returns {len(outcomes)} outcomes, but a limit takes one edge; return one class")
    (outcome,) = outcomes
    return outcome, _members(takes)


def accepts(takes: tuple[Any, ...], given: type) -> bool:
    """Return whether a value of the class `given` fits one of `takes`; type checkers check what is not a class."""
    # Since Python 3.11, `Any` is a class, too.
    return any(kind is Any or not isinstance(kind, type) or _fits(kind, given) for kind in takes)


def _fits(kind: type, given: type) -> bool:
    if not getattr(kind, "_is_protocol", False):
        return issubclass(given, kind)
    wanted = {name for base in kind.__mro__ if getattr(base, "_is_protocol", False) for name in _members_of(base)}
    return all(any(name in _members_of(base) for base in given.__mro__) for name in wanted)


def _members_of(kind: type) -> set[str]:
    return {name for name in (*vars(kind), *getattr(kind, "__annotations__", {})) if not name.startswith("_")}


def unwrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the original function, without its wrappers and bound arguments."""
    while True:
        inner: Callable[..., Any] = inspect.unwrap(function)
        if isinstance(inner, functools.partial):
            # Any: the parameters of a partial object are unknown.
            bound: functools.partial[Any] = inner  # pyright: ignore[reportUnknownVariableType]
            inner = bound.func
        if inner is function:
            return function
        function = inner


def find_call_parameter(hints: Mapping[str, Any]) -> tuple[str | None, type | None]:
    """Return the parameter annotated `CallContext`, and the class of context that it requires, if it names one."""
    for name, annotation in hints.items():
        hint = _bare(annotation)
        if hint is CallContext:
            return name, None
        if get_origin(hint) is CallContext:
            (wanted,) = get_args(hint)
            # Since Python 3.11, `Any` is a class, too.
            return name, wanted if isinstance(wanted, type) and wanted not in (object, Any) else None
    return None, None


def _bare(hint: Any) -> Any:
    """Return the annotation without `Annotated` and `None`."""
    if get_origin(hint) is Annotated:
        return _bare(get_args(hint)[0])
    if get_origin(hint) in (Union, types.UnionType):
        kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
        return _bare(kinds[0]) if len(kinds) == 1 else hint
    return hint


def close_asking(node: types.GeneratorType[Any, Any, Any]) -> None:
    """Close a node, ignoring effects that it asks for in a `finally` or a bare `except`: they are not carried out."""
    try:
        node.close()
    except RuntimeError:
        if node.gi_frame is None:
            raise
    # One that yields again and again is abandoned.
    for _ in range(100):
        if node.gi_frame is None:
            return
        with suppress(GeneratorExit, StopIteration):
            node.throw(GeneratorExit)


def read_count(name: str, kind: str, asks: Any) -> tuple[int, int]:
    """Return the least and the most of `asks=`. Raises `NodeError` for other values, and if the node asks nothing."""
    if kind != "asks":
        raise NodeError(
            f"{name} does not yield effects, so asks= does not apply; write it with Asks[...], or leave out asks="
        )
    # Any: users without a type checker pass strings and lists.
    counts: list[Any] = list(asks) if isinstance(asks, tuple) else [asks, asks]  # pyright: ignore[reportUnknownArgumentType]
    if len(counts) != 2 or not all(map(is_whole, counts)) or not 0 <= counts[0] <= counts[1]:  # noqa: PLR2004 - a pair
        raise NodeError(f"{name} has asks={asks!r}; give a number of effects, or (least, most)")
    return counts[0], counts[1]
