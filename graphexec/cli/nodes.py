"""The command `nodes`: the pieces of the shelf and of installed packages, which agents take by name."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module, metadata
from typing import Annotated, Any

import typer

from graphexec.cli.exit_codes import Debug, UsageError, error_line, exit_on_error, flatten
from graphexec.cli.files import write
from graphexec.cli.samples import annotation_of, make_sample, plug_sample
from graphexec.cli.screen import print_table
from graphexec.errors import GraphexecError, did_you_mean, format_value

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
        if inspect.isfunction(made_by) and annotation_of(made_by, "return") == "Piece":
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
    print_table(("name", "package", "takes", "options", ""), rows, sys.stdout)


def _format_classes(one: Listed) -> str:
    piece = make_sample(one.name, one.made_by)
    if piece is None:
        return ""
    if piece.rule is None:
        return ", ".join(dict.fromkeys(kind.__name__ for kind in piece.takes))
    # The executor adds the nodes of a rule.
    return ", ".join(kind if isinstance(kind, str) else kind.__name__ for kind in plug_sample(piece).seats())


def _describe(one: Listed) -> Iterator[str]:
    """Yield the lines about one piece: its call, its docstring, and its bound and drawing on a small agent."""
    from graphexec.draw import draw

    yield f"{one.name}({one.options})" if one.options else one.name
    yield f"from {one.package}" if one.package else ""
    yield ""
    yield one.fault or inspect.getdoc(one.made_by) or "It has no docstring."
    piece = make_sample(one.name, one.made_by)
    if piece is None:
        remedy = "give it to an agent, and draw that: graphexec draw my_agent.py:executor --format text"
        yield from ("", f"Its arguments are your own; {remedy}") if not one.fault else ()
        return
    try:
        executor = plug_sample(piece)
    except GraphexecError as error:
        yield from ("", f"It does not fit a small agent: {flatten(str(error))}")
        return
    yield from ("", draw(executor.verify(), "text", pieces="boxes").rstrip())
