"""HTML: one self-contained page that shows a machine and a run, step by step."""

from __future__ import annotations

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
from string import Template
from typing import Any, cast

from graphexec.draw.formats.svg import svg
from graphexec.draw.layout.placement import paths_of
from graphexec.draw.model.picture import Arrow, Picture
from graphexec.draw.model.style import DARK, LIGHT, Palette, style
from graphexec.draw.model.text import sanitize_line
from graphexec.draw.page.bundle import bundle
from graphexec.draw.runs.data import Record, to_json_data
from graphexec.draw.runs.labels import shorten
from graphexec.draw.runs.overlay import steps_of
from graphexec.draw.runs.records import Recording
from graphexec.messages.images import Image, restore_object

# In their order: the later ones adapt the earlier ones to the screen.
_STYLES = ("base", "header", "machine", "steps", "detail", "player", "screens")
# The script sets this attribute on a dark page: the reader's choice, or else the system's.
_DARK = ":root[data-theme=dark]"
# The largest integer that JavaScript represents exactly.
_MOST = 2**53
# The maximum length of the question in the page's title.
_TITLE = 80
# The maximum depth of nested data; and bits of an integer, below Python's limit on decimal conversion.
_DEEP = 60
_LONG = 2000
# Characters that could end the script element that holds the data, or begin a comment in it.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def html(picture: Picture, recording: Recording | None = None, *, live: str | None = None) -> str:
    """Draw the picture as an HTML page; with a `recording`, the page shows the run step by step.

    `live` is the address of an event stream on the page's own server: each message is a record in the format of
    `record_json`, and its `id` is the index in the run; the event `end` ends the stream. The page makes no other
    request, and works from disk. Raises `InputError` if pygraphviz is not installed.
    """
    records = () if recording is None else recording.records
    shown = replace(picture, caption=(), arrows=tuple(_with_counts(picture, records, live=live is not None)))
    drawing, sheet = _without_style(svg(shown))
    css = f"{sheet}{_colours(LIGHT, ':root')}{_colours(DARK, _DARK)}{_read_styles()}"
    data: Record = {"picture": picture.to_data(), "records": list(records), "live": live}
    script = bundle("page.js")
    return Template(_read("page.html")).substitute(
        title=escape(_title(picture, records)),
        policy=_policy(script, css, drawing, live=live is not None),
        css=css,
        drawing=drawing,
        data=_script_json({**data, "clusters": _clusters(picture)}),
        script=script,
    )


def _clusters(picture: Picture) -> dict[str, list[str]]:
    """Return the nodes in the box of each piece and embedded graph, by its path; outer boxes come first."""
    return {
        sanitize_line(".".join(path)): [box.name for box in picture.boxes if box.path[: len(path)] == path]
        for path in paths_of(picture)
    }


def record_json(record: Record) -> str:
    """Return a record as JSON for the page: numbers that JavaScript cannot represent are strings.

    Images become their labels, data nested too deeply becomes `…`, and values that JSON cannot express become their
    `repr`. Never raises.
    """
    return json.dumps(_readable(record), allow_nan=False)


def _script_json(data: Record) -> str:
    """Return JSON in ASCII that cannot end an HTML script element."""
    return re.sub("[<>&]", lambda found: _ESCAPES[found[0]], record_json(data))


def _readable(value: Any, depth: int = 0) -> Any:
    match value:
        case None | bool() | str():
            return value
        case _ if depth > _DEEP:
            return "…"
        case dict():
            # Type checkers do not know the members of an arbitrary value.
            restored = restore_object(cast("Record", value))
            if isinstance(restored, Image):
                return f"[image: {restored}]"
            return {_text(name): _readable(one, depth + 1) for name, one in restored.items()}
        case list() | tuple():
            return [_readable(one, depth + 1) for one in cast("Sequence[Any]", value)]
        case float():
            return value if isfinite(value) else str(value)
        case int() if value.bit_length() > _LONG:
            return hex(value)
        case int():
            return value if -_MOST <= value <= _MOST else str(value)
        case _:
            return _readable(to_json_data(value), depth + 1)


def _text(name: object) -> str:
    return name if isinstance(name, str) else json.dumps(_readable(name), allow_nan=False)


def _with_counts(picture: Picture, records: Iterable[Record], *, live: bool) -> Iterable[Arrow]:
    """Yield the arrows with their counts, so that the layout reserves space for the counts that the script shows."""
    moves = Counter(step.edge for step in steps_of(picture, records))
    for index, arrow in enumerate(picture.arrows):
        count = moves[index]
        yield replace(arrow, notes=(f"×{count:,}",)) if count or live else arrow


def _without_style(drawing: str) -> tuple[str, str]:
    """Return a drawing without its style sheet, and a sheet whose dark rules the page switches on and off."""
    return re.sub("<style>.*?</style>", "", drawing, count=1, flags=re.DOTALL), style(_DARK)


def _colours(palette: Palette, selector: str) -> str:
    names = ("paper", "ink", "faint", "line", "cluster", "red", "orange", "grey", "heat", "current")
    rules = [f"--{name}:{getattr(palette, name)}" for name in names]
    for look, colours in palette.nodes.items():
        rules += [f"--{look}:{colours.stroke}", f"--{look}-fill:{colours.fill}"]
    return f"{selector}{{{';'.join(rules)}}}"


def _policy(script: str, css: str, drawing: str, *, live: bool) -> str:
    """Return the content security policy: the page's own script and style, and for a live page its own server."""
    widths = sorted(set(re.findall(' style="([^"]*)"', drawing)))
    styles = " ".join([_hash(css), *(["'unsafe-hashes'"] if widths else []), *map(_hash, widths)])
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": styles,
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{rule} {sources}" for rule, sources in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _title(picture: Picture, records: Iterable[Record]) -> str:
    # Any: a run's input is arbitrary.
    asked: Any = next((_readable(record.get("input")) for record in records if record["event"] == "start"), None)
    with suppress(TypeError, KeyError):
        asked = asked["input"]
    if asked is None:
        return f"State machine starting at {picture.start}"
    return shorten(str(asked), _TITLE)


@cache
def _read_styles() -> str:
    return "".join(_read(f"styles/{name}.css") for name in _STYLES)


@cache
def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")
