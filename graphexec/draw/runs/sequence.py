"""Mermaid: a run as a sequence diagram."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from graphexec.draw.model.words import plain
from graphexec.draw.runs.interaction import (
    Item,
    Note,
    ParticipantKind,
    Role,
    SentMessage,
    Together,
    interaction_of,
    messages_in,
)
from graphexec.draw.runs.records import AnyRun, recording_of

# With the sign by which the target begins to do something, or the source ends it.
_ARROWS: Mapping[ParticipantKind, str] = {"call": "->>+", "reply": "-->>-", "failure": "--x-"}
_ACTORS: frozenset[Role] = frozenset({"user", "person"})
# Signs that Mermaid may read as an entity, an end, a tag, a directive or a formula; the two that it writes entities
# with while it parses; and a word that it takes for a wish.
_READ = re.compile(r"[#;<>&%$ﬂ¶]|^(?:no)?wrap(?=:)", re.IGNORECASE)


def sequence_mermaid(run: AnyRun, *, most: int | None = None) -> str:
    """Draw a run as Mermaid's `sequenceDiagram`; with `most`, only so many messages, of its beginning and its end.

    What shows it has a limit of its own: 50,000 characters, where its `maxTextSize` is not set.
    """
    shown = interaction_of(recording_of(run), most=most)
    lines = ["sequenceDiagram", "    autonumber"]
    for place, one in enumerate(shown.participants):
        kind = "actor" if one.role in _ACTORS else "participant"
        lines.append(f"    {kind} p{place} as {_text(*(text for text in (one.name, one.detail) if text))}")
    number = 1
    for item in shown.items:
        if (messages := messages_in(item)) and messages[0].number != number:
            lines.append(f"    autonumber {messages[0].number}")
        number = messages[-1].number + 1 if messages else number
        lines += [f"    {line}" for line in _item(item, len(shown.participants) - 1)]
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
        case Note("iteration" | "left out", text):
            yield f"Note over p0,p{last}: {_text(text)}"
        case Note(_, text, over):
            yield f"Note over p{over}: {_text(text)}"


def _message(message: SentMessage) -> str:
    return f"p{message.source}{_ARROWS[message.kind]}p{message.target}: {_text(*message.lines)}"


def _text(*lines: str) -> str:
    return "<br/>".join(_READ.sub(_entities, plain(line)) for line in lines) or "#32;"


def _entities(found: re.Match[str]) -> str:
    return "".join(f"#{ord(sign)};" for sign in found[0])
