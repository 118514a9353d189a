"""Import the names of a package when they are first used, and say what stands for a name that was removed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from graphexec._mistakes.remedies import REMOVED


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
    """Return the error for a name that a package lacks: for one that it had, an `ImportError` with what to write.

    Python replaces an `AttributeError` in a `from` import with an error that has no remedy.
    """
    remedy = REMOVED.get(f"{package}.{name}".partition(".")[2])
    if remedy is not None:
        return ImportError(f"{package} has no {name}; {remedy}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
