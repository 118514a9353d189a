"""A small agent, and a sample of a piece for it: `graphexec nodes NAME` and the pictures of the shelf draw them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphexec.executor import AgentExecutor
    from graphexec.nodes import Piece


@dataclass(frozen=True, slots=True)
class Booking:
    """A booked journey."""

    city: str
    day: date


def plug_sample(piece: Piece) -> AgentExecutor:
    """Return a small agent with the piece. Raises a `GraphexecError` if the piece does not fit."""
    # The rule is about worked examples, which structured agents show.
    return make_small_agent(structured=piece.rule == "no_dummies").plug(piece)


def make_small_agent(*, structured: bool = False) -> AgentExecutor:
    """Return an executor with one tool and five iterations, whose model is never asked."""
    from graphexec import AgentExecutor, create_structured_agent, create_tool_calling_agent, tool
    from graphexec.models import ScriptedModel

    @tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    model = ScriptedModel([])
    agent = (
        create_structured_agent(model, [look_up], rules=())
        if structured
        else create_tool_calling_agent(model, [look_up])
    )
    return AgentExecutor(agent=agent, tools=[look_up], handle_parsing_errors=True, max_iterations=5)


# Any: what an entry point names.
def make_sample(name: str, made_by: Any) -> Piece | None:
    """Return the piece that `made_by` makes or is, with small arguments; `None` if its function wants others.

    `name` is that of a piece of the shelf, or else of a package's.
    """
    from graphexec.kernel import Node
    from graphexec.nodes import Piece

    if isinstance(made_by, Piece):
        return made_by
    if isinstance(made_by, Node):
        # Any: the classes of a package's node are not known.
        single: Node[Any, Any] = made_by  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return Piece(single.name, (single,))
    if not inspect.isroutine(made_by):
        return None
    try:
        positional, by_name = _arguments(name, made_by)
        made: object = made_by(*positional, **by_name)
    # A function of a package may raise anything for arguments that it does not expect.
    except Exception:  # noqa: BLE001
        return None
    return made if isinstance(made, Piece) else None


def annotation_of(function: Callable[..., object], name: str) -> str:
    """Return the name of a parameter's class: classes that only type checkers import cannot be resolved."""
    annotation = function.__annotations__.get(name, "")
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


# Any: the arguments of any function.
def _arguments(name: str, made_by: Callable[..., object]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return small arguments. Raises `KeyError` for a parameter whose class has none."""
    if made_by.__module__.startswith("graphexec.nodes."):
        own = _own_arguments(name)
        if own is not None:
            return own, {}
    positional: tuple[Any, ...] = ()
    by_name: dict[str, Any] = {}
    for parameter in inspect.signature(made_by).parameters.values():
        if parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional = ("look_up",)
        else:
            by_name[parameter.name] = _argument(parameter.name, annotation_of(made_by, parameter.name))
    return positional, by_name


def _own_arguments(name: str) -> tuple[Any, ...] | None:
    """Return the arguments of those pieces of the shelf whose arguments cannot be found by their classes."""
    if name == "approve_tools":
        return ({"look_up": ["approve", "reject"]},)
    if name == "escalate":
        from graphexec.models import ScriptedModel

        return (ScriptedModel([]),)
    if name == "handoffs":
        return ({"hotels": make_small_agent()},)
    if name in ("guard_input", "guard_output"):
        return (_accept,)
    return (Booking,) if name == "output_type" else None


def _argument(name: str, kind: str) -> object:
    return {"str": "look_up" if name == "tool" else name, "int": 2, "AgentExecutor": make_small_agent()}[kind]


def _accept(text: str) -> None:
    """Accept every text."""
