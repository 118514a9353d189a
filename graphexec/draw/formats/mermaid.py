"""Mermaid: a machine as a flowchart."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from graphexec.draw.model.picture import COLOURS, WIDTHS, Arrow, Cluster, Look, Mark, Picture, cluster_tree
from graphexec.draw.model.style import LIGHT
from graphexec.draw.model.text import sanitize_lines
from graphexec.kernel.node import END

# Mermaid's brackets for the shape of each kind of node: shapes distinguish the kinds without colour.
_SHAPES: Mapping[Look, tuple[str, str]] = {
    "model": ("([", "])"),
    "tools": ("[[", "]]"),
    "person": ("[/", "/]"),
    "effect": ("(", ")"),
    "opaque": ("{{", "}}"),
    "pure": ("[", "]"),
}

# Style classes of nodes; a later class overrides an earlier one. Light fills with dark text are readable on dark pages,
# too; what is drawn on the page itself is grey or has the colour of a mark.
Class: TypeAlias = Look | Mark | Literal["untaken", "current", "failed", "start", "cluster"]
_DASHES: Mapping[Look, str] = {"opaque": ",stroke-dasharray:2 2"}
_CLASSES: Mapping[Class, str] = {
    **{
        kind: f"fill:{colours.fill},stroke:{colours.stroke},color:{LIGHT.ink}{_DASHES.get(kind, '')}"
        for kind, colours in LIGHT.nodes.items()
    },
    "untaken": "fill:#f2f2f2,stroke:#b0b0b0,color:#707070",
    "current": f"fill:{LIGHT.current},stroke-width:4px",
    "failed": f"stroke:{LIGHT.red},stroke-width:4px",
    **{mark: f"stroke:{COLOURS[mark]},stroke-width:{WIDTHS[mark]}px" for mark in COLOURS},
    "start": "fill:#808080,stroke:#808080",
    "cluster": "fill:none,stroke:#808080,stroke-dasharray:2 3",
}
# A run's edges: a blue for white and for black pages.
_TAKEN = "stroke:#2f81f7,stroke-width:3px"

# Mermaid wraps lines wider than 200 pixels; lines of up to 22 characters never are. Longer ones get 600 pixels.
_SHORT, _ROOM = 22, 600

# Mermaid reads tags and its own placeholders for entities in a title: replace them with characters that look alike.
_ALIKE = str.maketrans(
    {
        "<": "\N{SINGLE LEFT-POINTING ANGLE QUOTATION MARK}",
        ">": "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}",
        "\N{LATIN SMALL LIGATURE FL}": "fl",
        "\N{PILCROW SIGN}": "\N{REVERSED PILCROW SIGN}",
    }
)

# Characters that Mermaid may read as Markdown, a directive, an entity or a delimiter; some of them not between letters.
# It reads some again, in pairs (`$$`, `fa:fa-car`, `\n`), after it has decoded entities: a zero-width space separates
# the pairs. The last two are its placeholders for entities while it parses.
_READ_AGAIN, _APART = r"\:$ﬂ¶", "#8203;"
_READ = re.compile(r"""["#%&*:;<>@`\\\[\]{}|~!$^ﬂ¶]|(?<![^\W_])[_.)+-]|[_.)+-](?![^\W_])|(?<=direction)\s""")


def mermaid(picture: Picture) -> str:
    """Draw a flowchart: edges of used-up limits are dotted, embedded graphs are subgraphs, the caption is the title.

    Mermaid itself draws at most 500 edges and 50,000 characters, unless its `maxEdges` and `maxTextSize` are set.
    """
    # These identifiers are never Mermaid keywords.
    names = {box.name: f"n{number}" for number, box in enumerate(picture.boxes)} | {END.name: "finish"}
    machine = cluster_tree(picture)
    lines = ["---", *_title(picture), *_config(picture), "---", "flowchart TD"]
    lines.append(f'    start((" ")) --> {names[picture.start]}')
    lines += _flow_nodes(machine, "    ")
    if any(arrow.target == END.name for arrow in picture.arrows):
        lines.append(f'    {names[END.name]}((("{END.name}")))')
    for arrow in picture.arrows:
        label = f'"{_text(*arrow.lines)}"'
        link = f"-. {label} .->" if arrow.exhausts else f"-- {label} -->" if arrow.lines else "-->"
        lines.append(f"    {names[arrow.source]} {link} {names[arrow.target]}")
    members = _members(picture)
    members["start"] = ["start"]
    members["cluster"] = [f"g{cluster.number}" for cluster in machine.clusters()]
    lines += _classes(members)
    lines += _link_styles(picture.arrows)
    return "\n".join(lines) + "\n"


def _title(picture: Picture) -> list[str]:
    """Return the caption as YAML; JSON strings are valid YAML."""
    title = " ".join(sanitize_lines(*picture.caption)).translate(_ALIKE)
    return [f"title: {json.dumps(title, ensure_ascii=False)}"] if title else []


def _config(picture: Picture) -> Iterator[str]:
    """Yield the layout options of a flowchart, as YAML."""
    # With this curve, labels stay in the space that the layout reserves for them.
    yield from ("config:", "  flowchart:", "    curve: monotoneY")
    texts = [text for box in picture.boxes for text in (box.title, *box.lines, *box.notes)]
    texts += [text for arrow in picture.arrows for text in arrow.lines]
    if any(len(text) > _SHORT for text in texts):
        yield f"    wrappingWidth: {_ROOM}"
    if any(box.path for box in picture.boxes):
        yield "    subGraphTitleMargin: {top: 8, bottom: 12}"


def _text(*lines: str) -> str:
    """Join lines into Mermaid's text and escape its syntax."""
    return "<br/>".join(_READ.sub(_entity, line) for line in sanitize_lines(*lines)) or "#32;"


def _entity(found: re.Match[str]) -> str:
    apart = _APART if found[0] in _READ_AGAIN else ""
    return f"#{ord(found[0])};{apart}"


def _flow_nodes(cluster: Cluster, indent: str) -> Iterator[str]:
    for one in cluster.inside:
        if isinstance(one, Cluster):
            yield f'{indent}subgraph g{one.number}["{_text(one.name)}"]'
            yield from _flow_nodes(one, indent + "    ")
            yield f"{indent}end"
        else:
            number, box = one
            opening, closing = _SHAPES[box.look]
            below = "".join(f"<br/>{_text(line)}" for line in (*box.lines, *box.notes))
            yield f'{indent}n{number}{opening}"<b>{_text(box.title)}</b>{below}"{closing}'


def _members(picture: Picture) -> dict[Class, list[str]]:
    members: dict[Class, list[str]] = {kind: [] for kind in _CLASSES}
    for number, box in enumerate(picture.boxes):
        name = f"n{number}"
        members[box.look].append(name)
        if box.current:
            members["current"].append(name)
        elif box.taken is False:
            members["untaken"].append(name)
        if box.failed:
            members["failed"].append(name)
        if box.mark:
            members[box.mark].append(name)
    return members


def _classes(members: Mapping[Class, Sequence[str]]) -> list[str]:
    used: dict[Class, Sequence[str]] = {kind: names for kind, names in members.items() if names}
    definitions = [f"    classDef {kind} {_CLASSES[kind]}" for kind in used]
    return definitions + [f"    class {','.join(names)} {kind}" for kind, names in used.items()]


def _link_styles(arrows: Iterable[Arrow]) -> list[str]:
    """Return the styles of highlighted edges and of a run's edges; Mermaid numbers edges in their order."""
    links: dict[str, list[str]] = {}
    # Edge 0 leads to the start.
    for number, arrow in enumerate(arrows, 1):
        if style := _link_style(arrow):
            links.setdefault(style, []).append(str(number))
    return [f"    linkStyle {','.join(numbers)} {style}" for style, numbers in links.items()]


def _link_style(arrow: Arrow) -> str:
    if arrow.mark:
        return f"stroke:{COLOURS[arrow.mark]},stroke-width:{WIDTHS[arrow.mark]}px"
    if arrow.taken is None:
        return ""
    return _TAKEN if arrow.taken else f"stroke:{COLOURS['grey']},stroke-width:1px"
