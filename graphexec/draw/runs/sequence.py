"""Mermaid: a run as a sequence diagram."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from graphexec.draw.model.words import plain
from graphexec.draw.runs.interaction import Item, MessageKind, Note, SentMessage, Together, interaction_of
from graphexec.draw.runs.records import AnyRun, recording_of

# With the sign by which the target begins to do something, or the source ends it.
_ARROWS: Mapping[MessageKind, str] = {"call": "->>+", "reply": "-->>-", "failure": "--x-"}
# Signs that Mermaid may read as an entity, an end, a tag, a directive or a formula; the two that it writes entities
# with while it parses; and a word that it takes for a wish.
_READ = re.compile(r"[#;<>&%$ﬂ¶]|^(?:no)?wrap(?=:)", re.IGNORECASE)


def sequence_mermaid(run: AnyRun) -> str:
    """Draw a run as Mermaid's `sequenceDiagram`.

    Mermaid itself draws no more than 50,000 characters, where its `maxTextSize` is not set.
    """
    interaction = interaction_of(recording_of(run))
    lines = ["sequenceDiagram", "    autonumber"]
    for place, one in enumerate(interaction.participants):
        kind = "actor" if one.role in ("user", "person") else "participant"
        lines.append(f"    {kind} p{place} as {_text(*filter(None, (one.name, one.detail)))}")
    last = len(interaction.participants) - 1
    lines += [f"    {line}" for item in interaction.items for line in _item(item, last)]
    return "\n".join(lines) + "\n"


def _item(item: Item, last: int) -> Iterator[str]:
    match item:
        case SentMessage():
            yield _message(item)
        case Together(text, branches):
            for index, branch in enumerate(branches):
                yield f"par {_text(text)}" if index == 0 else "and"
                yield from (f"    {_message(message)}" for message in branch)
            yield "end"
        case Note("iteration", text):
            yield f"Note over p0,p{last}: {_text(text)}"
        case Note(_, text, over):
            yield f"Note over p{over}: {_text(text)}"


def _message(message: SentMessage) -> str:
    return f"p{message.source}{_ARROWS[message.kind]}p{message.target}: {_text(*message.lines)}"


def _text(*lines: str) -> str:
    return "<br/>".join(_READ.sub(_entities, plain(line)) for line in lines) or "#32;"


def _entities(found: re.Match[str]) -> str:
    return "".join(f"#{ord(sign)};" for sign in found[0])
