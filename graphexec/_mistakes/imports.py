"""Import the names of a package when they are first used, and explain names and modules that a package lacks.

An explanation says what to write instead, and costs nothing until an import fails.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, final

from graphexec._mistakes.remedies import IMPORTS, MODULES, REMOVED
from graphexec.errors import close_names

# The modules that export names which users expect in another one. The package `testing` needs an extra.
_PUBLIC = ("models", "memory", "messages", "actions", "agents", "tools", "effects", "errors", "executor", "kernel")
# As in "did you mean", but stricter: so many names are similar to any other one.
_SIMILAR = 0.75


def explain_names(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package: it raises the error of `missing_name`."""

    def raise_missing_name(name: str) -> Any:
        raise missing_name(package, name)

    return raise_missing_name


# Any: the names of a package are of any class.
def import_on_use(
    package: str, modules: Mapping[str, str], subpackages: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package that imports a name when it is first used.

    `modules` has the names of each module, separated by spaces. `subpackages` are imported when they are first used,
    too. For other names, `__getattr__` raises the error of `missing_name`.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def find_name(name: str) -> Any:
        if name in subpackages:
            return importlib.import_module(f"{package}.{name}")
        if name not in places:
            raise missing_name(package, name)
        found = getattr(importlib.import_module(places[name]), name)
        # Python asks again only for a name that the package does not have.
        setattr(sys.modules[package], name, found)
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *subpackages})

    return find_name, list_names


def missing_name(package: str, name: str) -> Exception:
    """Return the error for a name that a package lacks: `ImportError` in a `from` import, else `AttributeError`.

    Python replaces an `AttributeError` in a `from` import with an error that has no remedy.
    """
    from importlib.util import find_spec

    # Python and its tools look for names such as `__path__`, and `getattr` may be given any string.
    public = name.isidentifier() and not name.startswith("_")
    if public and find_spec(f"{package}.{name}") is not None:
        # A `from` import loads the module after this error.
        return AttributeError(f"{package}.{name} is a module that is not loaded; write import {package}.{name}")
    remedy = _find_remedy(package, name) if public else None
    if remedy is None:
        return AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
    text = f"{package} has no {name}; {remedy}"
    # A `from` import looks its names up in this function of Python's import system. This one was called by the
    # package's `__getattr__`.
    looks_up = sys._getframe(2).f_code.co_name  # pyright: ignore[reportPrivateUsage]
    return ImportError(text, name=package) if looks_up == "_handle_fromlist" else AttributeError(text, name=name)


def _find_remedy(package: str, name: str) -> str | None:
    """Return what to write for a name: where it is, what stands for it here, or a similar name; else `None`."""
    root = package.partition(".")[0]
    places: dict[str, str] = {}
    for module in _modules(package, root):
        for exported in _exported(module):
            places.setdefault(exported, module.__name__)
    if name in _exported(sys.modules[root]):
        return f"write from {root} import {name}"
    if name in places and name not in IMPORTS:
        return f"write from {places[name]} import {name}"
    if remedy := REMOVED.get(name) or IMPORTS.get(name) or MODULES.get(name):
        return remedy
    own = close_names(name, (one for one, place in places.items() if place == package), cutoff=_SIMILAR)
    if own:
        return f"did you mean {own[0]}?"
    near = close_names(name, places, cutoff=_SIMILAR)
    return f"did you mean {near[0]} of {places[near[0]]}?" if near else None


def _modules(package: str, root: str) -> Iterator[ModuleType]:
    """Yield the package itself, the one that contains all, and the other public modules."""
    yield sys.modules[package]
    yield sys.modules[root]
    for module in _PUBLIC:
        yield importlib.import_module(f"{root}.{module}")


def _exported(module: ModuleType) -> Iterable[str]:
    """Return the names of `__all__`, or the classes and functions that the module defines."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return getattr(module, "__all__", own)


@final
class ModuleExplainer:
    """A finder for `sys.meta_path` that finds nothing: it raises the error for a module that a package lacks."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Return `None`; raise `ModuleNotFoundError` if an import fails that has a remedy."""
        del path, target
        parent, _, last = name.rpartition(".")
        if parent.partition(".")[0] != self._package:
            return
        near = close_names(last, _PUBLIC, cutoff=_SIMILAR) if parent == self._package else []
        remedy = MODULES.get(last) or REMOVED.get(last) or (f"did you mean {parent}.{near[0]}?" if near else None)
        # `importlib.util.find_spec` asks as well, and returns `None` for a module that is not there.
        asks = sys._getframe(2).f_code.co_name  # pyright: ignore[reportPrivateUsage]
        if remedy is not None and asks != "find_spec":
            raise ModuleNotFoundError(f"there is no module {name}; {remedy}", name=name)
