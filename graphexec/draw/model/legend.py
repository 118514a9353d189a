"""The legend: what the shapes and the lines of a picture mean, of those that are in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from graphexec.draw.model.marks import Mark
from graphexec.draw.model.picture import Look, Picture
from graphexec.kernel.node import END

Entry: TypeAlias = Look | Mark | Literal["start", "end", "edge", "exhausts", "taken", "untaken", "current"]

# The size of a sample, the room between things, and the height of a row.
SAMPLE, GAP, ROW = (26.0, 14.0), 9.0, 23.0

_TEXTS: Mapping[Entry, str] = {
    "start": "where a run starts",
    "end": "where it ends",
    "edge": "a transition, with its outcome",
    "exhausts": "taken when a limit is spent",
    "model": "asks a language model",
    "tools": "calls tools",
    "person": "asks a person",
    "effect": "asks the world for something else",
    "opaque": "a function that asks by itself",
    "pure": "a function that asks for nothing",
    "absent": "a node that is missing",
    "red": "can go on for ever, or is wrong",
    "orange": "the way there",
    "grey": "never taken",
    "taken": "taken: at which steps, or how often",
    "untaken": "not taken",
    "current": "the run is here",
}
_LOOKS: tuple[Look, ...] = ("model", "tools", "person", "effect", "opaque", "pure", "absent")
_MARKS: tuple[Mark, ...] = ("red", "orange", "grey")


def text_of(entry: Entry) -> str:
    """What it means."""
    return _TEXTS[entry]


def legend_of(picture: Picture) -> list[Entry]:
    """What is in the picture, and may need a word."""
    looks = {box.look for box in picture.boxes}
    marks = {box.mark for box in picture.boxes} | {arrow.mark for arrow in picture.arrows}
    heats = [arrow.heat for arrow in picture.arrows if arrow.heat is not None]
    entries: list[Entry] = ["start", "edge"]
    if any(arrow.exhausts for arrow in picture.arrows):
        entries.append("exhausts")
    if any(arrow.target == END.name for arrow in picture.arrows):
        entries.append("end")
    entries.extend(look for look in _LOOKS if look in looks)
    entries.extend(mark for mark in _MARKS if mark in marks)
    if any(heat > 0 for heat in heats):
        entries.append("taken")
    if any(heat == 0 for heat in heats):
        entries.append("untaken")
    if any(box.current for box in picture.boxes):
        entries.append("current")
    return entries
