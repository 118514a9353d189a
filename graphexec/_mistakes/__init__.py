"""Messages for the habits of users of other libraries: wrong options, missing attributes, and names to import."""

from graphexec._mistakes.explain import (
    explain_calls,
    explain_class,
    explain_creation,
    explain_executor,
    join_faults,
    missing_name,
    unknown_options,
)

__all__ = [
    "explain_calls",
    "explain_class",
    "explain_creation",
    "explain_executor",
    "join_faults",
    "missing_name",
    "unknown_options",
]
