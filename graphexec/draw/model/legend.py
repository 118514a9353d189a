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

# In the order of the legend.
_TEXTS: Mapping[Entry, str] = {
    "start": "where a run starts",
    "edge": "a transition, with its outcome",
    "exhausts": "taken when a limit is spent",
    "end": "where it ends",
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


def text_of(entry: Entry) -> str:
    """What it means."""
    return _TEXTS[entry]


def legend_of(picture: Picture) -> list[Entry]:
    """What is in the picture, and may need a word."""
    shown: set[Entry | None] = {"start", "edge"}
    shown |= {one for box in picture.boxes for one in (box.look, box.mark)}
    shown |= {arrow.mark for arrow in picture.arrows}
    shown |= {"exhausts" for arrow in picture.arrows if arrow.exhausts}
    shown |= {"end" for arrow in picture.arrows if arrow.target == END.name}
    shown |= {"taken" if arrow.heat > 0 else "untaken" for arrow in picture.arrows if arrow.heat is not None}
    shown |= {"current" for box in picture.boxes if box.current}
    return [entry for entry in _TEXTS if entry in shown]
