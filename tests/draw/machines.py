"""Pictures for tests: every kind of node, every mark, a run drawn over the machine, and hostile texts; and machines."""

import dataclasses
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphexec import Machine
from graphexec.draw.model.picture import DESCRIPTIONS, Arrow, Box, Look, Mark, Picture
from tests.nodes.shelf import SAMPLES, make_executor
from tests.verify import bad_machines

# The machines of the repository's pictures, and those that cannot be proved.
MACHINES: dict[str, Machine[Any, Any]] = dict(
    runpy.run_path(str(Path(__file__).parents[2] / "diagrams" / "generate.py"))["machines"]()
)
BAD: dict[str, Machine[Any, Any]] = {name: one for name, one in vars(bad_machines).items() if isinstance(one, Machine)}

# Pieces for every seat; `output_type` has two nodes.
MANY = (
    *("guard_input", "redact_pii", "compact", "tell_time", "select_tools", "escalate", "approve_tools", "limit_tool"),
    *("cache_tools", "ask_user", "todo_list", "critic", "output_type", "guard_output"),
)


def plugged(*pieces: str) -> Machine[Any, Any]:
    """Return the standard machine with these pieces of the shelf."""
    return make_executor([SAMPLES[name]() for name in pieces]).graph


# Text with syntax of some format, or similar to it.
HOSTILE = (
    *("<script>alert(1)</script>", """a "quoted" 'one' `tick` ``two``""", "a|b|c ] } ) end", '"]', '"', ""),
    # Markdown and addresses.
    *("1. first", "- item", "+ item", "# head", "---"),
    *("*bold* _em_ __init__ ~~struck~~", "$$x^2$$", "fa:fa-car :tada:"),
    "https://example.org/z?q=1&r=2 [l](http://example.org) www.example.org",
    # Statements of Mermaid, and its placeholders for entities.
    *('%%{init: {"theme": "dark"}}%% %% comment', "style: #red; x", "classDef a:#b; c", "a --> b : c", "x:::y"),
    *("note right of n0", "[*]", "direction LR", "state x {", "click n0 call a()", "ﬂ°°35¶ß"),
    # Entities, lines, escapes and controls.
    *("&lt; &amp; #quot; #35;", "line one\nline two\r\nline three\u2028line four", "\\n \\ back \\"),
    *("\x00\x1b[31m\x7f\ud800", "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL} ok"),
    "\N{HEBREW LETTER SHIN}\N{HEBREW LETTER LAMED} \N{RIGHT-TO-LEFT OVERRIDE}abc",
)

LOOKS: tuple[Look, ...] = ("model", "tools", "person", "effect", "opaque", "pure")
_MARKS: tuple[Mark | None, ...] = (None, "red", "orange", "grey")


def ring(names: tuple[str, ...], texts: tuple[str, ...] = ()) -> Picture:
    """Return a ring of nodes of every kind, each with an exit for a used-up limit and a text as its note."""
    looks: list[Look] = [LOOKS[number % len(LOOKS)] for number in range(len(names))]
    notes = [texts[number % len(texts) :][:1] for number in range(len(names))] if texts else [()] * len(names)
    boxes = tuple(
        Box(name, look, (DESCRIPTIONS[look],) if DESCRIPTIONS[look] else (), notes=note)
        for name, look, note in zip(names, looks, notes, strict=True)
    )
    around = zip(names, (*names[1:], names[0]), notes, strict=True)
    arrows = [Arrow(name, "Next", following, notes=note) for name, following, note in around]
    arrows += [Arrow(name, "Stopped", "END", exhausts=True) for name in names]
    return Picture(names[0], boxes, tuple(arrows), texts)


def rename(picture: Picture, names: Mapping[str, str]) -> Picture:
    """Return the picture with other names for some of its nodes."""
    boxes = tuple(dataclasses.replace(box, name=names.get(box.name, box.name)) for box in picture.boxes)
    ends = [(names.get(arrow.source, arrow.source), names.get(arrow.target, arrow.target)) for arrow in picture.arrows]
    moved = zip(picture.arrows, ends, strict=True)
    arrows = tuple(dataclasses.replace(arrow, source=source, target=target) for arrow, (source, target) in moved)
    return Picture(names.get(picture.start, picture.start), boxes, arrows)


def with_marks(picture: Picture) -> Picture:
    """Return the picture with different marks on its nodes and edges."""
    boxes = tuple(dataclasses.replace(box, mark=_MARKS[i % 2]) for i, box in enumerate(picture.boxes))
    arrows = tuple(dataclasses.replace(arrow, mark=_MARKS[i % 4]) for i, arrow in enumerate(picture.arrows))
    return dataclasses.replace(picture, boxes=boxes, arrows=arrows)


def with_run(picture: Picture) -> Picture:
    """Return the picture with a run that is at the second node and has not visited the third."""
    boxes = tuple(
        dataclasses.replace(box, taken=i != 2, notes=(f"×{i}",), current=i == 1) for i, box in enumerate(picture.boxes)
    )
    arrows = tuple(
        dataclasses.replace(arrow, taken=i % 3 > 0, notes=(f"step {i}",) if i % 3 else ())
        for i, arrow in enumerate(picture.arrows)
    )
    return dataclasses.replace(picture, boxes=boxes, arrows=arrows)


EVERY_LOOK = ring(
    ("ask_model", "call", "ask_person", "ask_world", "inner.deep.do", "inner.decide", "inner.deep.missing")
)
