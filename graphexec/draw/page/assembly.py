"""The parts that every page has: style, drawing, data and scripts in one file, with a strict content policy."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from string import Template
from types import MappingProxyType

from graphexec.draw.formats.svg import legend_sample, page_svg
from graphexec.draw.layout.graphviz import paths_of
from graphexec.draw.model.picture import Entry, Picture, legend_of, legend_text
from graphexec.draw.model.style import DARK, LIGHT, Palette, style
from graphexec.draw.model.text import sanitize_line
from graphexec.draw.page.bundle import read_file
from graphexec.draw.page.encoding import readable, script_json
from graphexec.draw.runs.data import Record

# In their order: the later ones adapt the earlier ones to the screen.
_STYLES = (
    *("base", "header", "machine", "steps", "detail", "player", "waterfall"),
    *("compare", "index", "keys", "screens", "print"),
)
# Files with elements that the bodies of several pages have: the buttons of the page, and of its drawing.
_SHARED = ("page_buttons", "drawing_buttons")
# What the legend explains: nodes say themselves what they do.
_EXPLAINED: frozenset[Entry] = frozenset({"badge", "exhausts", "end", "red", "orange", "grey"})
# The script sets this attribute on a dark page: the reader's choice, or else the system's.
_DARK = ":root[data-theme=dark]"
_NONE: Mapping[str, str] = MappingProxyType({})


def assemble(
    body: str, script: str, *, title: str, data: Record, live: bool = False, held: Mapping[str, str] = _NONE
) -> str:
    """Return a page: the content of its body, its script, and the `readable` data that the script reads.

    `held` are scripts by the ids of the elements that hold them, which the page's script may start. The policy allows
    the scripts and the styles of the page alone, and a `live` page requests to its own server.
    """
    holders = [f'<script id="{name}" type="text/plain">{text}</script>' for name, text in held.items()]
    css = f"{style(_DARK)}{_colours(LIGHT, ':root')}{_colours(DARK, _DARK)}{_read_styles()}"
    return Template(read_file("document.html")).substitute(
        title=escape(title),
        policy=_policy([script, *held.values()], css, body, live=live),
        css=css,
        body="".join([body, *holders]),
        data=script_json(data),
        script=script,
    )


def body_of(name: str, **parts: str) -> str:
    """Return the body of a page, from its file and the parts that the file names."""
    shared = {part: read_file(f"{part}.html").rstrip() for part in _SHARED}
    return Template(read_file(f"{name}.html")).substitute(shared, **parts)


def drawing_of(picture: Picture) -> str:
    """Return the drawing of a machine for a page, with an overview and the legend; the page shows the caption.

    Raises `InputError` if pygraphviz is not installed.
    """
    legend = "".join(
        f"<span>{legend_sample(entry)}{escape(legend_text(entry))}</span>"
        for entry in legend_of(picture)
        if entry in _EXPLAINED
    )
    return body_of("drawing", drawing=page_svg(picture), legend=legend)


def machine_data(picture: Picture) -> Record:
    """Return the data of a machine for a page's script: its picture, and the nodes in each of its boxes."""
    data: Record = readable({"picture": picture.to_data(), "clusters": _clusters(picture)})
    return data


def _clusters(picture: Picture) -> dict[str, list[str]]:
    """Return the nodes in the box of each piece and embedded graph, by its path; outer boxes come first."""
    return {
        sanitize_line(".".join(path)): [box.name for box in picture.boxes if box.path[: len(path)] == path]
        for path in paths_of(picture)
    }


def _colours(palette: Palette, selector: str) -> str:
    names = ("paper", "ink", "faint", "line", "cluster", "red", "orange", "grey", "heat", "current")
    rules = [f"--{name}:{getattr(palette, name)}" for name in names]
    for look, colours in palette.nodes.items():
        rules += [f"--{look}:{colours.stroke}", f"--{look}-fill:{colours.fill}"]
    return f"{selector}{{{';'.join(rules)}}}"


def _policy(scripts: Iterable[str], css: str, body: str, *, live: bool) -> str:
    """Return the content security policy: the page's own scripts and style, and for a live page its own server."""
    widths = sorted(set(re.findall(' style="([^"]*)"', body)))
    styles = " ".join([_hash(css), *(["'unsafe-hashes'"] if widths else []), *map(_hash, widths)])
    rules: Mapping[str, str] = {
        "default-src": "'none'",
        "script-src": " ".join(map(_hash, scripts)),
        "style-src": styles,
        "img-src": "data:",
        "connect-src": "'self'" if live else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{rule} {sources}" for rule, sources in rules.items())


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


@cache
def _read_styles() -> str:
    return "".join(read_file(f"styles/{name}.css") for name in _STYLES)
