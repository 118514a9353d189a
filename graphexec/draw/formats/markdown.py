"""Markdown: a table of a machine's transitions, and one of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from graphexec.draw.model.picture import Arrow, Box, Picture, legend_text
from graphexec.draw.model.text import sanitize_line, sanitize_lines

# Characters that are Markdown syntax, some of them only in some places, and those that would make a link or an emoji.
_READ = re.compile(
    r"""[\\`*\[\]<>#|~&$@]|(?<![^\W_])_|_(?![^\W_])|:(?=//|[\w+-]+:)|(?<=www)\.|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]"""
)
_TICKS = re.compile("`+")


def markdown(picture: Picture) -> str:
    """Write the picture as Markdown: the table of transitions, the caption, and the table of nodes.

    Words replace the line styles and colours of other formats.
    """
    lines = ["| node | outcome | leads to | |", "|---|---|---|---|"]
    for arrow in picture.arrows:
        ends = (_code(arrow.source), _code(arrow.outcome), _code(arrow.target))
        lines.append(_row(*ends, _text(_edge_notes(arrow))))
    for sentence in sanitize_lines(*picture.caption):
        lines += ["", _text([sentence.strip()])]
    lines += ["", "| node | |", "|---|---|"]
    lines += [
        _row(_code(box.name), _text(_node_notes(box, picture.start))) for box in (*picture.boxes, *picture.folded)
    ]
    return "\n".join(lines) + "\n"


def _edge_notes(arrow: Arrow) -> Iterator[str]:
    if arrow.exhausts:
        yield legend_text("exhausts")
    if arrow.badges:
        yield f"passes {' > '.join(arrow.badges)}"
    yield from arrow.details
    if arrow.mark:
        yield legend_text(arrow.mark)
    if arrow.heat == 0:
        yield legend_text("untaken")
    yield from arrow.notes


def _node_notes(box: Box, start: str) -> Iterator[str]:
    if box.name == start:
        yield legend_text("start")
    if box.look == "pure":
        yield legend_text("pure")
    if box.group:
        yield f"of {box.group}"
    yield from box.lines
    if box.mark and box.look != "absent":
        yield legend_text(box.mark)
    if box.current:
        yield legend_text("current")
    yield from box.notes


def _row(*cells: str) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def _text(texts: Iterable[str]) -> str:
    """Join texts into one line and escape Markdown syntax."""
    return "; ".join(_READ.sub(r"\\\g<0>", line) for line in sanitize_lines(*texts))


def _code(name: str) -> str:
    """Format a name as code, with enough backticks; a table needs `|` escaped even there."""
    text = sanitize_line(name).replace("|", r"\|")
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (max(map(len, _TICKS.findall(text))) + 1)
    return f"{ticks} {text} {ticks}"
