"""A drawing for a terminal, of characters alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphexec.draw.model.marks import Mark
from graphexec.draw.model.picture import Arrow, Box, Entry, Look, Nest, Numbered, Picture, legend_of, nest_of, text_of
from graphexec.draw.model.text import cells, plain, plain_lines, wrap_text
from graphexec.kernel.node import END

# Columns; only a name that is longer by itself takes more.
_ROOM = 100
# The frame of each kind: its corners clockwise from the upper left one, its lines, and where its edges leave.
_FRAMES: Mapping[Look, Sequence[str]] = {
    "model": tuple("╭╮╯╰─│┬"),
    "tools": tuple("╔╗╝╚═║╤"),
    "person": tuple("┏┓┛┗━┃┯"),
    "effect": tuple("╒╕╛╘═│╤"),
    "opaque": tuple("┌┐┘└╌╎┬"),
    "pure": tuple("┌┐┘└─│┬"),
    "absent": tuple("┌┐┘└┈┆┬"),
}
_MARKS: Mapping[Mark, str] = {"red": "!!", "orange": "!", "grey": "~"}
_CURRENT = "▸"
_LEGEND: Mapping[Entry, str] = {
    "start": "●",
    "end": "◎",
    "exhausts": "┄",
    "taken": "━",
    "current": _CURRENT,
    "red": _MARKS["red"],
    "orange": _MARKS["orange"],
    "grey": _MARKS["grey"],
}


def terminal(picture: Picture) -> str:
    """Draw the picture with box-drawing characters: each node in the table's order, its edges under it.

    `▼` and `▲` say where the node that an edge leads to stands. The drawing is at most 100 columns wide, if the names
    of nodes and outcomes are not too long for that.
    """
    lines = list(_draw_nest(picture, nest_of(picture), _ROOM))
    # Two spaces behind each, and one between them.
    signs = [f"{_LEGEND[entry]} {text_of(entry)}  " for entry in legend_of(picture) if entry in _LEGEND]
    lines += ["", *wrap_text(signs, _ROOM + 2, cells)]
    if picture.caption:
        lines.append("")
    for text in plain_lines(*picture.caption):
        lines += wrap_text(text.split(" "), _ROOM, cells)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _draw_nest(picture: Picture, nest: Nest, room: int) -> Iterator[str]:
    for one in nest.inside:
        if isinstance(one, Nest):
            yield f"┌┈ {plain(one.name)}"
            yield from (f"┊ {line}" for line in _draw_nest(picture, one, room - 2))
            yield "└┈"
        else:
            yield from _node(picture, one, room)


def _node(picture: Picture, numbered: Numbered, room: int) -> Iterator[str]:
    number, box = numbered
    arrows = [arrow for arrow in picture.arrows if arrow.source == box.name]
    after = {box.name for box in picture.boxes[number:]}
    if box.name == picture.start:
        yield from (" ●", " ▼")
    yield from _draw_box(box, room, leaves=bool(arrows))
    labels = [_label(arrow) for arrow in arrows]
    widest = max(map(cells, labels), default=0)
    for index, (arrow, label) in enumerate(zip(arrows, labels, strict=True), 1):
        line = _line(arrow)
        where = "↻" if arrow.target == box.name else "▼" if arrow.target in after else "▲"
        target = f"◎ {END.name}" if arrow.target == END.name else f"{plain(arrow.target)} {where}"
        way = f"{label} {line * (widest - cells(label) + 1)}▶ {target}"
        last = index == len(arrows)
        yield from _with_notes(f" {'╰' if last else '├'}{line} {way}", arrow.notes, room, last=last)


def _label(arrow: Arrow) -> str:
    again = arrow.lines[1 : len(arrow.lines) - len(arrow.notes)]
    words = (*((_MARKS[arrow.mark],) if arrow.mark else ()), arrow.outcome, *(f"({line})" for line in again))
    return plain(" ".join(words))


def _line(arrow: Arrow) -> str:
    if arrow.exhausts:
        return "┅" if arrow.heat else "┄"
    return "━" if arrow.heat else "─"


def _with_notes(way: str, notes: Sequence[str], room: int, *, last: bool) -> Iterator[str]:
    """The line of an edge, and its notes: behind it if there is room, else under it."""
    text = " · ".join(plain_lines(*notes))
    if text and cells(way) + 2 + cells(text) <= room:
        yield f"{way}  {text}"
        return
    yield way
    under = "      " if last else " │    "
    yield from (under + line for line in wrap_text(text.split(" "), room - len(under), cells))


def _draw_box(box: Box, room: int, *, leaves: bool) -> Iterator[str]:
    left, right, lower_right, lower_left, across, side, way_out = _FRAMES[box.look]
    signs = (*((_CURRENT,) if box.current else ()), *((_MARKS[box.mark],) if box.mark else ()))
    lines = [" ".join((*signs, plain(box.name)))]
    for texts in (box.lines, box.notes):
        lines += wrap_text(" · ".join(plain_lines(*texts)).split(" "), room - 4, cells)
    widest = max(map(cells, lines))
    yield f"{left}{across * (widest + 2)}{right}"
    yield from (f"{side} {line}{' ' * (widest - cells(line))} {side}" for line in lines)
    yield f"{lower_left}{way_out if leaves else across}{across * (widest + 1)}{lower_right}"
