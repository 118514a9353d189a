"""Mermaid: a machine as a flowchart, and as a state diagram."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from graphexec.draw.model.marks import COLOURS, WIDTHS, Mark
from graphexec.draw.model.picture import Arrow, Look, Nest, Picture, nest_of, text_of
from graphexec.draw.model.style import LIGHT
from graphexec.draw.model.text import plain_lines
from graphexec.kernel.node import END

# The shape of each kind of node, as Mermaid brackets it: shapes tell the kinds apart without colour.
_SHAPES: Mapping[Look, tuple[str, str]] = {
    "model": ("([", "])"),
    "tools": ("[[", "]]"),
    "person": ("[/", "/]"),
    "effect": ("(", ")"),
    "opaque": ("{{", "}}"),
    "pure": ("[", "]"),
    "absent": ("[", "]"),
}

# How nodes look, by their kind and beyond it; a later class covers an earlier one. Light fills with dark letters are
# read on a dark page, too; what stands on the page itself is grey, or has the colours of marks.
Class: TypeAlias = Look | Mark | Literal["untaken", "current", "start", "nest"]
_DASHES: Mapping[Look, str] = {"opaque": ",stroke-dasharray:2 2", "absent": ",stroke-dasharray:2 3"}
_CLASSES: Mapping[Class, str] = {
    **{
        kind: f"fill:{colours.fill},stroke:{colours.stroke},color:{LIGHT.ink}{_DASHES.get(kind, '')}"
        for kind, colours in LIGHT.nodes.items()
    },
    "untaken": "fill:#f2f2f2,stroke:#b0b0b0,color:#707070",
    "current": f"fill:{LIGHT.current},stroke-width:4px",
    **{mark: f"stroke:{COLOURS[mark]},stroke-width:{WIDTHS[mark]}px" for mark in COLOURS},
    "start": "fill:#808080,stroke:#808080",
    "nest": "fill:none,stroke:#808080,stroke-dasharray:2 3",
}
# A run's edges: a blue for white and for black, and their widths in pixels.
_TAKEN = "#2f81f7"
_UNTAKEN, _LEAST, _MOST = 1.0, 2.0, 6.0

# Mermaid breaks lines that are wider than 200 pixels, which so many characters are not; in this room it does not.
_SHORT, _ROOM = 22, 600

# A title is text, but for tags and for what Mermaid writes entities as: other signs look like them.
_ALIKE = str.maketrans(
    {
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "\N{LATIN SMALL LIGATURE FL}": "fl",
        "\N{PILCROW SIGN}": "\N{REVERSED PILCROW SIGN}",
    }
)

# Signs that Mermaid may read as Markdown, a directive, an entity or an end; some of them not between letters. Some it
# reads again when the entities are characters, in pairs (`$$`, `fa:fa-car`, `\n`), which a space without width parts;
# the last two are what it writes entities as while it parses.
_READ_AGAIN, _APART = r"\:$ﬂ¶", "#8203;"
_READ = re.compile(r"""["#%&*:;<>@`\\\[\]{}|~!$^ﬂ¶]|(?<![^\W_])[_.)+-]|[_.)+-](?![^\W_])|(?<=direction)\s""")


def mermaid(picture: Picture) -> str:
    """Draw a flowchart: the edges of spent limits are dotted, nested graphs are subgraphs, the caption is the title.

    What shows it has limits of its own: 500 edges and 50,000 characters, where its `maxEdges` and `maxTextSize` are not
    set.
    """
    names = _names(picture)
    machine = nest_of(picture)
    lines = ["---", *_title(picture), *_config(picture), "---", "flowchart TD"]
    lines.append(f'    start((" ")) --> {names[picture.start]}')
    lines += _flow_nodes(machine, "    ")
    if any(arrow.target == END.name for arrow in picture.arrows):
        lines.append(f'    {names[END.name]}((("{END.name}")))')
    for arrow in picture.arrows:
        label = f'"{_text(*arrow.lines)}"'
        link = f"-. {label} .->" if arrow.exhausts else f"-- {label} -->"
        lines.append(f"    {names[arrow.source]} {link} {names[arrow.target]}")
    members = _members(picture)
    members["start"] = ["start"]
    members["nest"] = [f"g{nest.number}" for nest in machine.nests()]
    lines += _classes(members)
    lines += _link_styles(picture.arrows)
    return "\n".join(lines) + "\n"


def mermaid_state(picture: Picture) -> str:
    """Draw a state diagram, in which nested graphs are composite states.

    Its lines all look the same: that only a spent limit takes one, or why it is pointed out, stands in its label.
    """
    names = _names(picture) | {END.name: "[*]"}
    title = _title(picture)
    lines = ["---", *title, "---"] if title else []
    lines += ["stateDiagram-v2", f"    [*] --> {names[picture.start]}"]
    lines += _states(nest_of(picture), "    ")
    for arrow in picture.arrows:
        limit = ("a limit is spent",) if arrow.exhausts else ()
        marked = (text_of(arrow.mark),) if arrow.mark else ()
        label = _text(*arrow.lines, *limit, *marked)
        lines.append(f"    {names[arrow.source]} --> {names[arrow.target]} : {label}")
    lines += _classes(_members(picture))
    return "\n".join(lines) + "\n"


def _names(picture: Picture) -> dict[str, str]:
    """Names that mean nothing to Mermaid, whatever the nodes are called."""
    return {box.name: f"n{number}" for number, box in enumerate(picture.boxes)} | {END.name: "finish"}


def _title(picture: Picture) -> list[str]:
    """The caption as YAML, of which JSON is a part."""
    title = " ".join(plain_lines(*picture.caption)).translate(_ALIKE)
    return [f"title: {json.dumps(title, ensure_ascii=False)}"] if title else []


def _config(picture: Picture) -> Iterator[str]:
    """How a flowchart is laid out, as YAML."""
    # With this curve labels stand where room was made for them.
    yield from ("config:", "  flowchart:", "    curve: monotoneY")
    texts = [text for box in picture.boxes for text in (box.title, *box.lines, *box.notes)]
    texts += [text for arrow in picture.arrows for text in arrow.lines]
    if any(len(text) > _SHORT for text in texts):
        yield f"    wrappingWidth: {_ROOM}"
    if any("." in box.name for box in picture.boxes):
        yield "    subGraphTitleMargin: {top: 8, bottom: 12}"


def _text(*lines: str) -> str:
    """Lines as Mermaid's text, in which no sign means anything."""
    return "<br/>".join(_READ.sub(_entity, line) for line in plain_lines(*lines)) or "#32;"


def _entity(found: re.Match[str]) -> str:
    apart = _APART if found[0] in _READ_AGAIN else ""
    return f"#{ord(found[0])};{apart}"


def _flow_nodes(nest: Nest, indent: str) -> Iterator[str]:
    for one in nest.inside:
        if isinstance(one, Nest):
            yield f'{indent}subgraph g{one.number}["{_text(one.name)}"]'
            yield from _flow_nodes(one, indent + "    ")
            yield f"{indent}end"
        else:
            number, box = one
            opening, closing = _SHAPES[box.look]
            below = "".join(f"<br/>{_text(line)}" for line in (*box.lines, *box.notes))
            yield f'{indent}n{number}{opening}"<b>{_text(box.title)}</b>{below}"{closing}'


def _states(nest: Nest, indent: str) -> Iterator[str]:
    for one in nest.inside:
        if isinstance(one, Nest):
            yield f'{indent}state "{_text(one.name)}" as g{one.number} {{'
            yield from _states(one, indent + "    ")
            yield f"{indent}}}"
        else:
            number, box = one
            yield from (f"{indent}n{number} : {_text(line)}" for line in (box.title, *box.lines, *box.notes))


def _members(picture: Picture) -> dict[Class, list[str]]:
    members: dict[Class, list[str]] = {kind: [] for kind in _CLASSES}
    for number, box in enumerate(picture.boxes):
        name = f"n{number}"
        members[box.look].append(name)
        if box.current:
            members["current"].append(name)
        elif box.heat == 0:
            members["untaken"].append(name)
        if box.mark:
            members[box.mark].append(name)
    return members


def _classes(members: Mapping[Class, Sequence[str]]) -> list[str]:
    used: dict[Class, Sequence[str]] = {kind: names for kind, names in members.items() if names}
    definitions = [f"    classDef {kind} {_CLASSES[kind]}" for kind in used]
    return definitions + [f"    class {','.join(names)} {kind}" for kind, names in used.items()]


def _link_styles(arrows: Iterable[Arrow]) -> list[str]:
    """How edges look that are pointed out, and those of a run; Mermaid numbers them as they stand."""
    links: dict[str, list[str]] = {}
    # The first is the one to the start.
    for number, arrow in enumerate(arrows, 1):
        if style := _link_style(arrow):
            links.setdefault(style, []).append(str(number))
    return [f"    linkStyle {','.join(numbers)} {style}" for style, numbers in links.items()]


def _link_style(arrow: Arrow) -> str:
    if arrow.mark:
        return f"stroke:{COLOURS[arrow.mark]},stroke-width:{WIDTHS[arrow.mark]}px"
    if arrow.heat is None:
        return ""
    if arrow.heat == 0:
        return f"stroke:{COLOURS['grey']},stroke-width:{_UNTAKEN:g}px"
    return f"stroke:{_TAKEN},stroke-width:{_LEAST + arrow.heat * (_MOST - _LEAST):.1f}px"
