"""Objects named on the command line: `module:object`, `module:object.attribute`, or `file.py:object`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import pkgutil
import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any, TypeGuard

from graphexec.cli.exits import UsageFault
from graphexec.graph import Graph
from graphexec.tools import AnyTool, Tool

_HERE = "this folder"


def tools_at(reference: str) -> tuple[AnyTool, ...]:
    """Load one tool, or a sequence of tools. Raises `UsageFault` for anything else."""
    found = _load(reference, "tools:weather")
    if _is_tool(found):
        return (found,)
    members = tuple(found) if _is_collection(found) else None
    of_tools = tuple(member for member in members or () if _is_tool(member))
    if members and len(of_tools) == len(members):
        return of_tools
    raise UsageFault(
        f"{reference} is {_kind(found, members)}, not a tool or a list of tools; {_remedy(found, members)}"
    )


def graph_at(reference: str) -> Graph[Any, Any]:
    """Load a graph, or what has one as its `.graph`, as an executor does. Raises `UsageFault` for anything else."""
    found = _load(reference, "graphexec.machine:AGENT_EXECUTOR")
    for candidate in (found, getattr(found, "graph", None)):
        if _is_graph(candidate):
            return candidate
    raise UsageFault(
        f"{reference} is {_kind(found, None)}, not a graph; name a Graph, or an object whose .graph is one"
    )


def _load(reference: str, example: str) -> object:
    place, _, path = reference.rpartition(":")
    if not place or not path:
        raise UsageFault(f"{reference!r} does not name an object; write module:object, such as {example}")
    found: object = _module(place)
    within = place
    for name in path.split("."):
        if not hasattr(found, name):
            names = [one for one in dir(found) if one[:1] != "_"]
            raise UsageFault(f"{within} has no {name}; {_near(name, names, of='it')}")
        found = getattr(found, name)
        within = f"{place}:{name}" if within == place else f"{within}.{name}"
    return found


def _module(place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        # A script's path begins with the script's directory; people name the modules of their own.
        sys.path.insert(0, here)
    try:
        # What a module prints while it is imported is not the command's answer.
        with redirect_stdout(sys.stderr):
            if place.endswith(".py"):
                return _file(place)
            return importlib.import_module(place)
    except KeyboardInterrupt:
        raise
    # A module may raise anything, and exit.
    except BaseException as error:
        if isinstance(error, UsageFault):
            raise
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{place}.".startswith(f"{missing}."):
            near = _near(missing, [one.name for one in pkgutil.iter_modules([here])], of=_HERE)
            raise UsageFault(f"there is no module {missing} here, nor is it installed; {near}") from error
        raise UsageFault(f"{place} cannot be imported: {type(error).__name__}: {error}{_where(error)}") from error


def _file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        parent = path.parent
        beside = [one.name for one in parent.glob("*.py")] if parent.is_dir() else []
        near = _near(path.name, beside, of=_HERE if parent == Path() else str(parent))
        raise UsageFault(f"there is no file {place}; {near}")
    # Not in the place of a module that is loaded: a file may be called json.py.
    name = path.stem if path.stem not in sys.modules else f"{path.stem}_file"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "and the loader is there"
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and annotations look their module up by name.
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _where(error: BaseException) -> str:
    """The place that raised, as the user's editor knows it."""
    if isinstance(error, SyntaxError):
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith("<")]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""


def _near(name: str, names: Iterable[str], *, of: str) -> str:
    """What may have been meant: a name like it, else what there is; `of` says whose the names are."""
    known = list(names)
    close = difflib.get_close_matches(name, known, n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"{of} has {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else "check how it is spelled"  # noqa: PLR2004


def _kind(found: object, members: tuple[object, ...] | None) -> str:
    if members is not None:
        strangers = [type(member).__name__ for member in members if not _is_tool(member)]
        return f"a {type(found).__name__} with a {strangers[0]}" if strangers else f"an empty {type(found).__name__}"
    name = type(found).__name__
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


def _remedy(found: object, members: tuple[object, ...] | None) -> str:
    if callable(found) or (members and any(callable(member) for member in members)):
        return "decorate the function with @tool"
    return "name what @tool made"


# Three questions that isinstance answers, and after which the checkers know the type's parameters too.


def _is_tool(value: object) -> TypeGuard[AnyTool]:
    return isinstance(value, Tool)


def _is_graph(value: object) -> TypeGuard[Graph[Any, Any]]:
    return isinstance(value, Graph)


def _is_collection(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, (list, tuple, set, frozenset))
