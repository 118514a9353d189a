"""The graphs of a `langgraph.json`, the file of a project of LangGraph."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError

from graphexec.cli.exit_codes import UsageError
from graphexec.cli.targets import (
    AnyTarget,
    DeclaredTarget,
    format_place,
    line_of,
    load_object,
    machine_at,
    machines_at,
    reader_of,
)
from graphexec.errors import an, did_you_mean

# A project's file, and the name of one of its graphs.
_PROJECT = re.compile(r"(.+\.json)(?::(.+))?")
_OTHER_LANGUAGES = {".cjs", ".cts", ".js", ".jsx", ".mjs", ".mts", ".ts", ".tsx"}


def references_of(reference: str) -> list[str]:
    """Return the names of the graphs of a `langgraph.json`; other references, and one without graphs, as they are."""
    file = _PROJECT.fullmatch(reference)
    if file is None or file[2] is not None:
        return [reference]
    try:
        return [f"{reference}:{name}" for name in _read_project(Path(file[1])).graphs]
    except UsageError:
        return [reference]


def any_machine_at(reference: str) -> AnyTarget:
    """Load the named machine as `machine_at` does, or a graph of a `langgraph.json`. Raises `UsageError`."""
    file = _PROJECT.fullmatch(reference)
    if file is None:
        return machine_at(reference)
    project, name = _read_project(Path(file[1])), file[2]
    if name is None and len(project.graphs) > 1:
        names = " or ".join(f"{reference}:{one}" for one in project.graphs)
        raise UsageError(f"{reference} has {len(project.graphs)} graphs; write {names}")
    return _load_graph(Path(file[1]), project, name or next(iter(project.graphs)))


def any_machines_at(reference: str) -> tuple[AnyTarget, ...]:
    """Load the named machines as `machines_at` does, or a graph of a `langgraph.json`. Raises `UsageError`."""
    return (any_machine_at(reference),) if _PROJECT.fullmatch(reference) else machines_at(reference)


class _Spec(BaseModel):
    path: str


class _Project(BaseModel):
    """What is read of a `langgraph.json`. `env` is a file with variables, or the variables."""

    graphs: Annotated[dict[str, str | _Spec], Field(min_length=1)]
    dependencies: list[str] = []
    env: str | dict[str, Any] = ""


def _read_project(file: Path) -> _Project:
    try:
        return _Project.model_validate_json(file.read_bytes())
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        what = error.errors()[0]
        where = ".".join(map(str, what["loc"])) or "it"
        example = 'write its graphs as "graphs": {"agent": "./agent.py:graph"}'
        raise UsageError(f"{file} is not a langgraph.json: {where}: {what['msg']}; {example}") from error


def _load_graph(file: Path, project: _Project, name: str) -> DeclaredTarget:
    whole = f"{file}:{name}"
    spec = project.graphs.get(name)
    if spec is None:
        hint = did_you_mean(name, project.graphs, f"it has {', '.join(project.graphs)}")
        raise UsageError(f"{file} has no graph {name}; {hint}")
    path = spec if isinstance(spec, str) else spec.path
    place, _, inner = path.rpartition(":")
    if Path(place).suffix in _OTHER_LANGUAGES:
        raise UsageError(f"{whole} is in {place}; only graphs that are written in Python can be checked")
    # Other dependencies are packages, which have to be installed; these may be, and then have their code in `src`.
    folders = [(file.parent / one / inside).resolve() for one in project.dependencies for inside in (".", "src")]
    sys.path[:0] = [str(one) for one in folders if one.is_dir() and str(one) not in sys.path]
    if place.endswith(".py"):
        place = str(file.parent / place)
        # It is no folder of modules to LangGraph; those of the project come first.
        sys.path += [one for one in [str(Path(place).parent.resolve())] if one not in sys.path]
    try:
        module, found = load_object(f"{place}:{inner}" if place else path, "agent.py:graph")
        if reader_of(found) is None and callable(found):
            found = _call_factory(path, found)
    except UsageError as error:
        # An error of the user's code may come of a variable that is not set.
        if error.__cause__ is None or not project.env:
            raise
        raise UsageError(f"{error}; the env of {file.name} is not read: set its variables first") from error.__cause__
    reader = reader_of(found)
    if reader is None:
        raise UsageError(f"{whole} ({path}) is {an(type(found).__name__)}, not a graph of LangGraph")
    return DeclaredTarget(whole, found, reader, module.__file__, line_of(module, inner))


# Any: a function of the user.
def _call_factory(reference: str, factory: Callable[..., Any]) -> object:
    """Call a function that makes a graph, with an empty configuration if it takes one."""
    # Other commands do not need it.
    import asyncio

    parameters = [one for one in inspect.signature(factory).parameters.values() if one.default is one.empty]
    needed = [one.name for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(needed) > 1 or needed == ["runtime"]:
        names = " and ".join(needed)
        raise UsageError(f"{reference} is a function that needs {names}; name one that needs its config alone")
    try:
        with redirect_stdout(sys.stderr):
            return asyncio.run(_enter(factory(*({"configurable": {}} for _ in needed))))
    except KeyboardInterrupt:
        raise
    # A user's function may raise anything, even SystemExit.
    except BaseException as error:
        raise UsageError(f"{reference} raised {type(error).__name__}: {error}{format_place(error)}") from error


# Any: what the user's function returns, as it is, from a coroutine, or from a context that ends here.
async def _enter(made: Any) -> object:
    if inspect.isawaitable(made):
        made = await made
    async with AsyncExitStack() as stack:
        if hasattr(made, "__aenter__"):
            return await stack.enter_async_context(made)
        return stack.enter_context(made) if hasattr(made, "__enter__") else made
