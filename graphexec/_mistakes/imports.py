"""Names that the package does not export: where they are, or what to write instead."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from types import ModuleType

from graphexec._mistakes.remedies import IMPORTS

# The modules that export names which users expect in the package. The package `testing` needs an extra.
_PUBLIC = ("models", "memory", "messages", "actions", "agents", "tools", "effects", "errors", "executor", "kernel")


def missing_name(package: str, name: str) -> Exception:
    """Return the error for a name that the package lacks: `ImportError` in a `from` import, else `AttributeError`.

    Python replaces an `AttributeError` in a `from` import with an error that has no remedy.
    """
    remedy = _remedy(package, name)
    if not name.startswith("_") and importlib.util.find_spec(f"{package}.{name}") is not None:
        # A `from` import loads the module after this error.
        return AttributeError(f"{package}.{name} is a module that is not loaded; write import {package}.{name}")
    if remedy is None:
        return AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package])
    text = f"{package} has no {name}; {remedy}"
    # A `from` import looks its names up in this function of Python's import system. This one was called by the
    # package's `__getattr__`.
    looks_up = sys._getframe(2).f_code.co_name  # pyright: ignore[reportPrivateUsage]
    return ImportError(text, name=package) if looks_up == "_handle_fromlist" else AttributeError(text, name=name)


def _remedy(package: str, name: str) -> str | None:
    if name in IMPORTS:
        return IMPORTS[name]
    # Python and its tools look for names such as `__path__`, and a `from` import for modules that are not loaded yet.
    if name.startswith("_") or importlib.util.find_spec(f"{package}.{name}") is not None:
        return None
    modules = (importlib.import_module(f"{package}.{module}") for module in _PUBLIC)
    found = next((module.__name__ for module in modules if name in _exported(module)), None)
    return None if found is None else f"write from {found} import {name}"


def _exported(module: ModuleType) -> Iterable[str]:
    """Return the names of `__all__`, or the classes and functions that the module defines."""
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
    return getattr(module, "__all__", own)
