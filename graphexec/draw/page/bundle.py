"""Bundle ECMAScript modules into one, since a page from disk cannot load modules."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from posixpath import dirname, join, normpath

# The only form of import that the scripts use; `export` stands only before declarations.
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const |let |function |async function )", re.MULTILINE)


@cache
def read_file(name: str) -> str:
    """Return the text of a file of this package."""
    return files("graphexec.draw.page").joinpath(name).read_text("utf-8")


@cache
def bundle() -> str:
    """Return the module `page.js` and all that it imports, each after those it imports.

    The modules share one scope, so their top-level names must differ. Modules that import each other may use each
    other's names only in functions.
    """
    texts: dict[str, str] = {}
    _collect("page.js", texts, set())
    return "".join(texts.values())


def _collect(name: str, texts: dict[str, str], begun: set[str]) -> None:
    """Add a module, after those that it imports, to `texts`; `begun` are those that have been visited."""
    if name in begun:
        return
    begun.add(name)
    source = read_file(f"scripts/{name}")
    for path in _IMPORT.findall(source):
        _collect(normpath(join(dirname(name), path)), texts, begun)
    texts[name] = _EXPORT.sub("", _IMPORT.sub("", source))
