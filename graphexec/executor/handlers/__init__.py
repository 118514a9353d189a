"""Handlers of an agent's effects: a model for `ModelEffect`, a function for `CallAgent`, a memory for its two."""

from graphexec.executor.handlers.functions import check_decision, make_agent_handler
from graphexec.executor.handlers.memory import make_load_handler, make_save_handler
from graphexec.executor.handlers.models import make_attempt_handler, make_model_handler, reading_ahead, with_attempts
from graphexec.executor.handlers.runnables import make_runnable_handler

__all__ = [
    "check_decision",
    "make_agent_handler",
    "make_attempt_handler",
    "make_load_handler",
    "make_model_handler",
    "make_runnable_handler",
    "make_save_handler",
    "reading_ahead",
    "with_attempts",
]
