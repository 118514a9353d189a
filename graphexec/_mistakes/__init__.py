"""Messages for the habits of users of other libraries: wrong options, missing attributes, and names to import."""

from graphexec._mistakes.explain import explain_calls, explain_class, explain_creation

__all__ = ["explain_calls", "explain_class", "explain_creation"]
