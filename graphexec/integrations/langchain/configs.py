"""LangChain's configs: the callbacks, tags and metadata of calls, with those of the run that they are in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from graphexec.errors import InputError, format_value
from graphexec.kernel.effects import CallContext

# LangChain's `RunnableConfig`: `callbacks`, `tags`, `metadata`, `configurable` and others, by name.
Config: TypeAlias = Mapping[str, Any]

# A config for every call, or a function that makes it from the call.
ConfigLike: TypeAlias = Config | Callable[[CallContext[Any]], Config]


def require_config(config: Any) -> Config:
    """Return a config. Raises `InputError` if it is none."""
    if not isinstance(config, Mapping):
        raise InputError(
            f"the config is {format_value(config)}; give a dict such as {{'callbacks': [...], 'tags': [...]}}, or a "
            "function that returns one from the call's CallContext"
        )
    made: Config = config  # pyright: ignore[reportUnknownVariableType] - its user wrote it
    return made


def make_config(config: ConfigLike | None, call: CallContext[Any]) -> dict[str, Any]:
    """Return the config of a call: the user's, and the ids of the run and of the call in its metadata.

    Raises `InputError` if the function that makes the config returns anything else.
    """
    given = require_config(config(call) if callable(config) else config or {})
    ids = {"graphexec_run_id": call.run_id, "graphexec_call_id": str(call.id)}
    return {**given, "metadata": {**ids, **(given.get("metadata") or {})}}


def add_outer_config(config: Config) -> Config:
    """Return a config with that of the runnable which this code runs in; LangChain would replace its callbacks."""
    variable = _find("var_child_runnable_config")
    outer: Any = None if variable is None else variable.get()
    merged: Config = _find("merge_configs")(outer, config) if outer and config else config
    return merged


@contextmanager
def use_config(config: Config) -> Generator[None]:
    """Let the parts of LangChain in this context have a config, beside that of the runnable which runs them."""
    variable = _find("var_child_runnable_config")
    if variable is None:
        yield
        return
    token = variable.set(add_outer_config(config))
    try:
        yield
    finally:
        variable.reset(token)


# Any: an object of LangChain. Without LangChain, nothing has a config.
def _find(name: str) -> Any:
    return getattr(sys.modules.get("langchain_core.runnables.config"), name, None)
