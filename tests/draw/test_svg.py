"""SVG, read as XML: edges connect their nodes, and text is escaped; layouts of 60 nodes have no overlaps."""

import dataclasses
import os
import random
import re
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given

from graphexec import END, Graph, Limits, Machine, executor
from graphexec.draw.formats.svg import png, svg
from graphexec.draw.layout.geometry import Layout, Point, Rectangle
from graphexec.draw.layout.graphviz import lay_out
from graphexec.draw.layout.label_layout import clashes
from graphexec.draw.model.picture import LEGEND, Arrow, Box, Picture, picture_of
from graphexec.verify import Bound, Bounds
from graphexec.verify.proof.findings import Verdict
from tests.checks.strategies import graphs
from tests.draw.machines import BAD, EVERY_LOOK, HOSTILE, LOOKS, MACHINES, rename, ring, with_marks, with_run
from tests.parameters import cases, mark_except, thorough

pytest.importorskip("pygraphviz", reason="pictures are laid out with Graphviz")

SPACE = "{http://www.w3.org/2000/svg}"
DIAGRAMS = Path(__file__).parents[2] / "diagrams"
ALL = MACHINES | BAD
# All layouts take a while, so the quick tests use only the correct machines.
by_machine = pytest.mark.parametrize("name", [*MACHINES, *(pytest.param(name, marks=pytest.mark.slow) for name in BAD)])
# The maximum distance in points of an arrow from its node, and of a label from its line.
NEAR, BESIDE = 3.0, 12.0


@dataclass(frozen=True)
class Drawn:
    """A parsed SVG: the places of the nodes, and the edges with both ends of their lines."""

    root: ET.Element
    nodes: Mapping[str, Rectangle]
    edges: list[tuple[str, Point, Point]]

    def groups(self, kind: str) -> list[ET.Element]:
        """Return the groups that have `data-node`, or `data-edge`."""
        return [group for group in self.root.iter(f"{SPACE}g") if group.get(kind) is not None]


@cache
def verdict_on(name: str) -> Verdict:
    return ALL[name].verify()


def drawing_of(name: str) -> str:
    return svg(picture_of(verdict_on(name)))


def read(drawing: str) -> Drawn:
    root = ET.fromstring(drawing)
    groups = [*root.iter(f"{SPACE}g")]
    nodes = {name: place_of(group) for group in groups if (name := group.get("data-node")) is not None}
    edges = [ends_of(group) for group in groups if "edge" in (group.get("class") or "").split() and len(group) == 3]
    return Drawn(root, nodes, edges)


def numbers(text: str | None) -> list[float]:
    return [float(one) for one in re.findall(r"-?[0-9.]+", text or "")]


def place_of(group: ET.Element) -> Rectangle:
    """Return the rectangle around the first shape of a node."""
    shape = next(one for one in group if one.tag in (f"{SPACE}rect", f"{SPACE}polygon", f"{SPACE}circle"))
    if shape.tag == f"{SPACE}circle":
        x, y, radius = (float(shape.attrib[key]) for key in ("cx", "cy", "r"))
        return Rectangle(x, y, 2 * radius, 2 * radius)
    if shape.tag == f"{SPACE}rect":
        x, y, wide, high = (float(shape.attrib[key]) for key in ("x", "y", "width", "height"))
        return Rectangle(x + wide / 2, y + high / 2, wide, high)
    corners = numbers(shape.get("points"))
    across, down = corners[::2], corners[1::2]
    left, right, top, bottom = min(across), max(across), min(down), max(down)
    return Rectangle((left + right) / 2, (top + bottom) / 2, right - left, bottom - top)


def ends_of(group: ET.Element) -> tuple[str, Point, Point]:
    """Return an edge's title, the start of its line, and the tip of its arrow."""
    title, line, tip = group
    begin, end = numbers(line.get("d")), numbers(tip.get("points"))
    return title.text or "", (begin[0], begin[1]), (end[0], end[1])


def away(point: Point, place: Rectangle) -> float:
    across, down = abs(point[0] - place.x) - place.width / 2, abs(point[1] - place.y) - place.height / 2
    return max(across, down, 0.0)


def along(curve: Sequence[Point]) -> Iterator[Point]:
    """Return points along a chain of Bézier curves, close to one another."""
    for begin in range(0, len(curve) - 1, 3):
        (ax, ay), (bx, by), (cx, cy), (dx, dy) = curve[begin : begin + 4]
        for step in range(101):
            t = step / 100
            s = 1 - t
            f, g, h, i = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
            yield f * ax + g * bx + h * cx + i * dx, f * ay + g * by + h * cy + i * dy


def legible(text: str) -> str:
    """Return the visible characters of a text, without white space."""
    return "".join(one for one in text if one.isprintable() and one not in " \N{REPLACEMENT CHARACTER}")


def captioned(drawing: str) -> list[str]:
    """Return the sentences below the picture, with their lines joined."""
    texts = ET.fromstring(drawing).iter(f"{SPACE}text")
    caption = " ".join(one.text or "" for one in texts if one.get("class") == "start")
    return re.split(r"(?<=\.) (?=[A-Z])", caption)


def holds(machine: Graph[Any, Any], drawing: str) -> None:
    """Check that the edges are those of the table, and connect their source and target."""
    drawn = read(drawing)
    edges = [(edge.source, edge.outcome.__name__, edge.target) for edge in machine.edges]
    edges += [(node.name, f"raises {error.__name__}", END.name) for node in machine for error in node.raises]
    assert [text for text, _, _ in drawn.edges] == [f"{source} --{name}--> {target}" for source, name, target in edges]
    assert drawn.nodes.keys() - {END.name} == machine.nodes.keys()
    for (source, _, target), (title, begin, tip) in zip(edges, drawn.edges, strict=True):
        assert away(begin, drawn.nodes[source]) < NEAR, f"{title} begins elsewhere"
        assert away(tip, drawn.nodes[target]) < NEAR, f"{title} ends elsewhere"


@pytest.mark.medium
@by_machine
def test_edges_connect_source_and_target(name: str) -> None:
    holds(ALL[name], drawing_of(name))


@pytest.mark.medium
@given(machine=graphs())
def test_edges_of_a_random_machine_connect(machine: Graph[Any, Any]) -> None:
    holds(machine, svg(picture_of(machine)))


test_edges_of_many_random_machines_connect = thorough(
    test_edges_of_a_random_machine_connect, 200, graphs(most=5), gate=40
)


@pytest.mark.medium
@by_machine
def test_labels_are_free_and_near_their_line(name: str) -> None:
    picture = picture_of(verdict_on(name))
    layout = lay_out(picture)
    assert clashes(layout) == []
    for arrow, line, label in zip(picture.arrows, layout.arrows, layout.labels, strict=True):
        assert min(away(point, label) for point in along(line.curve)) < BESIDE, f"the label of {arrow} is elsewhere"


@by_machine
def test_text_fits_into_its_node(name: str) -> None:
    drawn = read(drawing_of(name))
    for group in drawn.groups("data-node"):
        place = drawn.nodes[group.attrib["data-node"]]
        texts = [*group.iter(f"{SPACE}text")]
        assert texts
        for words in texts:
            size = float(words.attrib["font-size"])
            x, y = float(words.attrib["x"]), float(words.attrib["y"])
            assert abs(x - place.x) + float(words.attrib["textLength"]) / 2 <= place.width / 2
            assert place.min_y <= y - size * 0.75
            assert y + size * 0.25 <= place.min_y + place.height


def smallest_text(drawing: str) -> float:
    """Return the size of the smallest text, in CSS pixels at the natural size of the picture."""
    root = ET.fromstring(drawing)
    _, _, wide, high = numbers(root.attrib["viewBox"])
    assert (wide, high) == (float(root.attrib["width"]), float(root.attrib["height"]))
    assert "scale" not in drawing
    return min(float(one.attrib["font-size"]) for one in root.iter(f"{SPACE}text"))


@cases("drawing", *sorted(DIAGRAMS.rglob("*.svg")))
def test_no_text_of_a_committed_diagram_is_under_nine_pixels(drawing: Path) -> None:
    assert smallest_text(drawing.read_text("utf-8")) >= 9


@pytest.mark.medium
@given(machine=graphs())
def test_no_text_of_a_random_machine_is_under_nine_pixels(machine: Machine[Any, Any]) -> None:
    assert smallest_text(svg(with_run(picture_of(machine.verify())))) >= 9


def explained(drawing: str) -> None:
    """Check that the legend has exactly the parts of the picture."""
    drawn = read(drawing)
    inside = [*drawn.groups("data-node"), *drawn.groups("data-edge")]
    beside = [group for group in drawn.root.iter(f"{SPACE}g") if group.get("class") and group not in inside]
    shown, sampled = (
        {word for group in groups for word in (group.get("class") or "").split()} for groups in (inside, beside)
    )
    # The line's own class covers both parts of an edge.
    assert sampled == shown - {"edge-label"}
    words = [one.text for one in drawn.root.iter(f"{SPACE}text") if one.get("class") == "start faint"]
    assert words[:2] == [LEGEND["start"], LEGEND["edge"]]
    assert len({*words}) == len(words)
    # The two dots have no class of their own; the line to the start is not in the legend.
    dots = 1 + (END.name in drawn.nodes)
    assert len(words) == dots + len(beside) - 1


@by_machine
def test_legend_describes_a_machine(name: str) -> None:
    explained(drawing_of(name))


@pytest.mark.medium
@cases("picture", EVERY_LOOK, with_marks(EVERY_LOOK), with_run(EVERY_LOOK))
def test_legend_describes_a_picture(picture: Picture) -> None:
    explained(svg(picture))


@cases("name", *MACHINES)
def test_caption_states_the_bound(name: str) -> None:
    verdict = verdict_on(name)
    assert verdict.bounds is not None
    number = verdict.bounds.transitions.number
    (sentence,) = captioned(drawing_of(name))
    assert sentence.startswith("Proved: every run ends, after at most ")
    assert f"{number:,g} transitions" in sentence


def without_bounds() -> str:
    """Return the drawing of a machine whose loops end by measures, in a form that is too long to be written."""
    proved, unknown = verdict_on("examples_orders"), Bound(None, None)
    assert proved.certificate is not None
    certificate = dataclasses.replace(proved.certificate, bounds=Bounds(unknown, {}, unknown))
    return svg(picture_of(dataclasses.replace(proved, certificate=certificate)))


@pytest.mark.medium
@cases(
    "drawing, end",
    (without_bounds, "Proved: every run ends."),
    (
        lambda: svg(picture_of(executor.AGENT_EXECUTOR.verify(Limits(iterations=3)))),
        "14 transitions (4*iterations + 2), 3 model calls (iterations) and 3,000 tool calls (fan_out*iterations).",
    ),
    (
        lambda: svg(picture_of(executor.AGENT_EXECUTOR.verify(Limits(iterations=3, seconds=30)))),
        "30.05 seconds (seconds + 0.05), if nodes, policies and observers return at once and the event loop is not "
        "blocked.",
    ),
    (lambda: drawing_of("examples_orders"), "7 transitions (attempts + 2) and 5 payments (attempts)."),
)
def test_caption_depends_on_limits_and_meters(drawing: Callable[[], str], end: str) -> None:
    (sentence,) = captioned(drawing())
    assert sentence.endswith(end)


@pytest.mark.slow
@cases("name", *BAD)
def test_nonterminating_loops_are_red(name: str) -> None:
    machine, verdict = BAD[name], verdict_on(name)
    seen = [one.witness for one in verdict.findings if one.witness is not None]
    loops = {(step.source, step.outcome) for one in seen for step in one.loop}
    faults = {(one.node, one.outcome) for one in verdict.findings if one.outcome is not None}
    ways = {(step.source, step.outcome) for one in seen for step in one.stem}
    drawn = read(drawing_of(name))
    assert captioned(drawing_of(name))[0].startswith("Proved") == verdict.proved
    coloured = {"red": set[tuple[str, str]](), "orange": set[tuple[str, str]]()}
    for edge, group in zip(machine.edges, drawn.groups("data-edge"), strict=False):
        for colour in coloured.keys() & group.attrib["class"].split():
            coloured[colour].add((edge.source, edge.outcome.__name__))
    table = {(edge.source, edge.outcome.__name__) for edge in machine.edges}
    assert coloured == {"red": (loops | faults) & table, "orange": (ways - loops - faults) & table}


@pytest.mark.medium
@cases("hostile", *HOSTILE)
def test_hostile_text_is_escaped_everywhere(hostile: str) -> None:
    picture = ring((hostile or "a", 'in}"\\.ner', "b"), (hostile,))
    drawing = svg(picture)
    drawing.encode()
    drawn = read(drawing)
    tags = {element.tag.removeprefix(SPACE) for element in drawn.root.iter()}
    assert tags <= {"svg", "desc", "style", "rect", "g", "title", "path", "polygon", "text", "circle"}
    assert len(drawn.edges) == len(picture.arrows)
    assert len(drawn.nodes) == len(picture.boxes) + 1
    shown = [legible(one.text or "") for one in drawn.root.iter(f"{SPACE}text")]
    # In three nodes and at three edges.
    assert shown.count(legible(hostile)) >= 6


@pytest.mark.medium
def test_drawing_is_deterministic_across_processes() -> None:
    program = "import sys, graphexec.executor as it; sys.stdout.write(format(it.AGENT_EXECUTOR, 'svg'))"
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"}
        command = [sys.executable, "-c", program]
        drawn = subprocess.run(command, env=environment, capture_output=True, encoding="utf-8", check=True).stdout
        assert drawn == format(executor.AGENT_EXECUTOR, "svg")


@pytest.mark.medium
def test_png_has_twice_the_svg_size_and_text_without_system_fonts(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing = svg(picture_of(executor.AGENT_EXECUTOR))
    root = ET.fromstring(drawing)
    image = png(drawing)
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    size = [2 * float(root.attrib[side]) for side in ("width", "height")]
    assert list(struct.unpack(">II", image[16:24])) == pytest.approx(size, abs=1)
    resvg_py = pytest.importorskip("resvg_py", reason="resvg is missing: pip install resvg-py")
    monkeypatch.setattr(resvg_py, "svg_to_bytes", partial(resvg_py.svg_to_bytes, skip_system_fonts=True))
    for kind in ("title", "faint", "label"):
        words = rf'<text [^>]*class="{kind}".*?</text>'
        assert re.search(words, drawing)
        assert png(re.sub(words, "", drawing)) != png(drawing)


# ---- machines of 60 nodes


NODES = 60
# Points around the picture.
MARGIN = 20.0


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


LARGE: dict[str, Callable[[], Picture]] = {
    one.__name__: one for one in (chain, cycle, endless, retries, tree, star, agents, embedded)
}
SCATTERED: dict[str, Callable[[], Picture]] = {f"scattered {seed}": partial(scattered, seed) for seed in range(6)}


# Scope "module": pytest runs all tests of a machine one after the other, and its layout is computed once.
@pytest.fixture(
    scope="module", params=mark_except([*LARGE, *SCATTERED], "retries", "agents", "embedded", "scattered 0")
)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def laid_out(name: str) -> tuple[Picture, Layout]:
    picture = (LARGE | SCATTERED)[name]()
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
