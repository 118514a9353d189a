"""Messages for the habits of users of other libraries, and for names that earlier versions had."""

from graphexec._mistakes.explain import (
    explain_calls,
    explain_class,
    explain_creation,
    explain_executor,
    join_faults,
    unknown_options,
)
from graphexec._mistakes.imports import explain_names, import_on_use

__all__ = [
    "explain_calls",
    "explain_class",
    "explain_creation",
    "explain_executor",
    "explain_names",
    "import_on_use",
    "join_faults",
    "unknown_options",
]
