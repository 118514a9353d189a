"""A drawing for a terminal, made of characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphexec.draw.model.picture import (
    LEGEND,
    Arrow,
    Box,
    Cluster,
    Entry,
    Look,
    Mark,
    NumberedBox,
    Picture,
    cluster_tree,
    legend_of,
)
from graphexec.draw.model.text import count_cells, sanitize_line, sanitize_lines, wrap_text
from graphexec.kernel.node import END

# Columns; only a longer name exceeds them.
_ROOM = 100
# The frame of each kind: corners clockwise from the upper left, horizontal and vertical line, start of the edges.
_FRAMES: Mapping[Look, Sequence[str]] = {
    "model": tuple("╭╮╯╰─│┬"),
    "tools": tuple("╔╗╝╚═║╤"),
    "person": tuple("┏┓┛┗━┃┯"),
    "effect": tuple("╒╕╛╘═│╤"),
    "opaque": tuple("┌┐┘└╌╎┬"),
    "pure": tuple("┌┐┘└─│┬"),
}
_MARKS: Mapping[Mark, str] = {"red": "!!", "orange": "!", "grey": "~"}
_CURRENT, _FAILED = "▸", "✗"
_SIGNS: Mapping[Entry, str] = {
    "start": "●",
    "end": "◎",
    "exhausts": "┄",
    "taken": "━",
    "current": _CURRENT,
    "failed": _FAILED,
    "red": _MARKS["red"],
    "orange": _MARKS["orange"],
    "grey": _MARKS["grey"],
    # Their texts begin with their signs.
}


def terminal(picture: Picture) -> str:
    """Draw the picture with box-drawing characters: the nodes in the table's order, each with its edges below it.

    `▼` and `▲` say whether an edge's target is below or above. The drawing is at most 100 columns wide, unless the
    names of nodes and outcomes are longer.
    """
    lines = list(_draw_cluster(picture, cluster_tree(picture), _ROOM))
    # `wrap_text` adds a third space between two entries.
    signs = [f"{_SIGNS[entry]} {LEGEND[entry]}  ".lstrip() for entry in legend_of(picture) if entry in _SIGNS]
    lines += ["", *wrap_text(signs, _ROOM + 2, count_cells)]
    if picture.caption:
        lines.append("")
    for text in sanitize_lines(*picture.caption):
        lines += wrap_text(text.split(" "), _ROOM, count_cells)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _draw_cluster(picture: Picture, cluster: Cluster, room: int) -> Iterator[str]:
    for one in cluster.inside:
        if isinstance(one, Cluster):
            yield f"┌┈ {sanitize_line(one.name)}"
            yield from (f"┊ {line}" for line in _draw_cluster(picture, one, room - 2))
            yield "└┈"
        else:
            yield from _node(picture, one, room)


def _node(picture: Picture, numbered: NumberedBox, room: int) -> Iterator[str]:
    number, box = numbered
    arrows = [arrow for arrow in picture.arrows if arrow.source == box.name]
    after = {box.name for box in picture.boxes[number:]}
    if box.name == picture.start:
        yield from (" ●", " ▼")
    yield from _draw_box(box, room, leaves=bool(arrows))
    labels = [_label(arrow) for arrow in arrows]
    widest = max(map(count_cells, labels), default=0)
    for index, (arrow, label) in enumerate(zip(arrows, labels, strict=True), 1):
        line = _line(arrow)
        where = "↻" if arrow.target == box.name else "▼" if arrow.target in after else "▲"
        target = f"◎ {END.name}" if arrow.target == END.name else f"{sanitize_line(arrow.target)} {where}"
        way = f"{label}{' ' if label else line}{line * (widest - count_cells(label) + 1)}▶ {target}"
        last = index == len(arrows)
        yield from _with_notes(f" {'╰' if last else '├'}{line} {way}", arrow.notes, room, last=last)


def _label(arrow: Arrow) -> str:
    mark = (_MARKS[arrow.mark],) if arrow.mark else ()
    return sanitize_line(" ".join((*mark, *filter(None, [arrow.outcome]), *(f"({text})" for text in arrow.details))))


def _line(arrow: Arrow) -> str:
    if arrow.exhausts:
        return "┅" if arrow.taken else "┄"
    return "━" if arrow.taken else "─"


def _with_notes(way: str, notes: Sequence[str], room: int, *, last: bool) -> Iterator[str]:
    """Yield the line of an edge and its notes, on the same line if they fit, else below."""
    text = " · ".join(sanitize_lines(*notes))
    if text and count_cells(way) + 2 + count_cells(text) <= room:
        yield f"{way}  {text}"
        return
    yield way
    under = "      " if last else " │    "
    yield from (under + line for line in wrap_text(text.split(" "), room - len(under), count_cells))


def _draw_box(box: Box, room: int, *, leaves: bool) -> Iterator[str]:
    left, right, lower_right, lower_left, across, side, way_out = _FRAMES[box.look]
    states = ((_CURRENT, box.current), (_FAILED, box.failed))
    signs = [sign for sign, has in states if has]
    signs += [_MARKS[box.mark]] if box.mark else []
    lines = [" ".join((*signs, sanitize_line(box.name)))]
    for texts in (box.lines, box.notes):
        lines += wrap_text(" · ".join(sanitize_lines(*texts)).split(" "), room - 4, count_cells)
    widest = max(map(count_cells, lines))
    yield f"{left}{across * (widest + 2)}{right}"
    yield from (f"{side} {line}{' ' * (widest - count_cells(line))} {side}" for line in lines)
    yield f"{lower_left}{way_out if leaves else across}{across * (widest + 1)}{lower_right}"
