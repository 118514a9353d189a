"""Layouts of machines of 60 nodes: without overlaps, and with lines that one can follow."""

import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, pairwise

import pytest

from graphexec import END
from graphexec.draw.layout.geometry import Layout, Rectangle
from graphexec.draw.layout.graphviz import lay_out
from graphexec.draw.layout.label_layout import clashes
from graphexec.draw.model.picture import Arrow, Box, Picture
from tests.draw.machines import LOOKS, rename
from tests.draw.test_svg import away
from tests.parameters import mark_except

pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")

NODES = 60
# Points between a line's end and its node, and around the picture.
NEAR, MARGIN = 3.0, 20.0


def machine(names: Sequence[str], arrows: Sequence[Arrow]) -> Picture:
    boxes = (Box(name, LOOKS[number % 6], ("asks the model",) * (number % 2)) for number, name in enumerate(names))
    return Picture(names[0], tuple(boxes), tuple(arrows))


NAMES = [f"step_{number}" for number in range(NODES)]


def chain() -> Picture:
    return machine(NAMES, [Arrow(name, "Done", after) for name, after in pairwise([*NAMES, END.name])])


def endless() -> Picture:
    return machine(NAMES, [Arrow(name, "Done", after) for name, after in pairwise([*NAMES, NAMES[0]])])


def cycle() -> Picture:
    return machine(NAMES, [*endless().arrows, Arrow(NAMES[-1], "Finished", END.name)])


def retries() -> Picture:
    """Return a chain with steps back, and with limits that lead to the end or to one node."""
    stop = "stopped_response"
    back = [Arrow(NAMES[number], "Failed", NAMES[number - 4]) for number in range(4, NODES, 5)]
    limits = [
        Arrow(NAMES[number], "Stopped", (END.name, stop)[number % 2], exhausts=True, limits=("iterations",))
        for number in range(9, NODES, 5)
    ]
    return machine([*NAMES, stop], [*chain().arrows, *back, *limits, Arrow(stop, "StoppedResponse", END.name)])


def tree() -> Picture:
    arrows = [
        Arrow(name, ("Left", "Right")[child % 2], NAMES[child])
        for number, name in enumerate(NAMES)
        for child in (2 * number + 1, 2 * number + 2)
        if child < NODES
    ]
    return machine(NAMES, [*arrows, *(Arrow(name, "Done", END.name) for name in NAMES[NODES // 2 :])])


def star() -> Picture:
    cases = [Arrow(NAMES[0], f"Case{number}", name) for number, name in enumerate(NAMES[1:], 1)]
    return machine(NAMES, [*cases, *(Arrow(name, "Done", END.name) for name in NAMES[1:])])


def agents() -> Picture:
    """Return six embedded agents, one after the other."""
    names = [f"agent_{number // 10}.{name}" for number, name in enumerate(NAMES)]
    return rename(retries(), dict(zip(NAMES, names, strict=True)))


def embedded() -> Picture:
    """Return one embedded graph between two nodes."""
    return rename(cycle(), {name: f"research.{name}" for name in NAMES[1:-1]})


def scattered(seed: int) -> Picture:
    """Return a machine whose nodes lead to a later node, with some arrows to any node."""
    chosen = random.Random(seed)
    arrows = [Arrow(NAMES[chosen.randrange(max(0, n - 3), n)], f"To{n}", NAMES[n]) for n in range(1, NODES)]
    arrows += [Arrow(chosen.choice(NAMES), f"Jump{number}", chosen.choice(NAMES)) for number in range(6)]
    return machine(NAMES, [*arrows, Arrow(NAMES[-1], "Done", END.name)])


MACHINES: dict[str, Callable[[], Picture]] = {
    one.__name__: one for one in (chain, cycle, endless, retries, tree, star, agents, embedded)
}
SCATTERED: dict[str, Callable[[], Picture]] = {f"scattered {seed}": partial(scattered, seed) for seed in range(6)}


# Scope "module": pytest runs all tests of a machine one after the other, and its layout is computed once.
@pytest.fixture(
    scope="module", params=mark_except([*MACHINES, *SCATTERED], "retries", "agents", "embedded", "scattered 0")
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def laid_out(name: str) -> tuple[Picture, Layout]:
    picture = (MACHINES | SCATTERED)[name]()
    return picture, lay_out(picture)


@pytest.mark.medium
def test_boxes_and_labels_do_not_overlap(name: str) -> None:
    _, layout = laid_out(name)
    places = [*layout.boxes, layout.start, *([layout.finish] if layout.finish else [])]
    assert not any(one.overlaps(other) for one, other in combinations(places, 2))
    hidden = clashes(layout)
    if name in SCATTERED:
        # The lines of an arbitrary graph cross; its labels are free of boxes and of one another.
        hidden = [clash for clash in hidden if "line" not in clash]
    assert hidden == []


def test_lines_lead_from_source_to_target(name: str) -> None:
    picture, layout = laid_out(name)
    places = dict(zip((box.name for box in picture.boxes), layout.boxes, strict=True))
    if layout.finish is not None:
        places[END.name] = layout.finish
    assert len(layout.arrows) == len(picture.arrows)
    for arrow, line in zip(picture.arrows, layout.arrows, strict=True):
        assert len(line.curve) % 3 == 1
        assert away(line.curve[0], places[arrow.source]) < NEAR, arrow
        assert away(line.tip, places[arrow.target]) < NEAR, arrow
        points = (*line.curve, line.tip)
        inside = Rectangle(layout.width / 2, layout.height / 2, layout.width, layout.height)
        # The control points of a curve may be in the margin.
        assert all(away(point, inside) < MARGIN for point in points), arrow


def test_frames_hold_their_nodes_only(name: str) -> None:
    picture, layout = laid_out(name)
    assert set(layout.clusters) == {box.path for box in picture.boxes if box.path}
    for path, frame in layout.clusters.items():
        for box, place in zip(picture.boxes, layout.boxes, strict=True):
            assert frame.overlaps(place) == (box.path == path), f"{box.name} and the frame of {path}"


@pytest.mark.medium
def test_layout_is_deterministic(name: str) -> None:
    _, layout = laid_out(name)
    lay_out.cache_clear()
    assert laid_out(name)[1] == layout
