"""Mermaid: a run as a sequence diagram."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

from graphexec.draw.plain import plain
from graphexec.draw.records import Recording
from graphexec.draw.sequence import Item, Kind, Message, Note, Role, Together, interaction_of

_ARROWS: Mapping[Kind, str] = {"call": "->>", "reply": "-->>", "failure": "--x"}
_ACTORS: frozenset[Role] = frozenset({"user", "person"})
# Signs that Mermaid may read as an entity, an end, a tag, a directive, a formula or a wrap.
_READ = re.compile(r'[#;<>&%{}$\\"`@ﬂ°¶ß]|^(?:no)?wrap|:')


def sequence_mermaid(recording: Recording, *, most: int | None = None) -> str:
    """Draw a run as Mermaid's `sequenceDiagram`; with `most`, only so many messages, of its beginning and its end.

    What shows it has a limit of its own: 50,000 characters, where its `maxTextSize` is not set.
    """
    shown = interaction_of(recording, most=most)
    lines = ["sequenceDiagram", "    autonumber"]
    for place, one in enumerate(shown.participants):
        kind = "actor" if one.role in _ACTORS else "participant"
        lines.append(f"    {kind} p{place} as {_text(*(text for text in (one.name, one.detail) if text))}")
    active = Counter[int]()
    for item in shown.items:
        lines += [f"    {line}" for line in _item(item, len(shown.participants) - 1, active)]
    return "\n".join(lines) + "\n"


def _item(item: Item, last: int, active: Counter[int]) -> Iterator[str]:
    match item:
        case Message():
            yield _message(item, active)
        case Together(text, branches):
            for index, branch in enumerate(branches):
                yield f"par {_text(text)}" if index == 0 else "and"
                yield from (f"    {_message(message, active)}" for message in branch)
            yield "end"
        case Note("iteration" | "left out", text):
            yield f"Note over p0,p{last}: {_text(text)}"
        case Note(_, text, over):
            yield f"Note over p{over}: {_text(text)}"


def _message(message: Message, active: Counter[int]) -> str:
    if message.kind == "call":
        active[message.target] += 1
        ends = "+"
    else:
        # Its call may be left out.
        ends = "-" if active[message.source] else ""
        active[message.source] -= bool(ends)
    return f"p{message.source}{_ARROWS[message.kind]}{ends}p{message.target}: {_text(*message.lines)}"


def _text(*lines: str) -> str:
    return "<br/>".join(_READ.sub(_entities, plain(line)) for line in lines)


def _entities(found: re.Match[str]) -> str:
    return "".join(f"#{ord(sign)};" for sign in found[0])
