"""What a module's source says of its names: where they are bound, and which modules they are imported from."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType


def line_of(module: ModuleType, path: str) -> int:
    """The line that binds `path` (a name, or names with dots) last; 1 where the source does not show it.

    What is bound in a function, or by `setattr`, is not seen.
    """
    line = 1
    body: Sequence[ast.stmt] = _body(module)
    for name in path.split("."):
        binding = [one for one in _statements(body) if name in _names(one)]
        if not binding:
            break
        last = binding[-1]
        line = last.lineno
        body = last.body if isinstance(last, ast.ClassDef) else ()
    return line


def sources_of(module: ModuleType) -> Iterator[ModuleType]:
    """The modules of other packages that the module imports, or imports from, at its top level."""
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
        # There is no source, or it is not Python: an extension, or a file that is gone.
        return ()


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that bind names of the same namespace, those in an `if` or a `with` included."""
    for one in body:
        yield one
        if not isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            blocks = [one, *getattr(one, "handlers", ()), *getattr(one, "cases", ())]
            for block in blocks:
                for part in ("body", "orelse", "finalbody"):
                    yield from _statements(getattr(block, part, ()))


def _names(statement: ast.stmt) -> set[str]:
    """The names that a statement binds by itself."""
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
