"""HTML: one self-contained page that lists many runs, and shows each of them, and any two side by side.

The page holds the body and the script of each of its pages, a drawing of each machine, and the compressed records of
each run. Its own script opens the page that the address names: `#run=a.jsonl&step=15`, `#run=a.jsonl&with=b.jsonl`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from graphexec.draw.model.picture import Arrow, Box, Picture
from graphexec.draw.page.assembly import assemble, body_of, drawing_of, machine_data
from graphexec.draw.page.bundle import bundle
from graphexec.draw.page.encoding import pack_records, readable
from graphexec.draw.runs.data import Record
from graphexec.draw.runs.records import Recording
from graphexec.draw.runs.summary import summarize
from graphexec.errors import InputError

# The pages that the index shows: each has a body and a script of this name.
_PAGES = ("index", "page", "compare")


def index(title: str, runs: Iterable[tuple[str, Recording | str]]) -> str:
    """Draw many runs as an HTML page: pairs of a name and a run, or a string that says why the run cannot be shown.

    The page lists the runs, filters and sorts them, and draws a heat map of their machine. Each run is read once, and
    kept as compressed records; the cost is linear in them. Raises `InputError` for two runs of one name, and if
    pygraphviz is not installed.
    """
    machines = _Machines()
    rows = [_row(machines, name, run) for name, run in runs]
    twice = [name for name, count in Counter(row["name"] for row in rows).items() if count > 1]
    if twice:
        raise InputError(f"two runs have the name {twice[0]}; give each run a name of its own")
    templates = [f'<template id="{page}-body">{body_of(page, drawing="")}</template>' for page in _PAGES]
    templates += [
        f'<template id="drawing-{number}">{drawing}</template>' for number, drawing in enumerate(machines.drawings())
    ]
    return assemble(
        "".join(templates),
        bundle("open.js"),
        title=title,
        data={"title": title, "pictures": machines.to_data(), "runs": rows},
        held={f"{page}-script": bundle(f"{page}.js") for page in _PAGES},
    )


def _row(machines: _Machines, name: str, run: Recording | str) -> Record:
    """Return the facts of a run with its records, or of a damaged trace with its `problem`."""
    if isinstance(run, str):
        return {"name": name, "outcome": "damaged", "problem": run}
    picture = run.machine
    try:
        facts = summarize(run, picture)
    except InputError as error:
        return {"name": name, "outcome": "damaged", "problem": str(error)}
    packed = pack_records(run.records)
    return {"name": name, **readable(facts), "picture": machines.add(picture, facts), "packed": packed}


@dataclass(slots=True)
class _Machine:
    """A machine of some runs: how often they took each edge, the most of one run, and what failed at each node."""

    number: int
    taken: Counter[int] = field(default_factory=Counter[int])
    most: Counter[int] = field(default_factory=Counter[int])
    failed: Counter[str] = field(default_factory=Counter[str])
    runs: int = 0

    def add(self, facts: Record) -> None:
        self.runs += 1
        self.taken.update(facts["edges"])
        for edge, count in facts["edges"].items():
            self.most[edge] = max(self.most[edge], count)
        for node, (_, failures) in facts["nodes"].items():
            self.failed[node] += failures

    def with_notes(self, picture: Picture) -> Picture:
        """Return the picture with the longest notes, so that the layout reserves space for what scripts show."""

        def annotate_arrow(edge: int, arrow: Arrow) -> Arrow:
            total, most = self.taken[edge], self.most[edge]
            notes = (f"×{total:,} in {self.runs:,} of {self.runs:,}", f"A ×{most:,}, B ×{most:,}")
            return replace(arrow, notes=(max(notes, key=len),)) if total else arrow

        def annotate_box(box: Box) -> Box:
            failed = self.failed[box.name]
            return replace(box, notes=(f"{failed:,} failed",)) if failed else box

        return replace(
            picture,
            boxes=tuple(map(annotate_box, picture.boxes)),
            arrows=tuple(annotate_arrow(edge, arrow) for edge, arrow in enumerate(picture.arrows)),
        )


class _Machines:
    """The pictures of runs, and their machines: pictures that differ in limits alone show the same machine."""

    def __init__(self) -> None:
        self._pictures: dict[Picture, tuple[int, _Machine]] = {}
        self._machines: dict[object, _Machine] = {}

    def add(self, picture: Picture, facts: Record) -> int:
        """Count a run, and return the number of its picture."""
        if picture not in self._pictures:
            machine = self._machines.setdefault(picture.structure, _Machine(len(self._machines)))
            self._pictures[picture] = len(self._pictures), machine
        number, machine = self._pictures[picture]
        machine.add(facts)
        return number

    def drawings(self) -> Iterator[str]:
        for picture, (_, machine) in self._pictures.items():
            yield drawing_of(machine.with_notes(picture))

    def to_data(self) -> list[Record]:
        return [{**machine_data(picture), "machine": one.number} for picture, (_, one) in self._pictures.items()]
