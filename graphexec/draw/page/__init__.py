"""HTML: one page, which needs nothing else, with a machine and a run to be looked at step by step."""

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
from graphexec.draw.model.picture import Arrow, Picture
from graphexec.draw.model.style import DARK, LIGHT, Palette, style
from graphexec.draw.runs.data import Record, as_data
from graphexec.draw.runs.labels import shorten
from graphexec.draw.runs.records import Recording

# In the order in which one builds upon the other; together they are one module.
_SCRIPTS = ("run.js", "text.js", "machine.js", "spent.js", "detail.js", "steps.js", "page.js")
# How JavaScript tells that the page is dark: the system's choice, unless the reader has made one.
_DARK = ":root[data-theme=dark]"
# The integers that JavaScript has.
_MOST = 2**53
# Of what was asked, in the title of the page.
_TITLE = 80
# Lists in lists that are shown; and the bits of an integer that Python writes in decimal, whatever its limit.
_DEEP = 60
_LONG = 2000
# What would end the script that holds the data, or begin a comment in it.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def html(picture: Picture, recording: Recording | None = None, *, live: str | None = None) -> str:
    """Draw the picture as an HTML page, and with a `recording` the run, step by step.

    `live` is the address of an event stream from the page's own server: each message is a record as `record_json` says
    it, whose `id` is its index in the run; the event `end` says that there will be none. The page asks nobody else for
    anything, and works from disk. Raises `InputError` where there is no Graphviz to lay the machine out.
    """
    records = () if recording is None else recording.records
    shown = replace(picture, caption=(), arrows=tuple(_with_counts(picture, records, live=live is not None)))
    drawing, sheet = _without_style(svg(shown))
    css = f"{sheet}{_colours(LIGHT, ':root')}{_colours(DARK, _DARK)}{_read('page.css')}"
    script = "".join(_read(name) for name in _SCRIPTS)
    return Template(_read("page.html")).substitute(
        title=escape(_title(picture, records)),
        policy=_policy(script, css, drawing, live=live is not None),
        css=css,
        drawing=drawing,
        data=_script_json({"picture": picture.to_data(), "records": list(records), "live": live}),
        script=script,
    )


def record_json(record: Record) -> str:
    """A record as the page reads it: JSON, in which numbers that JavaScript does not have are text.

    Of what is nested deeper than anyone reads there is `…`; what is no JSON is its text. Never raises.
    """
    return json.dumps(_readable(record), allow_nan=False)


def _script_json(data: Record) -> str:
    """JSON in ASCII, which no HTML parser takes for the script's end."""
    return re.sub("[<>&]", lambda found: _ESCAPES[found[0]], record_json(data))


def _readable(value: Any, depth: int = 0) -> Any:
    match value:
        case None | bool() | str():
            return value
        case _ if depth > _DEEP:
            return "…"
        # What JSON holds is arbitrary, and a checker does not know what an arbitrary value's members are.
        case dict():
            return {_text(name): _readable(one, depth + 1) for name, one in cast("Record", value).items()}
        case list() | tuple():
            return [_readable(one, depth + 1) for one in cast("Sequence[Any]", value)]
        case float():
            return value if isfinite(value) else str(value)
        case int() if value.bit_length() > _LONG:
            return hex(value)
        case int():
            return value if -_MOST <= value <= _MOST else str(value)
        case _:
            return _readable(as_data(value), depth + 1)


def _text(name: object) -> str:
    return name if isinstance(name, str) else json.dumps(_readable(name), allow_nan=False)


def _with_counts(picture: Picture, records: Iterable[Record], *, live: bool) -> Iterable[Arrow]:
    """The arrows with how often the run took them: the layout leaves room for what the script counts there."""
    moves = Counter((record["node"], record["outcome"]) for record in records if record["event"] == "moved")
    for arrow in picture.arrows:
        count = moves[arrow.source, arrow.outcome]
        yield replace(arrow, notes=(f"×{count:,}",)) if count or live else arrow


def _without_style(drawing: str) -> tuple[str, str]:
    """A drawing without its style sheet, and a sheet whose dark half the page's reader switches."""
    return re.sub("<style>.*?</style>", "", drawing, count=1, flags=re.DOTALL), style(_DARK)


def _colours(palette: Palette, selector: str) -> str:
    names = ("paper", "ink", "faint", "line", "cluster", "red", "orange", "grey", "heat", "current")
    rules = [f"--{name}:{getattr(palette, name)}" for name in names]
    for look, colours in palette.nodes.items():
        rules += [f"--{look}:{colours.stroke}", f"--{look}-fill:{colours.fill}"]
    return f"{selector}{{{';'.join(rules)}}}"


def _policy(script: str, css: str, drawing: str, *, live: bool) -> str:
    """What the page may do: run its own script and style, and ask its own server where it is live."""
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
        return f"The machine that starts at {picture.start}"
    return shorten(str(asked), _TITLE)


@cache
def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text("utf-8")
