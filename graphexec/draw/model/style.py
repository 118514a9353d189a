"""The light and the dark colours of SVG pictures, and their style sheet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from graphexec.draw.model.picture import Look

# Text is measured with the metrics that the first three share.
FONT = "Helvetica, Arial, Liberation Sans, Roboto, sans-serif"


class Colours(NamedTuple):
    """The fill and the outline of a shape."""

    fill: str
    stroke: str


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a picture; those of the nodes are tints of Okabe and Ito's palette, made for the colour-blind.

    `heat` colours the edges that a run took. Shapes, widths and labels carry the same information without colour.
    """

    paper: str
    ink: str
    faint: str
    line: str
    cluster: str
    red: str
    orange: str
    grey: str
    heat: str
    current: str
    nodes: Mapping[Look, Colours]


LIGHT = Palette(
    paper="#ffffff",
    ink="#16202c",
    faint="#566270",
    line="#3d4a57",
    cluster="#f4f6f8",
    red="#c21d1b",
    orange="#bd5700",
    grey="#b0b0b0",
    heat="#0a63b8",
    current="#ffd84d",
    nodes={
        "model": Colours("#dcedfa", "#186cab"),
        "tools": Colours("#dff3ea", "#00795a"),
        "person": Colours("#fdf1cf", "#8c6500"),
        "effect": Colours("#f7e3ef", "#9f477a"),
        "opaque": Colours("#e9ebee", "#4d5966"),
        "pure": Colours("#ffffff", "#4d5966"),
    },
)
DARK = Palette(
    paper="#10161d",
    ink="#eef2f6",
    faint="#a3b0bd",
    line="#aebac6",
    cluster="#18212b",
    red="#ff6b66",
    orange="#ffa04d",
    grey="#5c6670",
    heat="#5cb3ff",
    current="#8a6d00",
    nodes={
        "model": Colours("#143149", "#6cb8f0"),
        "tools": Colours("#0f3a2e", "#4fcfa5"),
        "person": Colours("#40330a", "#e6bb4a"),
        "effect": Colours("#42213a", "#e39ac4"),
        "opaque": Colours("#2a333d", "#aab6c2"),
        "pure": Colours("#161e27", "#aab6c2"),
    },
)


def style(dark: str = "@media (prefers-color-scheme: dark)") -> str:
    """Return the style sheet of an SVG; `dark` is the selector or media query around its dark rules."""
    return f"{_SHAPES}{_rules(LIGHT)}{dark}{{{_rules(DARK)}}}"


_SHAPES = (
    ".gx text{text-anchor:middle}"
    ".gx .title{font-weight:bold}"
    ".gx .start{text-anchor:start}"
    ".gx .line{fill:none;stroke-width:1.3}"
    ".gx .outline{stroke-width:1.4}"
    ".gx .exhausts .line{stroke-dasharray:5 4}"
    ".gx .opaque .outline{stroke-dasharray:2 2}"
    ".gx .red .line{stroke-width:3}.gx .red .outline{stroke-width:3}"
    ".gx .orange .line{stroke-width:2.2}.gx .orange .outline{stroke-width:2.2}"
    ".gx .untaken{opacity:.5}"
    ".gx .notes{font-weight:bold}"
    ".gx .current .outline{stroke-width:3.5}"
    ".gx .failed .outline{stroke-width:3}"
)


def _rules(palette: Palette) -> str:
    rules = [
        f".gx .paper{{fill:{palette.paper}}}",
        f".gx text{{fill:{palette.ink}}}",
        f".gx .faint{{fill:{palette.faint}}}",
        f".gx .line{{stroke:{palette.line}}}",
        f".gx .tip,.gx .dot{{fill:{palette.line}}}",
        f".gx .finish{{fill:{palette.paper};stroke:{palette.line};stroke-width:1.4}}",
        f".gx .cluster{{fill:{palette.cluster};stroke:{palette.faint};stroke-dasharray:1 3}}",
        f".gx .label{{paint-order:stroke;stroke:{palette.paper};stroke-width:3px;stroke-linejoin:round}}",
        *(
            f".gx .{look} .outline{{fill:{colours.fill};stroke:{colours.stroke}}}"
            for look, colours in palette.nodes.items()
        ),
        f".gx .taken .line{{stroke:{palette.heat}}}.gx .taken .tip{{fill:{palette.heat}}}",
        f".gx .notes{{fill:{palette.heat}}}",
        f".gx .current .outline{{fill:{palette.current}}}",
        f".gx .failed .outline{{stroke:{palette.red}}}",
    ]
    marks = {"red": palette.red, "orange": palette.orange, "grey": palette.grey}
    coloured = (
        f".gx .{mark} .line,.gx .{mark} .outline{{stroke:{colour}}}.gx .{mark} .tip,.gx .{mark} .label{{fill:{colour}}}"
        for mark, colour in marks.items()
    )
    return "".join([*rules, *coloured])
