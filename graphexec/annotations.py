"""A function's annotations, resolved: also those that name what is local to whoever decorates it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

_PACKAGE = __name__.partition(".")[0]


def resolved(function: Callable[..., Any], *, extras: bool = False) -> dict[str, Any]:
    """Return the annotations by name, `return` included; with `extras`, what `Annotated` adds is kept.

    Raises `NameError` for a name that is neither in the function's module nor where it is decorated, and `TypeError`
    for what is no function.
    """
    try:
        return get_type_hints(function, include_extras=extras)
    except NameError:
        return get_type_hints(function, localns=dict(_outside()), include_extras=extras)


def _outside() -> Mapping[str, Any]:
    """The local names of the nearest caller that is not of this package."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame.f_locals if frame else {}
