"""DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from html import escape

from graphexec.draw.layout.geometry import width
from graphexec.draw.model.picture import WIDTHS, Arrow, Box, Cluster, Look, Mark, Picture, cluster_tree
from graphexec.draw.model.style import LIGHT, Colours
from graphexec.draw.model.text import sanitize_line, sanitize_lines, wrap_text
from graphexec.kernel.node import END

# Shapes distinguish the kinds without colour. Slanted sides stay steep, even on a wide node.
_SHAPES: Mapping[Look, str] = {
    "model": 'shape=box, style="filled,rounded"',
    "tools": "shape=box, peripheries=2",
    "person": "shape=polygon, sides=4, skew=0.2, margin=0",
    "effect": "shape=octagon, margin=0",
    "opaque": 'shape=hexagon, style="filled,dashed"',
    "pure": "shape=box",
}
_COLOURS: Mapping[Mark, str] = {"red": LIGHT.red, "orange": LIGHT.orange, "grey": LIGHT.grey}
# Font sizes of a node's lines and of the caption, and the maximum width of the caption, in points.
_LINE, _CAPTION, _ROOM = 11, 11, 460
# Edges of used-up limits often lead to one node; drawn straighter, fewer of them cross labels.
_STRAIGHT = 3
# The width of a run's edges, in points.
_WIDE = 3
_START = "(start)"


def dot(picture: Picture) -> str:
    """Draw the picture as DOT: edges of used-up limits are dashed, embedded graphs are clusters.

    Nodes have the names of the table.
    """
    font = 'fontname="Helvetica,Arial,sans-serif"'
    lines = [
        "digraph {",
        f'    graph [{font}, fontsize={_CAPTION}, fontcolor="{LIGHT.ink}", nodesep=0.5, ranksep=0.5, newrank=true]',
        f'    node [{font}, fontsize=14, fontcolor="{LIGHT.ink}", style=filled, margin="0.2,0.1"]',
        f'    edge [{font}, fontsize={_LINE}, fontcolor="{LIGHT.ink}", color="{LIGHT.line}", arrowsize=0.8]',
        f'    "{_START}" [label="", shape=circle, width=0.2, fillcolor="{LIGHT.line}", color="{LIGHT.line}"]',
        *_nodes(cluster_tree(picture), "    "),
    ]
    if any(arrow.target == END.name for arrow in picture.arrows):
        lines.append(
            f'    "{END.name}" [shape=doublecircle, margin=0, fillcolor="{LIGHT.paper}", color="{LIGHT.line}"]'
        )
    lines.append(f'    "{_START}" -> {_name(picture.start)}')
    lines += [
        f"    {_name(arrow.source)} -> {_name(arrow.target)} [label={_label(arrow)}{_edge_style(arrow)}]"
        for arrow in picture.arrows
    ]
    # Last, so that no cluster inherits it.
    measure = partial(width, size=_CAPTION)
    sentences = sanitize_lines(*picture.caption)
    if caption := [line for text in sentences for line in wrap_text(text.split(), _ROOM, measure)]:
        text = "".join(rf"{_escape_label(line)}\l" for line in caption)
        lines.append(f'    label="{text}"; labelloc=b; labeljust=l')
    return "\n".join([*lines, "}"]) + "\n"


def _name(name: str) -> str:
    return f'"{_quote(sanitize_line(name))}"'


def _quote(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _escape_label(text: str) -> str:
    """Escape text for a label, in which Graphviz reads entities."""
    return _quote(text.replace("&", "&amp;"))


def _nodes(cluster: Cluster, indent: str) -> Iterator[str]:
    for one in cluster.inside:
        if isinstance(one, Cluster):
            yield f'{indent}subgraph "cluster_{one.number}" {{'
            yield f'{indent}    label="{_escape_label(sanitize_line(one.name))}"; labeljust=l; labelloc=t; margin=14'
            yield f'{indent}    style="filled,rounded"; fillcolor="{LIGHT.cluster}"; color="{LIGHT.faint}"'
            yield from _nodes(one, indent + "    ")
            yield f"{indent}}}"
        else:
            box = one[1]
            yield f"{indent}{_name(box.name)} [label=<{_box_label(box)}>, {_SHAPES[box.look]}{_box_style(box)}]"


def _box_label(box: Box) -> str:
    title = f"<b>{escape(sanitize_line(box.title) or ' ')}</b>"
    lines = sanitize_lines(*box.lines, *box.notes)
    below = (f'<br/><font point-size="{_LINE}">{escape(line)}</font>' for line in lines)
    return title + "".join(below)


def _box_style(box: Box) -> str:
    colours = LIGHT.nodes[box.look]
    text, wide = "", 1.2
    if box.current:
        colours, wide = Colours(LIGHT.current, colours.stroke), 3
    elif box.taken is False:
        colours, text = Colours(LIGHT.paper, LIGHT.grey), f', fontcolor="{LIGHT.faint}"'
    if box.failed:
        colours, wide = Colours(colours.fill, LIGHT.red), 3
    if box.mark:
        colours, wide = Colours(colours.fill, _COLOURS[box.mark]), WIDTHS[box.mark]
    return f', fillcolor="{colours.fill}", color="{colours.stroke}", penwidth={wide}{text}'


def _label(arrow: Arrow) -> str:
    text = r"\n".join(f"  {_escape_label(line)}  " for line in sanitize_lines(*arrow.lines))
    return f'"{text}"'


def _edge_style(arrow: Arrow) -> str:
    dashed = f", style=dashed, weight={_STRAIGHT}" if arrow.exhausts else ""
    if arrow.mark:
        colour = _COLOURS[arrow.mark]
        return f'{dashed}, color="{colour}", fontcolor="{colour}", penwidth={WIDTHS[arrow.mark]}'
    if arrow.taken is None:
        return dashed
    style = (
        f'color="{LIGHT.heat}", penwidth={_WIDE}' if arrow.taken else f'color="{LIGHT.grey}", fontcolor="{LIGHT.faint}"'
    )
    return f"{dashed}, {style}"
