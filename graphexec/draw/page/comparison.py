"""HTML: one self-contained page that shows two runs side by side, and what differs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from graphexec.draw.model.picture import Arrow, Picture
from graphexec.draw.page.assembly import assemble, body_of, drawing_of, machine_data
from graphexec.draw.page.bundle import bundle
from graphexec.draw.page.encoding import pack_records
from graphexec.draw.runs.overlay import steps_of
from graphexec.draw.runs.records import Recording


def comparison(left: Recording, right: Recording, names: tuple[str, str] = ("first run", "second run")) -> str:
    """Draw two runs as an HTML page; `names` says what they are called, such as their files.

    The page aligns the steps of the runs and opens with the first that differs. Ids, times and counts of tokens are no
    difference. The machine is drawn with both paths; if the runs are of different machines, that of the first run with
    its path. Raises `InputError` if pygraphviz is not installed.
    """
    same = left.machine.structure == right.machine.structure
    arrows = _with_counts(left.machine, [left, right] if same else [left])
    named = zip(names, (left, right), strict=True)
    runs = [{"name": name, "records": pack_records(run.records)} for name, run in named]
    return assemble(
        body_of("compare", drawing=drawing_of(replace(left.machine, arrows=tuple(arrows)))),
        bundle("compare.js"),
        title=f"{names[0]} and {names[1]}",
        data={**machine_data(left.machine), "records": "", "live": None, "runs": runs, "same": same},
    )


def _with_counts(picture: Picture, runs: Iterable[Recording]) -> Iterable[Arrow]:
    """Yield the arrows with the counts of the runs, so that the layout reserves space for what the script shows."""
    taken = [Counter(step.edge for step in steps_of(picture, run.records)) for run in runs]
    for index, arrow in enumerate(picture.arrows):
        counts = [count[index] for count in taken]
        equal = f"×{counts[0]:,}" if len(set(counts)) == 1 else None
        note = equal or ", ".join(f"{side} ×{count:,}" for side, count in zip("AB", counts, strict=True))
        yield replace(arrow, notes=(note,)) if any(counts) else arrow
