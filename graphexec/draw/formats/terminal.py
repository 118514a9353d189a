"""A drawing for a terminal, of characters alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphexec.draw.model.legend import Entry, legend_of, text_of
from graphexec.draw.model.marks import Mark
from graphexec.draw.model.picture import Arrow, Box, Look, Nest, Numbered, Picture, nest_of
from graphexec.draw.model.words import cells, plain, plain_lines
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
    drawing = _Drawing(picture)
    lines = list(drawing.nest(nest_of(picture), _ROOM))
    lines += ["", *_legend(picture)]
    if picture.caption:
        lines += ["", *(line for text in plain_lines(*picture.caption) for line in _broken(text, _ROOM))]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _legend(picture: Picture) -> list[str]:
    """What the signs mean; none of them is parted from its meaning."""
    kept = "\N{NO-BREAK SPACE}"
    signs = [
        f"{_LEGEND[entry]} {text_of(entry)}".replace(" ", kept) for entry in legend_of(picture) if entry in _LEGEND
    ]
    return [line.strip().replace(kept, " ") for line in _broken("   ".join(signs), _ROOM)]


class _Drawing:
    """A picture, with each node's edges at hand."""

    __slots__ = ("_arrows", "_places", "_start")

    def __init__(self, picture: Picture) -> None:
        self._start = picture.start
        self._places = {box.name: number for number, box in enumerate(picture.boxes)}
        self._arrows: dict[str, list[Arrow]] = {box.name: [] for box in picture.boxes}
        for arrow in picture.arrows:
            self._arrows[arrow.source].append(arrow)

    def nest(self, nest: Nest, room: int) -> Iterator[str]:
        """What stands in a graph, nested ones behind a line of their own."""
        for one in nest.inside:
            if isinstance(one, Nest):
                yield f"┌┈ {plain(one.name)}"
                yield from (f"┊ {line}" for line in self.nest(one, room - 2))
                yield "└┈"
            else:
                yield from self._node(one, room)

    def _node(self, numbered: Numbered, room: int) -> Iterator[str]:
        number, box = numbered
        arrows = self._arrows[box.name]
        if box.name == self._start:
            yield from (" ●", " ▼")
        yield from _framed(box, room, leaves=bool(arrows))
        labels = [_label(arrow) for arrow in arrows]
        widest = max(map(cells, labels), default=0)
        for index, (arrow, label) in enumerate(zip(arrows, labels, strict=True), 1):
            line = _line(arrow)
            way = f"{label} {line * (widest - cells(label) + 1)}▶ {self._target(number, arrow)}"
            last = index == len(arrows)
            yield from _with_notes(f" {'╰' if last else '├'}{line} {way}", arrow.notes, room, last=last)

    def _target(self, source: int, arrow: Arrow) -> str:
        if arrow.target == END.name:
            return f"◎ {END.name}"
        place = self._places[arrow.target]
        return f"{plain(arrow.target)} {'↻' if place == source else '▼' if place > source else '▲'}"


def _label(arrow: Arrow) -> str:
    """What stands on an edge: its mark, its outcome, and what is full again."""
    again = arrow.lines[1 : len(arrow.lines) - len(arrow.notes)]
    words = (*((_MARKS[arrow.mark],) if arrow.mark else ()), arrow.outcome, *(f"({line})" for line in again))
    return plain(" ".join(words))


def _line(arrow: Arrow) -> str:
    """What an edge is drawn with; heavy, if a run took it."""
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
    yield from (under + line for line in _broken(text, room - len(under)))


def _framed(box: Box, room: int, *, leaves: bool) -> Iterator[str]:
    """A node's name and lines in the frame of its kind."""
    left, right, lower_right, lower_left, across, side, way_out = _FRAMES[box.look]
    signs = (*((_CURRENT,) if box.current else ()), *((_MARKS[box.mark],) if box.mark else ()))
    lines = [" ".join((*signs, plain(box.name)))]
    for texts in (box.lines, box.notes):
        lines += _broken(" · ".join(plain_lines(*texts)), room - 4)
    widest = max(map(cells, lines))
    yield f"{left}{across * (widest + 2)}{right}"
    yield from (f"{side} {line}{' ' * (widest - cells(line))} {side}" for line in lines)
    yield f"{lower_left}{way_out if leaves else across}{across * (widest + 1)}{lower_right}"


def _broken(text: str, room: int) -> list[str]:
    """Break a text into lines of so many columns, between words where that is possible."""
    lines: list[str] = []
    line = ""
    used = 0
    for word in text.split(" "):
        wide = cells(word)
        if line and used + 1 + wide > room:
            lines.append(line)
            line, used = "", 0
        if line:
            line, used = f"{line} {word}", used + 1 + wide
        elif wide <= room:
            line, used = word, wide
        else:
            *full, line = _pieces(word, room)
            lines += full
            used = cells(line)
    return [*lines, line] if line else lines


def _pieces(word: str, room: int) -> list[str]:
    """A word that is too long for a line, as several."""
    pieces: list[str] = []
    begin = used = 0
    for position, character in enumerate(word):
        wide = cells(character)
        if used + wide > room and position > begin:
            pieces.append(word[begin:position])
            begin, used = position, 0
        used += wide
    return [*pieces, word[begin:]]
