"""Take models and agents of LangChain as they are; `graphexec._arguments.adapt` imports this when it meets one."""

from __future__ import annotations

from typing import Any

from graphexec.errors import InputError, an
from graphexec.integrations.langchain.models import LangChainModel
from graphexec.integrations.langchain.runnables import runnable_agent


# Any: an object of another library, here and below.
def adapt_model(value: Any) -> Any:
    """Return a model of LangChain, also one with options bound to it, as a model; another object as it is."""
    return LangChainModel(value) if _is_model(value) else value


def adapt_agent(value: Any) -> Any:
    """Return a runnable, or an object with `plan`, as an agent; another object as it is.

    Raises `InputError` for a model or a tool, which decides nothing.
    """
    if _is_model(value) or hasattr(value, "args_schema"):
        remedy = "write create_agent(model, tools), which makes an executor"
        raise InputError(f"agent is {an(type(value).__name__)}, which is no agent; {remedy}")
    return runnable_agent(value) if hasattr(value, "invoke") or hasattr(value, "plan") else value


def _is_model(value: Any) -> bool:
    # A model that is chosen at its call has the first one only.
    return any(callable(getattr(value, name, None)) for name in ("bind_tools", "generate_prompt"))
