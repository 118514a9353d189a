"""What an agent is made of: each argument is checked when the agent is made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from graphexec.errors import InputError
from graphexec.given import told
from graphexec.messages import Model
from graphexec.tools import AnyTool, Tool, named

T = TypeVar("T")


def check_model(model: Model) -> None:
    """Raise `InputError` for what is no model, such as a model's name, its class, or the tools."""
    if isinstance(model, type):
        raise InputError(f"the model is the class {model.__name__}; make one of it, {model.__name__}(...)")
    if not callable(getattr(model, "complete", None)):
        name = model if isinstance(model, str) else "gpt-5-mini"
        raise InputError(f"the model is {told(model)}; make one, such as graphexec.models.OpenAICompatible({name!r})")


def tools_of(tools: Sequence[AnyTool]) -> tuple[AnyTool, ...]:
    """Return the tools. Raises `InputError` for what is no list, `ToolDefinitionError` for what is no tool in it."""
    if callable(getattr(tools, "complete", None)):
        raise InputError(f"tools is the model {told(tools)}; pass the model first, and then the tools")
    # Users without a type checker pass None, and the name of a tool.
    if isinstance(tools, str) or not isinstance(tools, (Iterable, Tool)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"tools is {told(tools)}; pass a list of tools, [] for none")
    return tuple(named(tools).values())


def check_text(name: str, given: str) -> str:
    """Return the text. Raises `InputError` for what is none."""
    # Users without a type checker pass None, and the prompts of other libraries.
    if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InputError(f"{name} is {told(given)}; pass a text")
    return given


def texts(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return the texts. Raises `InputError` for one text, which is a sequence of letters, and for what is none."""
    return each(name, given, str, "texts")


def each(name: str, given: Sequence[T], kind: type[T], wanted: str) -> tuple[T, ...]:
    """Return what is given of one class. Raises `InputError`, which says what is `wanted`, for anything else."""
    # Any: it may be what it should not be.
    many: tuple[Any, ...] | None = None
    if not isinstance(given, str):
        with suppress(TypeError):
            many = tuple(given)
    if many is None or not all(isinstance(one, kind) for one in many):
        raise InputError(f"{name} is {told(given)}; pass a list of {wanted}")
    return many
