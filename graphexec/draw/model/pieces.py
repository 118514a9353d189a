"""The pieces of a machine in its picture: boxes around their nodes, or badges on the edges between other nodes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from graphexec.draw.model.marks import Mark
from graphexec.draw.model.picture import Arrow, Box, Picture, wrap_chain
from graphexec.errors import InputError, did_you_mean

PieceView: TypeAlias = Literal["badges", "boxes"]
VIEWS: tuple[PieceView, ...] = get_args(PieceView)

# More boxes than this are too many for one picture: their edges cross.
MOST_BOXES = 3
# The box for the pieces before the first node of the base machine; no node has a space in its name.
FIRST_PIECES = "first pieces"

_MARKS: tuple[Mark, ...] = ("red", "orange", "grey")


def show_pieces(picture: Picture, view: PieceView | None = None) -> Picture:
    """Return the picture with its pieces as `"boxes"` or as `"badges"`.

    Without a view, up to three pieces are boxes, and more are badges. Raises `InputError` for an unknown view.
    """
    if view not in (None, *VIEWS):
        raise InputError(
            f"pieces={view!r} is no view of pieces; {did_you_mean(str(view), VIEWS, 'write boxes or badges')}"
        )
    many = len({box.group for box in picture.boxes if box.group}) > MOST_BOXES
    return fold_pieces(picture) if view == "badges" or (view is None and many) else picture


def fold_pieces(picture: Picture) -> Picture:
    """Return the picture without the nodes of pieces, whose names are badges on the edges between the other nodes.

    An edge for an outcome of the class `D` from a node to another has the pieces that sit on `D` as its `badges`, in
    the order in which the value passes them. Its `origins` are the pieces that may return a `D` for another outcome of
    that node. So each path of the machine is a path of the picture, and each edge of the picture is a path of the
    machine. The pieces before the first other node are one box. `folded` keeps the boxes of the nodes.
    """
    hidden = {box.name: box for box in picture.boxes if box.group}
    visible = tuple(box for box in picture.boxes if not box.group)
    if not hidden or not visible:
        return picture
    fold = _Fold(picture, hidden)
    arrows = [arrow for box in visible for arrow in fold.leave(box.name)]
    start, first = picture.start, tuple[Box, ...]()
    if start in hidden:
        chain, leaving = fold.begin()
        start, first = FIRST_PIECES, (Box(FIRST_PIECES, "pure", wrap_chain(chain), mark=fold.mark_of(chain)),)
        arrows = [*leaving, *arrows]
    return Picture(start, (*first, *visible), tuple(arrows), picture.caption, picture.given, tuple(hidden.values()))


# A piece as a value of one class enters it: the name of its first node, and the class.
_Entry: TypeAlias = tuple[str, str]


@dataclass(slots=True)
class _Way:
    """An edge of the folded picture in the making: the arrows that lead to it, and those that it passes."""

    causes: list[Arrow] = field(default_factory=list[Arrow])
    passed: list[Arrow] = field(default_factory=list[Arrow])
    badges: list[str] = field(default_factory=list[str])
    origins: list[str] = field(default_factory=list[str])

    def arrow(self, source: str, outcome: str, target: str) -> Arrow:
        every = [*self.causes, *self.passed]
        marks = {arrow.mark for arrow in every}
        exhausts = bool(self.causes) and all(arrow.exhausts for arrow in self.causes)
        known = [arrow.limits for arrow in self.causes]
        return Arrow(
            source,
            outcome,
            target,
            _unique(name for arrow in every for name in arrow.resets),
            exhausts,
            None if None in known or not exhausts else _unique(name for names in known for name in names or ()),
            next((mark for mark in _MARKS if mark in marks), None),
            badges=_unique(self.badges),
            origins=_unique(self.origins),
            own=not self.origins or any(arrow.source == source for arrow in self.causes),
        )


class _Fold:
    def __init__(self, picture: Picture, hidden: dict[str, Box]) -> None:
        self._start, self._given = picture.start, picture.given
        self._hidden = hidden
        self._leaving: dict[str, list[Arrow]] = {}
        for arrow in picture.arrows:
            self._leaving.setdefault(arrow.source, []).append(arrow)

    def leave(self, source: str) -> Iterator[Arrow]:
        """Yield the edges of a node of the base machine."""
        ways: dict[tuple[str, str], _Way] = {}
        entries: list[_Entry] = []
        for arrow in self._leaving.get(source, []):
            if arrow.target in self._hidden:
                entries.append((arrow.target, arrow.outcome))
            else:
                ways.setdefault((arrow.outcome, arrow.target), _Way()).causes.append(arrow)
        self._follow(entries, ways, self._leaving.get(source, []))
        own = [arrow.outcome for arrow in self._leaving.get(source, [])]
        # Its own outcomes come first, in the table's order.
        for outcome, target in sorted(ways, key=lambda way: own.index(way[0]) if way[0] in own else len(own)):
            yield ways[outcome, target].arrow(source, outcome, target)

    def begin(self) -> tuple[tuple[str, ...], list[Arrow]]:
        """Return the pieces that the input of a run passes, and the edges that lead from them."""
        ways: dict[tuple[str, str], _Way] = {}
        chain = self._follow([(self._start, self._given)], ways, [])
        arrows = [way.arrow(FIRST_PIECES, outcome, target) for (outcome, target), way in ways.items()]
        passed = _unique(self._group(name) for name, outcome in chain if outcome == self._given)
        return passed, [
            dataclasses.replace(arrow, badges=() if arrow.outcome == self._given else arrow.badges) for arrow in arrows
        ]

    def mark_of(self, groups: Iterable[str]) -> Mark | None:
        """Return the mark of a node of these pieces, if one has any."""
        found = {box.mark for box in self._hidden.values() if box.group in groups}
        return next((mark for mark in _MARKS if mark in found), None)

    def _group(self, name: str) -> str:
        return self._hidden[name].group

    def _exits(self, entry: str) -> tuple[list[Arrow], list[Arrow]]:
        """Return the edges within a piece that a value may take from this node on, and those that leave the piece."""
        group, seen, inner, leaving = self._group(entry), [entry], list[Arrow](), list[Arrow]()
        for name in seen:
            for arrow in self._leaving.get(name, []):
                box = self._hidden.get(arrow.target)
                if box is None or box.group != group:
                    leaving.append(arrow)
                    continue
                inner.append(arrow)
                if arrow.target not in seen:
                    seen.append(arrow.target)
        return inner, leaving

    def _follow(
        self, entries: list[_Entry], ways: dict[tuple[str, str], _Way], direct: Iterable[Arrow]
    ) -> list[_Entry]:
        """Add the ways from these entries through pieces to `ways`; return the entries in the order of passing."""
        passed: dict[_Entry, tuple[list[Arrow], list[Arrow]]] = {}
        waiting = entries[::-1]
        while waiting:
            entry = waiting.pop()
            if entry in passed:
                continue
            passed[entry] = inner, leaving = self._exits(entry[0])
            # The pieces on the seat of its own class come next, before those of other classes.
            for arrow in sorted(leaving, key=lambda arrow: arrow.outcome == entry[1]):
                if arrow.target in self._hidden:
                    waiting.append((arrow.target, arrow.outcome))
                else:
                    ways.setdefault((arrow.outcome, arrow.target), _Way()).passed += [*inner, arrow]
        for (outcome, _), way in ways.items():
            way.causes += [
                arrow
                for arrow in direct
                if arrow.outcome == outcome and arrow.target in self._hidden and arrow not in way.causes
            ]
            for (name, given), (inner, leaving) in passed.items():
                exits = [arrow for arrow in leaving if arrow.outcome == outcome]
                if given == outcome:
                    way.badges.append(self._group(name))
                    way.passed += inner
                elif exits:
                    way.origins.append(self._group(name))
                    way.causes += exits
                    way.passed += inner
        return list(passed)


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
