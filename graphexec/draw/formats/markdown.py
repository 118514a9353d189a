"""Markdown: a machine as a table of its transitions, and one of its nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from graphexec.draw.model.picture import Arrow, Box, Picture, text_of
from graphexec.draw.model.text import plain, plain_lines

# Signs that mean something to Markdown, some of them in some places only, and what would become a link or an emoji.
_READ = re.compile(
    r"""[\\`*\[\]<>#|~&$@]|(?<![^\W_])_|_(?![^\W_])|:(?=//|[\w+-]+:)|(?<=www)\.|^[-+=]|(?<=^\d)[.)]|(?<=^\d\d)[.)]"""
)
_TICKS = re.compile("`+")


def markdown(picture: Picture) -> str:
    """Write the picture as Markdown: the table of transitions, the caption, and the table of nodes.

    What a picture shows by lines and colours stands in words.
    """
    lines = ["| node | outcome | leads to | |", "|---|---|---|---|"]
    for arrow in picture.arrows:
        ends = (_code(arrow.source), _code(arrow.outcome), _code(arrow.target))
        lines.append(_row(*ends, _text(_edge_notes(arrow))))
    for sentence in plain_lines(*picture.caption):
        lines += ["", _text([sentence.strip()])]
    lines += ["", "| node | |", "|---|---|"]
    lines += [_row(_code(box.name), _text(_node_notes(box, picture.start))) for box in picture.boxes]
    return "\n".join(lines) + "\n"


def _edge_notes(arrow: Arrow) -> Iterator[str]:
    if arrow.exhausts:
        yield text_of("exhausts")
    # The first is its outcome.
    yield from arrow.lines[1 : len(arrow.lines) - len(arrow.notes)]
    if arrow.mark:
        yield text_of(arrow.mark)
    if arrow.heat == 0:
        yield text_of("untaken")
    yield from arrow.notes


def _node_notes(box: Box, start: str) -> Iterator[str]:
    if box.name == start:
        yield text_of("start")
    if box.look == "pure":
        yield text_of("pure")
    yield from box.lines
    if box.mark and box.look != "absent":
        yield text_of(box.mark)
    if box.current:
        yield text_of("current")
    yield from box.notes


def _row(*cells: str) -> str:
    return "".join(f"| {cell} " if cell else "| " for cell in cells) + "|"


def _text(texts: Iterable[str]) -> str:
    """Texts as one line, in which no sign means anything."""
    return "; ".join(_READ.sub(r"\\\g<0>", line) for line in plain_lines(*texts))


def _code(name: str) -> str:
    """A name as code, with as many backticks as it takes; a table's `|` is escaped even there."""
    text = plain(name).replace("|", r"\|")
    if "`" not in text:
        return f"`{text}`"
    ticks = "`" * (max(map(len, _TICKS.findall(text))) + 1)
    return f"{ticks} {text} {ticks}"
