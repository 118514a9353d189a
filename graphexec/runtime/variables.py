"""Context variables that a call sets: the next call of its run sees them, in whatever thread or task it runs."""

from __future__ import annotations

from contextvars import Context
from typing import Any

# No value of a context variable.
_UNSET: Any = object()


def adopt(context: Context) -> None:
    """Set the context variables that a call has set in its copy, as if it had run here; the library's own stay."""
    for variable, value in context.items():
        if not variable.name.startswith("graphexec") and variable.get(_UNSET) is not value:
            variable.set(value)
