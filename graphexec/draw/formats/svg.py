"""SVG: a picture without network access, fonts or scripts, for light and dark pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from html import escape
from importlib.resources import files

from graphexec.draw.layout.geometry import Layout, Point, Polyline, Rectangle, width
from graphexec.draw.layout.graphviz import CLUSTER, LABEL, LEADING, LINE, TITLE, lay_out
from graphexec.draw.model.picture import (
    GAP,
    LEGEND,
    ROW,
    SAMPLE,
    Arrow,
    Box,
    Entry,
    Look,
    Picture,
    legend_of,
)
from graphexec.draw.model.style import FONT, style
from graphexec.draw.model.text import sanitize_line, wrap_text
from graphexec.errors import InputError
from graphexec.kernel.node import END

# Around everything.
_MARGIN = 20.0
# Wide enough for two columns of the legend below a small machine.
_LEAST_WIDTH = 420.0
_CAPTION = 11.5
# The slant of a shape's sides, and the radius of rounded corners.
_SLANT, _ROUND = 8.0, 10.0
# The length and the half width of an arrow's tip.
_TIP = (9.0, 3.4)


def svg(picture: Picture) -> str:
    """Draw the picture as SVG. Each edge's `<title>` is its line of the table: `parse --Acted--> dispatch_tools`.

    Raises `InputError` if pygraphviz is not installed.
    """
    layout = lay_out(picture)
    inner = max(layout.width, _LEAST_WIDTH)
    lines = _translate((inner - layout.width) / 2 + _MARGIN, _MARGIN, machine(picture, layout))
    bottom = layout.height + 1.6 * _MARGIN
    for block, height in (_legend(picture, inner), _caption(picture.caption, inner)):
        lines += _translate(_MARGIN, bottom, block)
        bottom += height
    wide, high = number(inner + 2 * _MARGIN), number(bottom + _MARGIN)
    # The title is the image's name for screen readers.
    head = [
        f"<title>{_escape(_name_of(picture))}</title>",
        f"<style>{style()}</style>",
        f'<rect class="paper" width="{wide}" height="{high}"/>',
    ]
    return _document(picture, wide, high, 'role="img"', [*head, *lines])


def page_svg(picture: Picture) -> str:
    """Draw the machine as a part of a page, which has the style, a legend and the caption; its elements are no image.

    Raises `InputError` if pygraphviz is not installed.
    """
    layout = lay_out(picture)
    wide, high = number(layout.width + 2 * _MARGIN), number(layout.height + 2 * _MARGIN)
    named = f'role="group" aria-label="{escape(sanitize_line(_name_of(picture)))}"'
    return _document(picture, wide, high, named, _translate(_MARGIN, _MARGIN, machine(picture, layout)))


def _document(picture: Picture, wide: str, high: str, named: str, lines: Iterable[str]) -> str:
    described = "; ".join(_title_of(arrow) for arrow in picture.arrows)
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="gx" viewBox="0 0 {wide} {high}" width="{wide}" '
        f'height="{high}" {named} font-family="{FONT}">',
        f"<desc>{_escape(described)}</desc>",
    ]
    return "\n".join([*head, *lines, "</svg>"]) + "\n"


def _name_of(picture: Picture) -> str:
    return f"State machine that starts at {picture.start}"


def machine(picture: Picture, layout: Layout) -> list[str]:
    """Return the drawing without margins, legend and caption: groups with `data-node` and `data-edge`."""
    lines = [_cluster(path, place) for path, place in layout.clusters.items()]
    taken = " taken" if any(box.taken for box in picture.boxes) else ""
    lines.append(f'<g class="edge{taken}">{_curve(layout.entry)}</g>')
    lines += [
        _edge(index, arrow, line) for index, (arrow, line) in enumerate(zip(picture.arrows, layout.arrows, strict=True))
    ]
    lines.append(_dot(layout.start))
    if layout.finish is not None:
        lines.append(_finish(layout.finish))
    lines += [_node(box, place) for box, place in zip(picture.boxes, layout.boxes, strict=True)]
    # Labels are drawn last, above all lines, so that they stay readable.
    lines += [_cluster_label(path, place) for path, place in layout.clusters.items()]
    lines += [
        _label(index, arrow, place)
        for index, (arrow, place) in enumerate(zip(picture.arrows, layout.labels, strict=True))
    ]
    return lines


def number(value: float) -> str:
    """Format a coordinate to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def text(x: float, y: float, words: str, *, size: float, kind: str = "") -> str:
    """Return one line of text centred at `x` (or starting there, if its kind is `start`), as wide as measured."""
    wide = width(words, size, bold="title" in kind or "notes" in kind)
    named = f' class="{kind}"' if kind else ""
    return (
        f'<text x="{number(x)}" y="{number(y)}" font-size="{size:g}"{named} textLength="{number(wide)}" '
        f'lengthAdjust="spacingAndGlyphs">{_escape(words)}</text>'
    )


def _escape(words: str) -> str:
    return escape(sanitize_line(words), quote=False)


def _title_of(arrow: Arrow) -> str:
    return f"{arrow.source} {f'--{arrow.outcome}-->' if arrow.outcome else '-->'} {arrow.target}"


def _translate(x: float, y: float, lines: Iterable[str]) -> list[str]:
    return [f'<g transform="translate({number(x)} {number(y)})">', *lines, "</g>"]


def _classes(kind: str, one: Box | Arrow) -> str:
    """Return the CSS classes by which the style sheet and the page's script find it."""
    taken = "" if one.taken is None else "taken" if one.taken else "untaken"
    return " ".join(word for word in (kind, one.mark or "", taken) if word)


def _cluster(path: tuple[str, ...], place: Rectangle) -> str:
    x, y, wide, high = map(number, (place.min_x, place.min_y, place.width, place.height))
    name = _attribute(path)
    return f'<rect class="cluster" data-cluster="{name}" x="{x}" y="{y}" width="{wide}" height="{high}" rx="10"/>'


def _cluster_label(path: tuple[str, ...], place: Rectangle) -> str:
    y = place.min_y + CLUSTER + 5
    label = text(place.min_x + 10, y, path[-1], size=CLUSTER, kind="start title faint label cluster-label")
    return label.replace("<text", f'<text data-cluster="{_attribute(path)}"', 1)


def _attribute(path: tuple[str, ...]) -> str:
    return escape(sanitize_line(".".join(path)))


def _edge(index: int, arrow: Arrow, line: Polyline) -> str:
    kind = _classes("edge exhausts" if arrow.exhausts else "edge", arrow)
    return f'<g class="{kind}" data-edge="{index}"><title>{_escape(_title_of(arrow))}</title>{_curve(line)}</g>'


def _curve(line: Polyline) -> str:
    first, *rest = line.curve
    steps = " ".join(_pair(point) for point in rest)
    return f'<path class="line" d="M{_pair(first)}C{steps}"/>{_arrow_head(line.curve[-1], line.tip)}'


def _pair(point: Point) -> str:
    return f"{number(point[0])},{number(point[1])}"


def _arrow_head(base: Point, tip: Point) -> str:
    """Return the arrow's head, from the end of the line to the tip."""
    across, down = tip[0] - base[0], tip[1] - base[1]
    length = math.hypot(across, down) or 1.0
    ahead = (across / length, down / length)
    # Long enough to reach the end of the line, without a gap.
    reach = max(_TIP[0], length + 0.5)
    root = (tip[0] - ahead[0] * reach, tip[1] - ahead[1] * reach)
    side = (-ahead[1] * _TIP[1], ahead[0] * _TIP[1])
    corners = (tip, (root[0] + side[0], root[1] + side[1]), (root[0] - side[0], root[1] - side[1]))
    return f'<polygon class="tip" points="{" ".join(_pair(corner) for corner in corners)}"/>'


def _label(index: int, arrow: Arrow, place: Rectangle) -> str:
    kind = _classes("edge-label", arrow)
    lines = _lines(arrow.lines, arrow.notes, place, LABEL, "label")
    return f'<g class="{kind}" data-edge="{index}">{lines}</g>'


def _lines(lines: Sequence[str], notes: Sequence[str], place: Rectangle, size: float, kind: str) -> str:
    step = size * LEADING
    first = place.y - len(lines) * step / 2 + size * 0.98
    kinds = [kind] * (len(lines) - len(notes)) + [f"{kind} notes"] * len(notes)
    # White space separates the words of two lines for those who read only the text.
    return "\n".join(
        text(place.x, first + row * step, words, size=size, kind=kinds[row]) for row, words in enumerate(lines)
    )


def _dot(place: Rectangle) -> str:
    return f'<circle class="dot" cx="{number(place.x)}" cy="{number(place.y)}" r="{number(place.width / 2)}"/>'


def _end_circles(place: Rectangle, *radii: float) -> str:
    x, y = number(place.x), number(place.y)
    return "".join(f'<circle class="finish" cx="{x}" cy="{y}" r="{number(radius)}"/>' for radius in radii)


def _finish(place: Rectangle) -> str:
    rings = _end_circles(place, place.width / 2, place.width / 2 - 4)
    return f'<g data-node="{END.name}">{rings}{text(place.x, place.y + 4, END.name, size=LINE, kind="title")}</g>'


def _node(box: Box, place: Rectangle) -> str:
    states = [name for name, has in (("current", box.current), ("failed", box.failed)) if has]
    kind = _classes(" ".join(["node", box.look, *states]), box)
    step = LINE * LEADING
    lines = (*box.lines, *box.notes)
    middle = place.y - len(lines) * step / 2
    name = text(place.x, middle + TITLE * 0.36, box.title, size=TITLE, kind="title")
    below = Rectangle(place.x, place.y + TITLE * LEADING / 2, place.width, place.height)
    known = escape(sanitize_line(box.name))
    return (
        f'<g class="{kind}" data-node="{known}"><title>{known}</title>'
        f"{outline(box.look, place)}{name}\n{_lines(lines, box.notes, below, LINE, 'faint')}</g>"
    )


def outline(look: Look, place: Rectangle) -> str:
    """Return the shape of a kind of node: shapes distinguish the kinds without colour."""
    left, top, right, bottom = place.min_x, place.min_y, place.min_x + place.width, place.min_y + place.height
    x, y = number(left), number(top)
    size = f'width="{number(place.width)}" height="{number(place.height)}"'
    match look:
        case "model":
            return f'<rect class="outline" x="{x}" y="{y}" {size} rx="{number(min(_ROUND, place.height / 2))}"/>'
        case "tools":
            bars = "".join(
                f"M{_pair((side, top))}V{number(bottom)}" for side in (left + _SLANT / 1.6, right - _SLANT / 1.6)
            )
            return f'<rect class="outline" x="{x}" y="{y}" {size}/><path class="outline" d="{bars}"/>'
        case "person":
            return _polygon((left + _SLANT, top), (right, top), (right - _SLANT, bottom), (left, bottom))
        case "effect":
            cut = _SLANT
            return _polygon(
                (left, top), (right - cut, top), (right, top + cut), (right, bottom), (left + cut, bottom),
                (left, bottom - cut),
            )  # fmt: skip
        case "opaque":
            return _polygon(
                (left + _SLANT, top), (right - _SLANT, top), (right, place.y), (right - _SLANT, bottom),
                (left + _SLANT, bottom), (left, place.y),
            )  # fmt: skip
        case "pure":
            return f'<rect class="outline" x="{x}" y="{y}" {size} rx="2"/>'


def _polygon(*corners: Point) -> str:
    return f'<polygon class="outline" points="{" ".join(_pair(corner) for corner in corners)}"/>'


def _legend(picture: Picture, inner: float) -> tuple[list[str], float]:
    """Return the legend, in columns, and its height."""
    entries = legend_of(picture)
    wide = max(SAMPLE[0] + GAP + width(LEGEND[entry], LINE) for entry in entries) + 2 * GAP
    columns = max(1, int((inner + 2 * GAP) // wide))
    rows = -(-len(entries) // columns)
    lines: list[str] = []
    for index, entry in enumerate(entries):
        column, row = divmod(index, rows)
        x, y = column * wide, row * ROW + ROW / 2
        lines.append(_sample(entry, Rectangle(x + SAMPLE[0] / 2, y, *SAMPLE)))
        lines.append(text(x + SAMPLE[0] + GAP, y + LINE * 0.36, LEGEND[entry], size=LINE, kind="start faint"))
    return lines, rows * ROW + _MARGIN / 2


def legend_sample(entry: Entry) -> str:
    """Return the symbol of a legend entry as a small image of a page, which has the style and the text."""
    wide, high = SAMPLE
    sample = _sample(entry, Rectangle(wide / 2 + 2, high / 2 + 2, wide, high))
    size = f'width="{number(wide + 4)}" height="{number(high + 4)}"'
    return (
        f'<svg class="gx" viewBox="0 0 {number(wide + 4)} {number(high + 4)}" {size} aria-hidden="true">{sample}</svg>'
    )


def _sample(entry: Entry, place: Rectangle) -> str:
    """Return the symbol of a legend entry."""
    # The line ends before the tip.
    left, right = (place.min_x, place.y), (place.min_x + place.width - _TIP[0], place.y)
    third = place.width / 3
    curve = (left, (left[0] + third, left[1]), (right[0] - third, right[1]), right)
    match entry:
        case "start":
            return _dot(Rectangle(place.x, place.y, 10, 10))
        case "end":
            return _end_circles(place, 7, 4.5)
        case "edge" | "exhausts" | "red" | "orange" | "grey" | "taken" | "untaken":
            kind = "edge" if entry == "edge" else f"edge {entry}"
            return f'<g class="{kind}">{_curve(Polyline(curve, (right[0] + _TIP[0], right[1])))}</g>'
        case "current" | "failed":
            return f'<g class="node pure {entry}">{outline("pure", place)}</g>'
        case _:
            return f'<g class="node {entry}">{outline(entry, place)}</g>'


def _caption(caption: Sequence[str], inner: float) -> tuple[list[str], float]:
    measure = partial(width, size=_CAPTION)
    lines = [line for sentence in caption for line in wrap_text(sentence.split(), inner, measure)]
    step = _CAPTION * 1.4
    drawn = [text(0, step * (row + 0.8), line, size=_CAPTION, kind="start") for row, line in enumerate(lines)]
    return drawn, step * len(lines)


# Pixels per point: sharp on high-density screens.
_ZOOM = 2


def png(svg: str) -> bytes:
    """Return the picture in its light colours as PNG: two pixels for each unit of the SVG.

    Raises `InputError` if the extra `draw` is not installed.
    """
    try:
        import resvg_py

        typeface = files("font_roboto") / "files"
    except ImportError:
        raise InputError("a PNG needs resvg-py, which is missing; pip install 'graphexec-agents[draw]'") from None
    fonts = [str(typeface / name) for name in ("Roboto-Regular.ttf", "Roboto-Bold.ttf")]
    return resvg_py.svg_to_bytes(svg_string=svg, zoom=_ZOOM, font_files=fonts, sans_serif_family="Roboto")
