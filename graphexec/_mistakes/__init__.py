"""Messages for the habits of users of other libraries, and for names that earlier versions had."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any

from graphexec._mistakes.explain import (
    explain_calls,
    explain_class,
    explain_creation,
    join_faults,
    unknown_options,
)
from graphexec._mistakes.remedies import REMOVED

__all__ = [
    "explain_calls",
    "explain_class",
    "explain_creation",
    "explain_names",
    "import_on_use",
    "join_faults",
    "unknown_options",
]


def explain_names(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package that has no more names."""
    return import_on_use(package, {})[0]


# Any: the names of a package are of any class.
def import_on_use(
    package: str, modules: Mapping[str, str], subpackages: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package that imports a name when it is first used.

    `modules` has the names of each module, separated by spaces. `subpackages` are imported when they are first used,
    too. For a name that the package had, `__getattr__` raises an `ImportError` with what to write: Python replaces an
    `AttributeError` in a `from` import with an error that has no remedy.
    """
    places = {name: module for module, names in modules.items() for name in names.split()}

    def find_name(name: str) -> Any:
        if name in subpackages:
            return importlib.import_module(f"{package}.{name}")
        if name in places:
            found = getattr(importlib.import_module(places[name]), name)
            # Python asks again only for a name that the package does not have.
            setattr(sys.modules[package], name, found)
            return found
        if remedy := REMOVED.get(f"{package}.{name}".partition(".")[2]):
            raise ImportError(f"{package} has no {name}; {remedy}", name=package)
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *places, *subpackages})

    return find_name, list_names
