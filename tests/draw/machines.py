"""Pictures for tests: every kind of node, every mark, a run drawn over the machine, and hostile texts."""

from __future__ import annotations

import dataclasses

from graphexec.draw.model.marks import Mark
from graphexec.draw.model.picture import DESCRIPTIONS, Arrow, Box, Look, Picture

# Text with syntax of some format, or similar to it.
HOSTILE = (
    "<script>alert(1)</script>",
    """a "quoted" 'one' `tick` ``two``""",
    "a|b|c ] } ) end",
    "1. first",
    "- item",
    "+ item",
    "# head",
    "*bold* _em_ __init__ ~~struck~~",
    '%%{init: {"theme": "dark"}}%% %% comment',
    "style: #red; x",
    "classDef a:#b; c",
    "line one\nline two\r\nline three\u2028line four",
    "&lt; &amp; #quot; #35;",
    "\\n \\ back \\",
    "fa:fa-car :tada:",
    "$$x^2$$",
    # Mermaid's placeholders for entities.
    "ﬂ°°35¶ß",
    "\N{HEBREW LETTER SHIN}\N{HEBREW LETTER LAMED} \N{RIGHT-TO-LEFT OVERRIDE}abc",
    "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL} ok",
    "---",
    "a --> b : c",
    "https://example.org/z?q=1&r=2 [l](http://example.org) www.example.org",
    "\x00\x1b[31m\x7f\ud800",
    "note right of n0",
    "[*]",
    "direction LR",
    "state x {",
    "click n0 call a()",
    "x:::y",
    '"]',
    '"',
    "",
)

LOOKS: tuple[Look, ...] = ("model", "tools", "person", "effect", "opaque", "pure", "absent")
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
    arrows += [Arrow(name, "LimitReached", "END", exhausts=True) for name in names]
    return Picture(names[0], boxes, tuple(arrows), texts)


def with_marks(picture: Picture) -> Picture:
    """Return the picture with different marks on its nodes and edges."""
    boxes = tuple(dataclasses.replace(box, mark=_MARKS[i % 2]) for i, box in enumerate(picture.boxes))
    arrows = tuple(dataclasses.replace(arrow, mark=_MARKS[i % 4]) for i, arrow in enumerate(picture.arrows))
    return dataclasses.replace(picture, boxes=boxes, arrows=arrows)


def with_run(picture: Picture) -> Picture:
    """Return the picture with a run that is at the second node and has not visited the third."""
    boxes = tuple(
        dataclasses.replace(box, heat=float(i != 2), notes=(f"×{i}",), current=i == 1)
        for i, box in enumerate(picture.boxes)
    )
    arrows = tuple(
        dataclasses.replace(arrow, heat=i % 3 / 2, notes=(f"step {i}",) if i % 3 else ())
        for i, arrow in enumerate(picture.arrows)
    )
    return dataclasses.replace(picture, boxes=boxes, arrows=arrows)


EVERY_LOOK = ring(
    ("ask_model", "call", "ask_person", "ask_world", "inner.deep.do", "inner.decide", "inner.deep.missing")
)
