"""The page as one file: style, drawing, data and script, with a strict content policy."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from math import isfinite
from posixpath import dirname, join, normpath
from string import Template
from typing import Any, cast

from graphexec.draw.formats.svg import legend_sample, page_svg
from graphexec.draw.layout.graphviz import paths_of
from graphexec.draw.model.picture import LEGEND, Arrow, Entry, Picture, legend_of
from graphexec.draw.model.style import DARK, LIGHT, Palette, style
from graphexec.draw.model.text import sanitize_line, shorten
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.overlay import steps_of
from graphexec.draw.runs.records import Recording
from graphexec.messages.images import Image, restore_object

# In their order: the later ones adapt the earlier ones to the screen.
_STYLES = ("base", "header", "machine", "steps", "detail", "player", "waterfall", "keys", "screens")
# What the legend explains: nodes say themselves what they do.
_EXPLAINED: frozenset[Entry] = frozenset({"exhausts", "end", "red", "orange", "grey"})
# The script sets this attribute on a dark page: the reader's choice, or else the system's.
_DARK = ":root[data-theme=dark]"

# The maximum length of the question in the page's title.
_TITLE = 80

# The only form of import that the scripts use; `export` stands only before declarations.
_IMPORT = re.compile(r'^import \{[^}]*\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=const |let |function |async function )", re.MULTILINE)

# The largest integer that JavaScript represents exactly.
_MOST = 2**53
# The maximum depth of nested data; and bits of an integer, below Python's limit on decimal conversion.
_DEEP = 60
_LONG = 2000
# Characters that could end the script element that holds the data, or begin a comment in it.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def html(picture: Picture, recording: Recording | None = None, *, live: str | None = None, nav: str = "") -> str:
    """Draw the picture as an HTML page; with a `recording`, the page shows the run step by step.

    `live` is the address of an event stream on the page's own server: each message is a record in the format of
    `record_json`, and its `id` is the index in the run; the event `end` ends the stream. The policy of the page allows
    its own script and style, and a live page requests to its server; the page works from disk. `nav` is HTML: links to
    other pages of that server. Raises `InputError` if pygraphviz is not installed.
    """
    records = () if recording is None else recording.records
    drawn = replace(picture, arrows=tuple(_with_counts(picture, records, live=live is not None)))
    legend = "".join(
        f"<span>{legend_sample(entry)}{escape(LEGEND[entry])}</span>"
        for entry in legend_of(drawn)
        if entry in _EXPLAINED
    )
    body = Template(read_file("page.html")).substitute(drawing=page_svg(drawn), legend=legend, nav=nav)
    css = f"{style(_DARK)}{colours(LIGHT, ':root')}{colours(DARK, _DARK)}{_read_styles()}"
    script = bundle()
    data = {
        "clusters": readable(_clusters(drawn)),
        "picture": readable(picture.to_data()),
        "records": pack_records(records),
        "live": live,
    }
    return Template(read_file("document.html")).substitute(
        title=escape(_title(picture, records)),
        policy=policy(script, css, live=live is not None),
        css=css,
        body=body,
        data=script_json(data),
        script=script,
    )


def _with_counts(picture: Picture, records: Iterable[Record], *, live: bool) -> Iterable[Arrow]:
    """Yield the arrows with their counts, so that the layout reserves space for the counts that the script shows."""
    moves = Counter(steps_of(picture, records))
    for index, arrow in enumerate(picture.arrows):
        count = moves[index]
        yield replace(arrow, notes=(f"×{count:,}",)) if count or live else arrow


def _title(picture: Picture, records: Iterable[Record]) -> str:
    # Any: a run's input is arbitrary.
    asked: Any = next((readable(record.get("input")) for record in records if record["event"] == "start"), None)
    with suppress(TypeError, KeyError):
        asked = asked["input"]
    if asked is None:
        return f"State machine starting at {picture.start}"
    return shorten(str(asked), _TITLE)


def _clusters(picture: Picture) -> dict[str, list[str]]:
    """Return the nodes in the box of each piece and embedded graph, by its path; outer boxes come first."""
    return {
        sanitize_line(".".join(path)): [box.name for box in picture.boxes if box.path[: len(path)] == path]
        for path in paths_of(picture)
    }


def colours(palette: Palette, selector: str) -> str:
    """Return the colours of a palette as variables of CSS."""
    names = ("paper", "ink", "faint", "line", "cluster", "red", "orange", "grey", "heat", "current")
    rules = [f"--{name}:{getattr(palette, name)}" for name in names]
    for look, colours in palette.nodes.items():
        rules += [f"--{look}:{colours.stroke}", f"--{look}-fill:{colours.fill}"]
    return f"{selector}{{{';'.join(rules)}}}"


def policy(script: str, css: str, *, live: bool, forms: bool = False) -> str:
    """Return the content security policy: the page's own script and style, and for a live page its own server."""
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(css),
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'self'" if forms else "'none'",
    }
    return "; ".join(f"{rule} {sources}" for rule, sources in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _read_styles() -> str:
    return "".join(read_file(f"styles/{name}.css") for name in _STYLES)


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


def record_json(record: Record) -> str:
    """Return a record as JSON for the page: numbers that JavaScript cannot represent are strings.

    Images become their labels, and data nested too deeply becomes `…`.
    """
    return json.dumps(readable(record), allow_nan=False)


def pack_records(records: Iterable[Record]) -> str:
    """Return the records of a run, each as `record_json` has it, as gzipped JSON in Base64; no records are ""."""
    shown = list(map(readable, records))
    text = json.dumps(shown, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode() if shown else ""


def script_json(data: Record) -> str:
    """Return `readable` data as JSON in ASCII that cannot end an HTML script element."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&]", lambda found: _ESCAPES[found[0]], text)


# Any: JSON values are arbitrary.
def readable(value: Any, depth: int = 0) -> Any:
    """Return JSON data as the page shows them, see `record_json`; `depth` is how many values they are in."""
    match value:
        case None | bool() | str():
            return value
        case _ if depth > _DEEP:
            return "…"
        case int() if -_MOST <= value <= _MOST:
            return value
        case int():
            return hex(value) if value.bit_length() > _LONG else str(value)
        case dict():
            # Type checkers do not know the members of an arbitrary value.
            members = cast("Record", value)
            restored = restore_object(members) if "kind" in members else members
            if isinstance(restored, Image):
                return f"[image: {restored}]"
            return {name: readable(one, depth + 1) for name, one in restored.items()}
        case list() | tuple():
            return [readable(one, depth + 1) for one in cast("Sequence[Any]", value)]
        case _:
            return value if isfinite(value) else str(value)
