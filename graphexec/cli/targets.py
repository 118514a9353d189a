"""Objects named on the command line: `module:object`, `module:object.attribute`, or `file.py:object`."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.machinery
import importlib.util
import sys
import sysconfig
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from graphexec.cli.exit_codes import UsageError, error_line
from graphexec.errors import GraphError, GraphexecError, InputError, ToolDefinitionError, an, did_you_mean
from graphexec.kernel.graph import Graph
from graphexec.kernel.meters import Limits
from graphexec.tools import AnyTool, tools_of
from graphexec.tools.collecting import to_tools
from graphexec.verify import UnprovedError

if TYPE_CHECKING:
    from graphexec.integrations.declared.judging import Judgement


def line_of(module: ModuleType, path: str) -> int:
    """Return the last line that binds `path` (a name, or names with dots) at the top level, or 1."""
    line = 1
    body: Sequence[ast.stmt] = _body(module)
    for name in path.split("."):
        binding = [one for one in _statements(body) if name in _bound_names(one)]
        if not binding:
            break
        last = binding[-1]
        line = last.lineno
        body = last.body if isinstance(last, ast.ClassDef) else ()
    return line


def sources_of(module: ModuleType) -> Iterator[ModuleType]:
    """Yield the modules of other packages that the module imports, or imports from, at its top level."""
    package = module.__name__.partition(".")[0]
    for one in _statements(_body(module)):
        names: list[str] = []
        match one:
            case ast.Import(aliases):
                names = [alias.name for alias in aliases]
            # A relative import stays in the package.
            case ast.ImportFrom(str(source), aliases, 0):
                names = [source, *(f"{source}.{alias.name}" for alias in aliases)]
            case _:
                pass
        for name in names:
            if name in sys.modules and name.partition(".")[0] != package:
                yield sys.modules[name]


def _body(module: ModuleType) -> Sequence[ast.stmt]:
    try:
        return ast.parse(Path(module.__file__ or "").read_bytes()).body
    except (OSError, SyntaxError, ValueError):
        # The module is an extension, or its file is gone.
        return ()


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of one namespace, including those in an `if` or a `with`."""
    for one in body:
        yield one
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            blocks = [one, *getattr(one, "handlers", ()), *getattr(one, "cases", ())]
            for block in blocks:
                for part in ("body", "orelse", "finalbody"):
                    yield from _statements(getattr(block, part, ()))


def _bound_names(statement: ast.stmt) -> set[str]:
    match statement:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return {name}
        case ast.Import(aliases) | ast.ImportFrom(names=aliases):
            return {alias.asname or alias.name for alias in aliases}
        case ast.Assign(targets):
            return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
        case ast.AnnAssign(ast.Name(name), value=ast.expr()):
            return {name}
        case _:
            return set()


# This package, the import machinery, and code without a file.
_NOT_USER_CODE = (str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent), "<")
# Code that the user calls and rarely writes. The packages may stand in a folder of the standard library.
_PACKAGES = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
# Names that a message suggests at most.
_SHOWN = 8
_EXAMPLE = "graphexec.executor:AGENT_EXECUTOR"
# The modules that read graphs of other libraries, by the package and the name of a graph's class.
_READERS: Mapping[tuple[str, str], str] = {
    ("langgraph", "PregelProtocol"): "graphexec.integrations.langgraph",
    ("langgraph", "StateGraph"): "graphexec.integrations.langgraph",
    ("pydantic_graph", "Graph"): "graphexec.integrations.pydantic_graph",
}


@dataclass(frozen=True, slots=True)
class Target:
    """A graph with its name on the command line, an executor's own limits, and the line that defines it.

    `value` is the named object.
    """

    name: str
    graph: Graph[Any, Any]
    limits: Limits | None = None
    file: str | None = None
    line: int = 1
    value: object = None


@dataclass(frozen=True, slots=True)
class DeclaredTarget:
    """A graph of another library with its name on the command line, and the line that defines it.

    `reader` is the name of the module that reads it, which needs the library.
    """

    name: str
    value: object
    reader: str
    file: str | None = None
    line: int = 1

    def judge(self, max_rounds: int | None = None) -> Judgement:
        """Say which runs end. Raises `UsageError` for a graph that cannot be read."""
        # Any: each module takes graphs of its library.
        check: Any = importlib.import_module(self.reader).check
        try:
            judgement: Judgement = check(self.value, self.name, max_rounds=max_rounds)
        except InputError as error:
            raise UsageError(f"{self.name} cannot be read: {error}") from error
        return judgement


AnyTarget: TypeAlias = Target | DeclaredTarget


def tools_at(reference: str) -> tuple[AnyTool, ...]:
    """Load tools: an object, a list of them, or those of a module or a file. Functions are made tools, as by `@tool`.

    Raises `UsageError` for anything else.
    """
    if is_module_reference(reference):
        return _tools_in(reference)
    _, found = load_object(reference, "tools:weather")
    values = tuple(found) if _is_collection(found) else (found,)
    if not values:
        raise UsageError(f"{reference} is an empty {type(found).__name__}; name a tool or a list of tools")
    try:
        # Of an object that cannot be called, the tools are its methods.
        is_callable = callable(found) or hasattr(found, "invoke") or _is_collection(found)
        return to_tools(values) if is_callable else tools_of(found)
    except ToolDefinitionError as error:
        raise UsageError(f"{reference} is not a tool or a list of tools: {error}") from error


def _tools_in(reference: str) -> tuple[AnyTool, ...]:
    """Load the tools that a module defines; those that it imports only if it defines none."""
    module = _module(reference)
    try:
        found = tools_of(module)
    except ToolDefinitionError as error:
        raise UsageError(f"{reference} has no tools; write @tool above its functions, or name a function") from error
    own = tuple(one for one in found if getattr(one.function, "__module__", None) == module.__name__)
    return own or found


def machine_at(reference: str) -> AnyTarget:
    """Load a graph, or an object whose `.graph` is one, such as an executor; also a graph of another library.

    Raises `UsageError` for anything else.
    """
    if is_module_reference(reference):
        names = [machine.name for machine in machines_at(reference)]
        kind = "file" if reference.endswith(".py") else "module"
        raise UsageError(f"{reference} names a {kind}, not a machine; write {' or '.join(names[:_SHOWN])}")
    module, found = load_object(reference, _EXAMPLE)
    machine = _machine(reference, found, module)
    if machine is None:
        raise UsageError(
            f"{reference} is {an(type(found).__name__)}, not a graph; name a Graph, or an object whose .graph is one"
        )
    return machine


def machines_at(reference: str) -> tuple[AnyTarget, ...]:
    """Load the named machine, or every graph and executor at the top level of a module or file, each once.

    Raises `UsageError` if there is none.
    """
    if not is_module_reference(reference):
        return (machine_at(reference),)
    module = _module(reference)
    found: dict[int, AnyTarget] = {}
    for name, value in vars(module).items():
        machine = None if name.startswith("_") else _machine(f"{reference}:{name}", value, module)
        if machine is not None:
            found.setdefault(id(value), machine)
    if not found:
        raise UsageError(
            f"{reference} has no graph and no executor at its top level; write one into it, such as executor = "
            "create_agent(...), or name another"
        )
    imported = {id(value) for source in sources_of(module) for value in vars(source).values()}
    # A graph of LangGraph is often beside the builder that compiled it.
    imported |= {id(getattr(machine.value, "builder", None)) for machine in found.values()}
    own = tuple(machine for key, machine in found.items() if key not in imported)
    if not own:
        one = next(iter(found.values())).name
        raise UsageError(f"{reference} defines no machine, it only imports some; name one, such as {one}")
    return own


def is_module_reference(reference: str) -> bool:
    """Return whether the reference names no object. A Windows path may have a colon."""
    return reference.endswith(".py") or ":" not in reference


def reader_of(value: object) -> str | None:
    """Return the name of the module that reads a graph of another library; `None` for anything else."""
    classes = [(one.__module__.partition(".")[0], one.__name__) for one in type(value).__mro__]
    return next((_READERS[one] for one in classes if one in _READERS), None)


def _machine(name: str, found: object, module: ModuleType) -> AnyTarget | None:
    line = functools.partial(line_of, module, name.rpartition(":")[2])
    if _is_graph(found):
        return Target(name, found, None, module.__file__, line(), found)
    reader = reader_of(found)
    if reader is not None:
        return DeclaredTarget(name, found, reader, module.__file__, line())
    inner = None if isinstance(found, type) else getattr(found, "graph", None)
    limits = getattr(found, "limits", None)
    if not _is_graph(inner):
        return None
    return Target(name, inner, limits if isinstance(limits, Limits) else None, module.__file__, line(), found)


def load_object(reference: str, example: str) -> tuple[ModuleType, object]:
    """Load the named object, and its module. Raises `UsageError`, in which `example` is a valid name."""
    place, _, path = reference.rpartition(":")
    if not place or not path:
        raise UsageError(f"{reference!r} does not name an object; write module:object, such as {example}")
    module = _module(place)
    found: object = module
    within = place
    for name in path.split("."):
        if not hasattr(found, name):
            names = [one for one in dir(found) if one[:1] != "_"]
            near = did_you_mean(name, names, f"it has {', '.join(names[:_SHOWN]) or 'no names'}", most=3)
            raise UsageError(f"{within} has no {name}; {near}")
        found = getattr(found, name)
        within = f"{place}:{name}" if within == place else f"{within}.{name}"
    return module, found


def _module(place: str) -> ModuleType:
    _check_path(place)
    here = str(Path.cwd())
    if here not in sys.path:
        # As with `python -m`: users name modules of the current folder.
        sys.path.insert(0, here)
    try:
        # Output of an import must not mix with the command's.
        with redirect_stdout(sys.stderr):
            if place.endswith(".py"):
                return _file(place)
            return importlib.import_module(place)
    except KeyboardInterrupt:
        raise
    # A module may raise anything, even SystemExit.
    except BaseException as error:
        if isinstance(error, UsageError):
            raise
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{place}.".startswith(f"{missing}."):
            parent, dot, name = missing.rpartition(".")
            is_object = dot and hasattr(sys.modules.get(parent), name)
            near = f"did you mean {parent}:{name}?" if is_object else "check its name, and the folder"
            raise UsageError(f"there is no module {missing} here, nor is it installed; {near}") from error
        raise _import_error(place, error) from error


def _import_error(place: str, error: BaseException) -> UsageError:
    match error:
        case GraphError(faults=faults):
            each = [f"{fault.code}: {fault.text}" for fault in faults]
            return UsageError(f"{place} cannot be imported: its table cannot be built{format_place(error)}", each=each)
        case UnprovedError():
            why = [str(finding) for finding in error.verdict.findings if finding.severity == "error"]
            return UsageError(f"{place} cannot be imported: its executor is refused{format_place(error)}", each=why)
        case _:
            return UsageError(f"{place} cannot be imported: {type(error).__name__}: {error}{format_place(error)}")


def _check_path(place: str) -> None:
    if place.endswith(".ipynb"):
        raise UsageError(f"{place} is a notebook, which is not read; export it: jupyter nbconvert --to script {place}")
    if place.endswith(".py") or all(part.isidentifier() for part in place.split(".")):
        return
    if Path(place).is_dir():
        raise UsageError(f"{place} is a folder; name a module or a file in it")
    if place.startswith(".") or "/" in place:
        raise UsageError(f"{place} is neither a module nor a Python file; write module:object or file.py:object")


def _file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"there is no file {place}; check its name, and the folder")
    folder = str(path.parent.resolve())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # Do not hide another module, loaded or not: the file may be called json.py, or as its package is.
    known = importlib.machinery.PathFinder.find_spec(path.stem)
    is_other = path.stem in sys.modules or known is None or not path.samefile(known.origin or ".")
    spec = importlib.util.spec_from_file_location(f"{path.stem}_file" if is_other else path.stem, path)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None, "a file that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and annotations look their module up by name.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def raised_at(error: BaseException) -> tuple[str, int] | None:
    """Return the file and line of the user's code that raised, else of another package's, or `None`."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return error.filename, error.lineno or 1
    frames = traceback.extract_tb(error.__traceback__)
    places = [(one.filename, one.lineno or 1) for one in frames if not one.filename.startswith(_NOT_USER_CODE)]
    packaged = [place for place in places if place[0].startswith(_PACKAGES)]
    own = [place for place in places if place not in packaged and not place[0].startswith(_STANDARD_LIBRARY)]
    return next(reversed(own or packaged), None)


def format_place(error: BaseException) -> str:
    """Return the file and line of the user's code that raised, in parentheses; empty if it is not known."""
    place = None if isinstance(error, SyntaxError) else raised_at(error)
    return "" if place is None else f" ({Path(place[0]).name}, line {place[1]})"


def failure_line(error: BaseException) -> str:
    """Return the message of an error of a run as one line; for one of the user's code, with its file and line."""
    own = isinstance(error, (GraphexecError, UsageError))
    return error_line(error) + ("" if own else format_place(error))


# These guards give type checkers the type parameters, which isinstance alone does not.


def _is_graph(value: object) -> TypeGuard[Graph[Any, Any]]:
    return isinstance(value, Graph)


def _is_collection(value: object) -> TypeGuard[Iterable[object]]:
    return isinstance(value, (list, tuple, set, frozenset))
