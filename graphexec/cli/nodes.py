"""The command `nodes`: the pieces of the shelf and of installed packages, which agents take by name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from graphexec.cli.exit_codes import Debug, UsageError, error_line, exit_on_error, flatten
from graphexec.cli.files import write
from graphexec.cli.terminal import Screen
from graphexec.errors import GraphexecError, did_you_mean, format_value

if TYPE_CHECKING:
    from graphexec.executor import AgentExecutor
    from graphexec.nodes import Piece

# Packages publish their pieces as entry points of this group: `critic = "my_package:critic"`.
GROUP = "graphexec.nodes"
_OWN = "graphexec"


@dataclass(frozen=True, slots=True)
class Listed:
    """A piece by its name: a function that makes it, a `Piece`, or a node; or the `fault` of its entry point."""

    name: str
    package: str
    # Any: what an entry point names.
    made_by: Any = None
    fault: str = ""

    @property
    def summary(self) -> str:
        """The first line of its docstring, or its fault."""
        text = self.fault or inspect.getdoc(self.made_by) or ""
        return flatten(text.partition("\n\n")[0] if not self.fault else text)

    @property
    def options(self) -> str:
        """The parameters of the function that makes it."""
        if not inspect.isroutine(self.made_by):
            return ""
        parameters = inspect.signature(self.made_by).parameters.values()
        return ", ".join(one.name if one.default is one.empty else _option(one) for one in parameters)


def _option(parameter: inspect.Parameter) -> str:
    name = getattr(parameter.default, "__name__", None)
    return f"{parameter.name}={name or format_value(parameter.default)}"


def nodes(
    name: Annotated[
        str | None, typer.Argument(help="A piece to show with its bound and a drawing.", show_default=False)
    ] = None,
    *,
    debug: Debug = False,
) -> None:
    """List the pieces that an agent takes, `create_agent(model, tools, nodes=[...])`: ours, and those of packages."""
    with exit_on_error(debug=debug):
        found = list(find_pieces())
        if name is None:
            _print_list(found)
            return
        matches = [one for one in found if one.name == name]
        if not matches:
            hint = did_you_mean(name, [one.name for one in found], "graphexec nodes lists them")
            raise UsageError(f"there is no piece {name}; {hint}")
        write("\n\n".join("\n".join(_describe(one)) for one in matches) + "\n", None)


def find_pieces() -> Iterator[Listed]:
    """Yield the pieces of the shelf, then those of installed packages; a broken entry point has a fault."""
    shelf = import_module(GROUP)
    for name in shelf.__all__:
        made_by = getattr(shelf, name)
        if inspect.isfunction(made_by) and _annotation(made_by, "return") == "Piece":
            yield Listed(name, _OWN, made_by)
    for point in sorted(metadata.entry_points(group=GROUP)):
        package = flatten(point.dist.name) if point.dist is not None else ""
        try:
            yield Listed(flatten(point.name), package, point.load())
        # The code of a package may raise anything when it is imported.
        except Exception as error:  # noqa: BLE001
            yield Listed(flatten(point.name), package, fault=f"cannot be loaded: {error_line(error)}")


def _print_list(found: Sequence[Listed]) -> None:
    rows = [(one.name, one.package, _format_classes(one), one.options, one.summary) for one in found]
    if not sys.stdout.isatty():
        write("".join("\t".join(row) + "\n" for row in rows), None)
        return
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for header in ("name", "package", "takes", "options", ""):
        table.add_column(header, overflow="fold")
    for row in rows:
        table.add_row(*row)
    Screen(sys.stdout).print(table)


def _format_classes(one: Listed) -> str:
    piece = _sample(one)
    return "" if piece is None else ", ".join(dict.fromkeys(kind.__name__ for kind in piece.takes))


def _describe(one: Listed) -> Iterator[str]:
    """Yield the lines about one piece: its call, its docstring, and its bound and drawing on a small agent."""
    from graphexec.draw import draw

    yield f"{one.name}({one.options})" if one.options else one.name
    yield f"from {one.package}" if one.package else ""
    yield ""
    yield one.fault or inspect.getdoc(one.made_by) or "It has no docstring."
    piece = _sample(one)
    if piece is None:
        remedy = "give it to an agent, and draw that: graphexec draw my_agent.py:executor --format text"
        yield from ("", f"Its arguments are your own; {remedy}") if not one.fault else ()
        return
    try:
        executor = _small_agent().plug(piece)
    except GraphexecError as error:
        yield from ("", f"It does not fit a small agent: {flatten(str(error))}")
        return
    yield from ("", draw(executor.verify(), "text", pieces="boxes").rstrip())


def _sample(one: Listed) -> Piece | None:
    """Return the piece, made with small arguments; `None` if its function wants others."""
    from graphexec.kernel import Node
    from graphexec.nodes import Piece

    if isinstance(one.made_by, Piece):
        return one.made_by
    if isinstance(one.made_by, Node):
        # Any: the classes of a package's node are not known.
        single: Node[Any, Any] = one.made_by  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        return Piece(single.name, (single,))
    if not inspect.isroutine(one.made_by):
        return None
    try:
        wanted = [
            parameter
            for parameter in inspect.signature(one.made_by).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        ]
        given = {
            parameter.name: _sample_argument(parameter.name, _annotation(one.made_by, parameter.name))
            for parameter in wanted
            if parameter.kind is not parameter.VAR_POSITIONAL
        }
        variadic = [parameter for parameter in wanted if parameter.kind is parameter.VAR_POSITIONAL]
        made = one.made_by(*("look_up" for _ in variadic), **given)
    # A function of a package may raise anything for arguments that it does not expect.
    except Exception:  # noqa: BLE001
        return None
    return made if isinstance(made, Piece) else None


def _annotation(function: Callable[..., object], name: str) -> str:
    """Return the name of a parameter's class: classes that only type checkers import cannot be resolved."""
    annotation = function.__annotations__.get(name, "")
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _sample_argument(name: str, kind: str) -> object:
    """Return a small argument. Raises `KeyError` for a class that has none."""
    return {"str": "look_up" if name == "tool" else name, "int": 2, "AgentExecutor": _small_agent()}[kind]


def _small_agent() -> AgentExecutor:
    from graphexec import AgentExecutor, create_tool_calling_agent, tool
    from graphexec.models import ScriptedModel

    @tool
    def look_up(word: str) -> str:
        """Look a word up."""
        return word

    agent = create_tool_calling_agent(ScriptedModel([]), [look_up])
    return AgentExecutor(agent=agent, tools=[look_up], handle_parsing_errors=True, max_iterations=5)
