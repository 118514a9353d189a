"""Which nodes and graphs stand in which nested graph of a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from graphexec.draw.picture import Box, Picture

Numbered: TypeAlias = tuple[int, Box]


@dataclass(slots=True)
class Nest:
    """A graph within the machine, or the machine itself (whose name is empty), and what stands in it, in order.

    Nodes have their numbers in the picture. A graph stands where its first node does.
    """

    number: int
    name: str
    inside: list[Numbered | Nest] = field(default_factory=list["Numbered | Nest"])

    def nests(self) -> Iterator[Nest]:
        """Yield the graphs within it, outer ones before inner ones."""
        for one in self.inside:
            if isinstance(one, Nest):
                yield one
                yield from one.nests()


def nest_of(picture: Picture) -> Nest:
    """Return the machine as nested graphs."""
    nests: dict[tuple[str, ...], Nest] = {(): Nest(0, "")}
    for number, box in enumerate(picture.boxes):
        path = box.path
        for depth in range(1, len(path) + 1):
            if path[:depth] not in nests:
                nest = nests[path[:depth]] = Nest(len(nests), path[depth - 1])
                nests[path[: depth - 1]].inside.append(nest)
        nests[path].inside.append((number, box))
    return nests[()]
