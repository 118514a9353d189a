"""Handlers of an agent's effects: a model for `ModelEffect`, a function for `CallAgent`."""

from graphexec.executor.handlers.functions import check_decision, make_agent_handler
from graphexec.executor.handlers.models import make_attempt_handler, make_model_handler, reading_ahead, with_attempts

__all__ = [
    "check_decision",
    "make_agent_handler",
    "make_attempt_handler",
    "make_model_handler",
    "reading_ahead",
    "with_attempts",
]
