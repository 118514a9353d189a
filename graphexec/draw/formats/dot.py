"""DOT, the language of Graphviz: the machine without a style, for programs that draw it in their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphexec.draw.model.picture import COLOURS, WIDTHS, Arrow, Box, Cluster, Look, Picture, cluster_tree
from graphexec.draw.model.text import sanitize_line, sanitize_lines
from graphexec.kernel.node import END

# Shapes distinguish the kinds without colour.
_SHAPES: Mapping[Look, str] = {
    "model": "shape=box, style=rounded",
    "tools": "shape=box, peripheries=2",
    "person": "shape=parallelogram",
    "effect": "shape=octagon",
    "opaque": "shape=hexagon, style=dashed",
    "pure": "shape=box",
}
_START = "(start)"


def dot(picture: Picture) -> str:
    """Write the picture as DOT: edges of used-up limits are dashed, embedded graphs are clusters, marks have colours.

    Nodes have the names of the table.
    """
    lines = ["digraph {", f'    "{_START}" [label="", shape=circle]', *_nodes(cluster_tree(picture), "    ")]
    if any(arrow.target == END.name for arrow in picture.arrows):
        lines.append(f'    "{END.name}" [shape=doublecircle]')
    lines.append(f'    "{_START}" -> {_name(picture.start)}')
    for arrow in picture.arrows:
        style = f"{', style=dashed' if arrow.exhausts else ''}{_mark(arrow)}"
        lines.append(f"    {_name(arrow.source)} -> {_name(arrow.target)} [label={_label(*arrow.lines)}{style}]")
    if picture.caption:
        # Last, so that no cluster inherits it.
        lines.append(f"    label={_label(*picture.caption)}")
    return "\n".join([*lines, "}"]) + "\n"


def _nodes(cluster: Cluster, indent: str) -> Iterator[str]:
    for one in cluster.inside:
        if isinstance(one, Cluster):
            yield f'{indent}subgraph "cluster_{one.number}" {{'
            yield f"{indent}    label={_label(one.name)}"
            yield from _nodes(one, indent + "    ")
            yield f"{indent}}}"
        else:
            box = one[1]
            label = _label(box.title, *box.lines, *box.notes)
            yield f"{indent}{_name(box.name)} [label={label}, {_SHAPES[box.look]}{_mark(box)}]"


def _name(name: str) -> str:
    return f'"{_escape(sanitize_line(name))}"'


def _label(*texts: str) -> str:
    """Return lines as a label, in which Graphviz reads entities."""
    lines = r"\n".join(_escape(line.replace("&", "&amp;")) for line in sanitize_lines(*texts))
    return f'"{lines}"'


def _escape(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


def _mark(one: Box | Arrow) -> str:
    return f', color="{COLOURS[one.mark]}", penwidth={WIDTHS[one.mark]}' if one.mark else ""
